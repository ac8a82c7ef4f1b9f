"""Memory that several processes map: named arrays in an anonymous file.

The file never has a name (Linux), or loses it at once, so nothing is left behind, whatever dies when. A process that
is to map it is handed the descriptor through a socket.
"""

import mmap
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from note_rl.types import Array

_ALIGNMENT = 64  # bytes; a cache line, and what BLAS likes


@dataclass(frozen=True, slots=True)
class Column:
    """Where an array lies, `offset` in bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


def layout(arrays: Mapping[str, Array]) -> tuple[list[Column], int]:
    """Returns places for arrays, one behind the other, and the bytes they take in all."""
    columns, offset = [], 0
    for name, values in arrays.items():
        if values.dtype.hasobject:
            raise TypeError(f"{name} holds Python objects ({values.dtype}); processes share numbers only")
        columns.append(Column(name, values.dtype.str, values.shape, offset))
        offset += -(-values.nbytes // _ALIGNMENT) * _ALIGNMENT
    return columns, offset


class Segment:
    """A piece of shared memory; it lives as long as anybody maps it.

    Args:
        descriptor: Of the file; closed here, as the mapping lasts without it.
        num_bytes: Its size.
    """

    def __init__(self, descriptor: int, num_bytes: int) -> None:
        self.num_bytes = num_bytes
        try:
            self._memory = mmap.mmap(descriptor, num_bytes)
        finally:
            os.close(descriptor)

    def views(self, columns: Sequence[Column]) -> dict[str, Array]:
        """Returns the arrays, not copied."""
        return {
            column.name: np.ndarray(column.shape, np.dtype(column.dtype), self._memory, column.offset)
            for column in columns
        }

    def write(self, columns: Sequence[Column], arrays: Mapping[str, Array]) -> None:
        """Copies arrays in."""
        for name, view in self.views(columns).items():
            view[...] = arrays[name]


def anonymous_file(num_bytes: int) -> int:
    """Returns the descriptor of a new file of this size, held in memory where the system can."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("note_rl")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, num_bytes)
    return descriptor
