"""A sum tree: numbers that are drawn from in proportion to their size, a batch at a time."""

import numpy as np

from note_rl.types import Array, FloatArray, IntArray

_WIDTH = 16  # children of a node: few levels, each of which is a handful of operations on the whole batch
_TOP = 4096  # sums at the top that are searched by their running sum


class SumTree:
    """Non-negative numbers in slots 0 to capacity-1, with their sums in groups of 16, of 16 x 16 and so on.

    A sum is always added up anew from its children, never corrected by differences: it does not drift, and it depends
    on the present numbers only, so that a tree rebuilt from them is the same bit for bit. The numbers themselves are
    float32 (4.5 bytes per slot in all), the sums float64.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        size = -(-capacity // _WIDTH) * _WIDTH
        self._levels: list[FloatArray] = [np.zeros(size, np.float32)]  # from the numbers to the top
        while size > _TOP:
            groups = size // _WIDTH
            size = -(-groups // _WIDTH) * _WIDTH if groups > _TOP else groups
            self._levels.append(np.zeros(size, np.float64))
        self._running: FloatArray | None = None  # of the top, while nothing has changed

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return sum(level.nbytes for level in self._levels)

    @property
    def padded(self) -> FloatArray:
        """The numbers, and zeros up to a multiple of 16; to be read only."""
        return self._levels[0]

    @property
    def values(self) -> FloatArray:
        """The numbers, [capacity] float32; to be read only."""
        return self._levels[0][: self.capacity]

    @property
    def total(self) -> float:
        """Sum of all numbers."""
        return float(self._running_sum()[-1])

    def set(self, slots: IntArray, values: FloatArray | float) -> None:
        """Puts numbers into slots [n]; where a slot occurs twice, the last one stays."""
        self._levels[0][slots] = values
        self._running = None
        nodes = slots
        for below, above in zip(self._levels, self._levels[1:], strict=False):
            nodes = nodes // _WIDTH
            if len(nodes) > 4 * _WIDTH:  # neighbours share their parents
                nodes = np.unique(nodes)
            above[nodes] = below.reshape(-1, _WIDTH).take(nodes, axis=0).sum(axis=1, dtype=np.float64)

    def fill(self, values: FloatArray) -> None:
        """Replaces all numbers at once: [capacity]."""
        self._levels[0][: self.capacity] = values
        self._running = None
        for below, above in zip(self._levels, self._levels[1:], strict=False):
            sums = below.reshape(-1, _WIDTH).sum(axis=1, dtype=np.float64)
            above[: len(sums)] = sums

    def find(self, mass: Array) -> IntArray:
        """The slots at which the running sum of all numbers passes the given masses [n], each in [0, total).

        A slot that holds 0 is never found, whatever the rounding.
        """
        running = self._running_sum()
        rest = np.minimum(mass, np.nextafter(running[-1], 0.0))
        nodes: IntArray = np.searchsorted(running, rest, side="right")
        rest -= np.where(nodes > 0, running[nodes - 1], 0.0)
        rows = np.arange(len(rest))
        below = np.zeros((len(rest), _WIDTH + 1))  # what lies before each child, and before the next group
        for level in self._levels[-2::-1]:
            np.cumsum(level.reshape(-1, _WIDTH).take(nodes, axis=0), axis=1, out=below[:, 1:])
            np.minimum(rest, np.nextafter(below[:, -1], 0.0), out=rest)  # else rounding could lead past the group
            child = np.argmin(below[:, 1:] <= rest[:, None], axis=1)  # the first that it does not pass
            rest -= below[rows, child]
            nodes = nodes * _WIDTH + child
        return nodes

    def _running_sum(self) -> FloatArray:
        if self._running is None:
            self._running = np.cumsum(self._levels[-1], dtype=np.float64)
        return self._running
