"""Checkpoints: one file with named arrays and a JSON head. Reading one never runs code.

The file is in safetensors format. Its metadata hold one entry, `note_rl`: JSON with the format version and what is no
array (counters, random states). It is written under a temporary name, flushed to disk and moved into place, so that a
crash while writing leaves the former file.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from note_rl.errors import CheckpointError
from note_rl.types import Array

VERSION = 1
_KEY = "note_rl"


def write_checkpoint(path: str | os.PathLike[str], arrays: Mapping[str, Array], head: Mapping[str, Any]) -> None:
    """Writes arrays and a JSON-able head to one file, all or nothing.

    Raises:
        CheckpointError: The folder cannot be written to.
    """
    target = Path(path)
    metadata = {_KEY: json.dumps({"version": VERSION, **head})}
    contiguous = {name: np.asarray(values, order="C") for name, values in arrays.items()}
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise CheckpointError(f"cannot write a checkpoint to {target}: {error.strerror}") from error
    try:
        save_file(contiguous, temporary, metadata)
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise CheckpointError(f"cannot write a checkpoint to {target}: {error.strerror}") from error
    finally:
        Path(temporary).unlink(missing_ok=True)


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
    except SafetensorError as error:
        raise CheckpointError(f"{source} is damaged or no checkpoint: {error}") from error
    return arrays, head


def _read_head(metadata: Mapping[str, str], source: Path) -> dict[str, Any]:
    if _KEY not in metadata:
        raise CheckpointError(f"{source} was not written by note_rl")
    try:
        head: dict[str, Any] = json.loads(metadata[_KEY])
    except json.JSONDecodeError as error:
        raise CheckpointError(f"{source} is damaged: its head is no JSON") from error
    if head.get("version", VERSION + 1) > VERSION:
        raise CheckpointError(
            f"{source} has format version {head.get('version')}, this note_rl reads up to {VERSION}: update note_rl"
        )
    return head


def nested(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays with a prefix before their names."""
    return {f"{prefix}/{name}": values for name, values in arrays.items()}


def under(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays whose names begin with the prefix, without it."""
    return {name.removeprefix(f"{prefix}/"): values for name, values in arrays.items() if name.startswith(f"{prefix}/")}
