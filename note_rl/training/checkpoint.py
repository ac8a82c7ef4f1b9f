"""Checkpoints: one file with named arrays and a JSON head. Reading one never runs code.

The file is in safetensors format. Its metadata hold one entry, `note_rl`: JSON with the format version and what is no
array (counters, random states), and a checksum of the arrays.
"""

import json
import os
import re
import stat
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from note_rl.errors import CheckpointError
from note_rl.support.files import atomic_target
from note_rl.types import Array

VERSION = 1
_KEY = "note_rl"


def write_checkpoint(path: str | os.PathLike[str], arrays: Mapping[str, Array], head: Mapping[str, Any]) -> None:
    """Writes arrays and a JSON-able head to one file, all or nothing.

    Raises:
        CheckpointError: The folder cannot be written to.
    """
    target = Path(path)
    contiguous = {name: np.asarray(values, order="C") for name, values in arrays.items()}
    metadata = {_KEY: json.dumps({**head, "version": VERSION, "checksum": _checksum(contiguous)})}
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_target(target) as aside:
            aside.touch(exist_ok=False)
            mode = aside.stat().st_mode  # what the umask leaves; safetensors makes its files private
            save_file(contiguous, aside, metadata)
            aside.chmod(stat.S_IMODE(mode))
    except OSError as error:
        raise CheckpointError(f"cannot write a checkpoint to {target}: {error.strerror}") from error
    except SafetensorError as error:  # so it is written by a library that knows no OSError
        cause = _as_os_error(error)
        words = cause.strerror if isinstance(cause, OSError) else cause
        raise CheckpointError(f"cannot write a checkpoint to {target}: {words}") from cause


def _as_os_error(error: SafetensorError) -> Exception:
    """The error of the operating system that a text such as "... (os error 28)" speaks of."""
    found = re.search(r"\(os error (\d+)\)", str(error))
    return error if found is None else OSError(int(found[1]), os.strerror(int(found[1])))


def check_writable(path: str | os.PathLike[str]) -> None:
    """Makes the folder of a file that is to be written later, and sees that something can be written there.

    Raises:
        CheckpointError: It cannot, or there is a folder in place of the file.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise CheckpointError(f"cannot write a checkpoint to {target}: {error.strerror}") from error
    if target.is_dir():
        raise CheckpointError(f"cannot write a checkpoint to {target}: it is a folder; name a file in it")


def read_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Array], dict[str, Any]]:
    """Arrays and head of a checkpoint.

    Raises:
        CheckpointError: There is no such file, or it is damaged, foreign or from a newer version.
    """
    source = Path(path)
    if not source.is_file():
        raise CheckpointError(f"there is no checkpoint {source}")
    try:
        with safe_open(source, framework="numpy") as file:
            metadata = file.metadata() or {}
            head = _read_head(metadata, source)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except OSError as error:
        raise CheckpointError(f"cannot read the checkpoint {source}: {error.strerror}") from error
    except SafetensorError as error:
        raise CheckpointError(f"{source} is damaged or no checkpoint: {error}") from error
    if "checksum" in head and head["checksum"] != _checksum(arrays):
        raise CheckpointError(f"{source} is damaged: its arrays are not those that were written")
    return arrays, head


def _checksum(arrays: Mapping[str, Array]) -> int:
    """CRC-32 over all names and values, in the order of the names."""
    checksum = 0
    for name in sorted(arrays):
        checksum = zlib.crc32(np.ascontiguousarray(arrays[name]).data, zlib.crc32(name.encode(), checksum))
    return checksum


def _read_head(metadata: Mapping[str, str], source: Path) -> dict[str, Any]:
    if _KEY not in metadata:
        raise CheckpointError(f"{source} was not written by note_rl")
    try:
        head: dict[str, Any] = json.loads(metadata[_KEY])
    except json.JSONDecodeError as error:
        raise CheckpointError(f"{source} is damaged: its head is no JSON") from error
    if not isinstance(head, dict) or not isinstance(head.get("version"), int):
        raise CheckpointError(f"{source} is damaged: its head names no version")
    if head["version"] > VERSION:
        raise CheckpointError(
            f"{source} has format version {head['version']}, this note_rl reads up to {VERSION}: update note_rl"
        )
    return head
