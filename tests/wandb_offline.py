"""Reads back what wandb wrote offline; wandb itself ships no reader.

A .wandb file is a 7-byte header (":W&B", u16 0xBEE1, u8 version) followed by records in the framing of LevelDB's log:
in blocks of 32 KiB, chunks of crc32 (u32 over type and data), length (u16), type (u8: whole, first, middle, last) and
data, all little-endian; a block's last bytes are padding where no chunk header fits. A record is a protobuf message.
"""

import json
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import wandb
from wandb.proto import wandb_internal_pb2

Record: Any = wandb_internal_pb2.Record  # type: ignore[attr-defined]  # made when the module is loaded

BLOCK = 32 * 1024
HEADER = struct.Struct("<4sHB")
CHUNK = struct.Struct("<IHB")
WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4


@dataclass
class OfflineRun:
    """One run as W&B would get it."""

    id: str = ""
    project: str = ""
    name: str = ""
    group: str = ""
    job_type: str = ""
    tags: tuple[str, ...] = ()
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None
    files: tuple[str, ...] = ()


def read_runs(folder: Path, pattern: str = "*.wandb") -> list[OfflineRun]:
    """All runs below a folder, by name."""
    return sorted((read_run(path) for path in folder.rglob(pattern)), key=lambda run: run.name)


def read_run(path: Path) -> OfflineRun:
    run = OfflineRun(files=tuple(sorted(entry.name for entry in path.parent.glob("files/**/*") if entry.is_file())))
    for payload in _payloads(path.read_bytes()):
        record = Record.FromString(payload)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run.id, run.project, run.name = record.run.run_id, record.run.project, record.run.display_name
            run.group, run.job_type, run.tags = record.run.run_group, record.run.job_type, tuple(record.run.tags)
            run.config.update({item.key: json.loads(item.value_json) for item in record.run.config.update})
        elif kind == "config":
            run.config.update({item.key: json.loads(item.value_json) for item in record.config.update if item.key})
        elif kind == "history":
            row = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            run.history.append({"_step": record.history.step.num, **row})
        elif kind == "summary":
            items = record.summary.update
            run.summary.update({item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items})
        elif kind == "exit":
            run.exit_code = record.exit.exit_code
    run.config.pop("_wandb", None)
    return run


def _payloads(content: bytes) -> Iterator[bytes]:
    magic, number, _ = HEADER.unpack_from(content)
    assert (magic, number) == (b":W&B", 0xBEE1), "not a .wandb file"
    position, parts = HEADER.size, bytearray()
    while position + CHUNK.size <= len(content):
        if BLOCK - position % BLOCK < CHUNK.size:  # padding
            position += BLOCK - position % BLOCK
            continue
        checksum, length, kind = CHUNK.unpack_from(content, position)
        data = content[position + CHUNK.size : position + CHUNK.size + length]
        assert zlib.crc32(data, zlib.crc32(bytes([kind]))) == checksum, f"damaged at byte {position}"
        position += CHUNK.size + length
        parts = bytearray(data) if kind in (WHOLE, FIRST) else parts + data
        if kind in (WHOLE, LAST):
            yield bytes(parts)


def without_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key, no settings, nothing kept from an earlier test."""
    for name in [name for name in os.environ if name.startswith("WANDB")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "settings"))
    wandb.teardown()  # its settings are read from the environment once in a process


def hanging_init(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Lets `wandb.init` wait, as for a server that accepts and says nothing.

    Returns:
        Set, it goes on, and fails; set by it once it was called.
    """
    release, entered = threading.Event(), threading.Event()

    def init(**arguments: Any) -> None:
        entered.set()
        release.wait()
        raise wandb.Error("no answer")

    monkeypatch.setattr(wandb, "init", init)
    return release, entered
