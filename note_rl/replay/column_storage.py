"""Where the columns of a pool lie: in memory, or in a file that the system maps, where they would take most of it."""

import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from note_rl.errors import SettingsError
from note_rl.support.memory import free_memory
from note_rl.types import Array

_log = logging.getLogger(__name__)

SHARE: Final = 0.5
"""Of the memory that is free. A pool that takes more lies in a file."""
_GB: Final = 1e9


def zeros(num_slots: int, like: Mapping[str, tuple[tuple[int, ...], np.dtype[np.generic]]]) -> dict[str, Array]:
    """Columns of zeros.

    A file is deleted at once, and so gone with the process, however that ends. The system writes back what is not in
    use: a pool of any size works, as fast as memory holds what is read again and again and the disk brings the rest.

    Args:
        num_slots: Length of each column.
        like: Name -> shape and type of what lies in a slot.

    Raises:
        SettingsError: Neither memory nor the disk has room for them.
    """
    sizes = {name: num_slots * int(np.prod(shape)) * dtype.itemsize for name, (shape, dtype) in like.items()}
    needed, free = sum(sizes.values()), free_memory()
    if needed <= SHARE * free:
        return {name: np.zeros((num_slots, *shape), dtype) for name, (shape, dtype) in like.items()}
    folder = Path(tempfile.gettempdir())
    room = shutil.disk_usage(folder).free
    if needed > room:
        fits = int(num_slots * max(SHARE * free, room) / needed)
        raise SettingsError(
            f"a pool of {num_slots:,} transitions takes {needed / _GB:.1f} GB, more than {SHARE:.0%} of the free "
            f"memory ({free / _GB:.1f} GB) and than the disk of {folder} has ({room / _GB:.1f} GB): choose a capacity "
            f"of {fits:,} at most, or set TMPDIR to a folder on a larger disk"
        )
    _log.warning(
        "the pool takes %.1f GB, more than %.0f %% of the free memory (%.1f GB): it lies in a file in %s",
        *(needed / _GB, 100 * SHARE, free / _GB, folder),
    )
    return {name: _mapped(folder, num_slots, *like[name], sizes[name]) for name in like}


def _mapped(folder: Path, num_slots: int, shape: tuple[int, ...], dtype: np.dtype[np.generic], num_bytes: int) -> Array:
    with tempfile.TemporaryFile(dir=folder, prefix="note_rl_pool_") as file:
        if num_bytes and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, num_bytes)  # a disk that is full says so now, and not in mid-training
        return np.asarray(np.memmap(file, dtype, "r+" if num_bytes else "w+", shape=(num_slots, *shape)))
