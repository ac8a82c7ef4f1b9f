"""Many small arrays as one tensor on their way into compiled code, and many tensors as one array on their way back.

Around a call into compiled code, every tensor that goes in or comes back costs 10 to 40 us in TensorFlow's Python. For
a single gradient step of a small network that is more than the step itself. A copy of some kilobytes costs next to
nothing.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from note_rl.learners.keras.tensorflow_internals import quick_call
from note_rl.types import Array

_BYTES = 4


class Packing:
    """How arrays are laid out: numbers of 4 bytes behind each other in one buffer, all others apart.

    Args:
        like: Arrays by name, of whose shapes and types those to be packed are.
    """

    def __init__(self, like: Mapping[str, Array]) -> None:
        self._together = {name: _is_packed(array) for name, array in like.items()}
        self._shapes = {name: array.shape for name, array in like.items()}
        self._types = {name: tf.as_dtype(array.dtype) for name, array in like.items()}

    def packed(self, arrays: Mapping[str, Array]) -> list[Any]:
        """Returns tensors: the buffer, then those that stay apart."""
        parts = [array.reshape(-1).view(np.float32) for name, array in arrays.items() if self._together[name]]
        apart = [tf.constant(array) for name, array in arrays.items() if not self._together[name]]
        return [tf.constant(np.concatenate(parts)), *apart]

    def unpacked(self, tensors: Sequence[Any]) -> dict[str, Any]:
        """Returns tensors by name, of those that `packed` has given; within a function that is being traced."""
        buffer, *apart = tensors
        others, begin, columns = iter(apart), 0, {}
        for name, together in self._together.items():
            if not together:
                columns[name] = next(others)
                continue
            end = begin + math.prod(self._shapes[name])
            columns[name] = tf.bitcast(tf.reshape(buffer[begin:end], self._shapes[name]), self._types[name])
            begin = end
        return columns


class PackedRows:
    """How results of a compiled function are laid out in the one tensor that it returns."""

    def __init__(self) -> None:
        self._shapes: dict[str, tuple[int, ...]] = {}

    def packed(self, rows: Mapping[str, Any]) -> Any:
        """Returns them as one tensor [N] of float32; within a function that is being traced."""
        self._shapes = {name: tuple(row.shape) for name, row in rows.items()}
        return tf.concat([tf.reshape(tf.cast(row, tf.float32), [-1]) for row in rows.values()], 0)

    def unpacked(self, flat: Array) -> dict[str, Array]:
        """Returns arrays by name, of the numbers [N] of that tensor."""
        begin, rows = 0, {}
        for name, shape in self._shapes.items():
            end = begin + math.prod(shape)
            rows[name] = flat[begin:end].reshape(shape)
            begin = end
        return rows


class PackedFunction:
    """A traced function of arrays by name, with what lays out its arguments and results.

    Args:
        function: Of tensors as `packing` has them; it returns one as `rows` has it.
        packing: Of its arguments.
        rows: Of its results.

    Attributes:
        function: As it was given.
    """

    def __init__(self, function: Callable[..., Any], packing: Packing, rows: PackedRows) -> None:
        self.function = function
        self._packing = packing
        self._rows = rows
        self._call = quick_call(function)

    def __call__(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Returns its results by name."""
        return self._rows.unpacked(self._call(*self._packing.packed(arrays)).numpy())


def _is_packed(array: Array) -> bool:
    return array.dtype.itemsize == _BYTES and array.dtype.kind in "fiu"
