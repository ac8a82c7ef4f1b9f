"""Checkpoints: one file with named arrays and a JSON head. Reading one never runs code.

The file is in safetensors format. Its metadata hold one entry, `note_rl`: JSON with who wrote it
(`note_rl.support.formats`), what is no array (counters, random states), and a checksum of the arrays.

A checkpoint may also be a folder: a file in the same format for each array, written several at a time, and the head in
`note_rl.json`.
"""

import json
import os
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from note_rl.errors import CheckpointError
from note_rl.support.atomic_files import atomic_folder, atomic_target
from note_rl.support.formats import WRITTEN_BY, marked, why_unreadable
from note_rl.types import Array

_KEY = "note_rl"
_HEAD_FILE, _SUFFIX = "note_rl.json", ".safetensors"  # in a folder
_MOST_AT_A_TIME = 8


def write_checkpoint(path: str | os.PathLike[str], arrays: Mapping[str, Array], head: Mapping[str, Any]) -> None:
    """Writes arrays and a JSON-able head to one file, all or nothing.

    Raises:
        CheckpointError: The folder cannot be written to.
    """
    target = Path(path)
    contiguous = {name: np.asarray(values, order="C") for name, values in arrays.items()}
    metadata = {_KEY: _head_of(contiguous, head)}
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


def write_checkpoint_folder(path: str | os.PathLike[str], arrays: Mapping[str, Array], head: Mapping[str, Any]) -> None:
    """Writes the same as a folder, with a file for each array; see `write_checkpoint`. A former one is replaced.

    Raises:
        CheckpointError: It cannot be written, or something else is in its place.
    """
    target = Path(path)
    check_replaceable(target)
    contiguous = {name: np.asarray(values, order="C") for name, values in arrays.items()}
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(target) as aside, ThreadPoolExecutor(_MOST_AT_A_TIME) as threads:
            aside.mkdir()
            written = [
                threads.submit(save_file, {name: contiguous[name]}, aside / _file_of(number, name))
                for number, name in enumerate(sorted(contiguous))
            ]
            for one in written:
                one.result()
            (aside / _HEAD_FILE).write_text(_head_of(contiguous, head), encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"cannot write a checkpoint to {target}: {error.strerror}") from error
    except SafetensorError as error:
        cause = _as_os_error(error)
        words = cause.strerror if isinstance(cause, OSError) else cause
        raise CheckpointError(f"cannot write a checkpoint to {target}: {words}") from cause


def _file_of(number: int, name: str) -> str:
    """Called as its array, as far as names of files may be; the number keeps two of them apart."""
    return f"{number:04d}-{re.sub(r'[^A-Za-z0-9_.-]+', '.', name)[-100:]}{_SUFFIX}"


def _head_of(arrays: Mapping[str, Array], head: Mapping[str, Any]) -> str:
    return json.dumps(marked({**head, "checksum": _checksum(arrays)}))


def is_checkpoint_folder(path: Path) -> bool:
    """Whether a checkpoint was written there as a folder."""
    return not path.is_symlink() and (path / _HEAD_FILE).is_file()


def check_replaceable(target: Path) -> None:
    """Refuses what a folder of a checkpoint would take the place of (CheckpointError), but for another one."""
    if target.is_symlink() or (target.exists() and not is_checkpoint_folder(target)):
        raise CheckpointError(
            f"cannot write a checkpoint to {target}: parallel_dump=True makes a folder of it, and what is there is no "
            "such folder; name another path"
        )


def remove_checkpoint(path: Path) -> None:
    """Removes a checkpoint, a file or a folder, if it is there (OSError: it cannot)."""
    if is_checkpoint_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _as_os_error(error: SafetensorError) -> Exception:
    """The error of the operating system that a text such as "... (os error 28)" speaks of."""
    found = re.search(r"\(os error (\d+)\)", str(error))
    return error if found is None else OSError(int(found[1]), os.strerror(int(found[1])))


def check_writable(path: str | os.PathLike[str], as_folder: bool = False) -> None:
    """Makes the folder of a file that is to be written later, and sees that something can be written there.

    Args:
        path: Of the file.
        as_folder: Whether it is to be a folder itself.

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
    if as_folder:
        check_replaceable(target)
    elif target.is_dir():
        raise CheckpointError(f"cannot write a checkpoint to {target}: it is a folder; name a file in it")


def read_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Array], dict[str, Any]]:
    """Arrays and head of a checkpoint.

    Raises:
        CheckpointError: There is no such file, or it is damaged, foreign or from a newer version.
    """
    source = Path(path)
    in_folder = is_checkpoint_folder(source)
    if not (in_folder or source.is_file()):
        raise CheckpointError(f"there is no checkpoint {source}")
    try:
        if in_folder:
            head = _read_head({_KEY: (source / _HEAD_FILE).read_text(encoding="utf-8", errors="replace")}, source)
            arrays = _read_arrays(source)
        else:
            with safe_open(source, framework="numpy") as file:
                head = _read_head(file.metadata() or {}, source)
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except OSError as error:
        raise CheckpointError(f"cannot read the checkpoint {source}: {error.strerror}") from error
    except SafetensorError as error:
        if source.is_file() and _is_pickled(source):
            raise CheckpointError(
                f"{source} is a pickle, or was written by torch.save, which is not read, as that runs whatever code "
                "stands in it: if you trust it, load it yourself and copy its values into agent.param; save_param() "
                "then writes a file that restore_param() reads"
            ) from error
        raise CheckpointError(f"{source} is damaged or no checkpoint: {error}") from error
    if head.get("checksum") != _checksum(arrays):
        raise CheckpointError(f"{source} is damaged: its arrays are not those that were written")
    return arrays, head


def _read_arrays(folder: Path) -> dict[str, Array]:
    """Those of all files in a folder; links are left out, as they lead elsewhere."""
    files = [one for one in folder.iterdir() if one.suffix == _SUFFIX and one.is_file() and not one.is_symlink()]
    with ThreadPoolExecutor(_MOST_AT_A_TIME) as threads:
        several = list(threads.map(load_file, files))
    return {name: values for arrays in several for name, values in arrays.items()}


def _is_pickled(source: Path) -> bool:
    """Whether a file begins and ends as pickle writes it since protocol 2, or is an archive, as torch.save writes."""
    content = source.read_bytes()
    return zipfile.is_zipfile(source) or (content[:1] == b"\x80" and content[1:2] < b"\x08" and content[-1:] == b".")


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
    why = why_unreadable(head.get(WRITTEN_BY) if isinstance(head, dict) else None)
    if why is not None:
        raise CheckpointError(f"cannot read the checkpoint {source}: {why}")
    return head
