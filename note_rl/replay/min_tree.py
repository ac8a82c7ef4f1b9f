"""A tree of minima: the lowest of many numbers, found without looking at all of them."""

import numpy as np

from note_rl.types import FloatArray, IntArray

_WIDTH = 16  # children of a node
_TOP = 4096  # minima at the top that are looked at one by one


class MinTree:
    """Minima of numbers in groups of 16, of 16 x 16 and so on; a number of 0 stands for nothing and is passed over.

    Args:
        numbers: [N] float32, N a multiple of 16. Not copied: who changes them says so by changed().
    """

    def __init__(self, numbers: FloatArray) -> None:
        self._numbers = numbers
        self._levels: list[FloatArray] = []  # from groups of 16 to the top
        below = np.where(numbers > 0.0, numbers, np.inf).astype(np.float32)
        while len(below) > _TOP:
            padded = np.full(-(-len(below) // _WIDTH) * _WIDTH, np.inf, np.float32)
            padded[: len(below)] = below
            if self._levels:
                self._levels[-1] = padded
            below = padded.reshape(-1, _WIDTH).min(axis=1)
            self._levels.append(below)

    def changed(self, slots: IntArray) -> None:
        """The numbers in these slots [n] are others now."""
        nodes = slots
        for number, above in enumerate(self._levels):
            nodes = nodes // _WIDTH
            if len(nodes) > 4 * _WIDTH:  # neighbours share their parents
                nodes = np.unique(nodes)
            below = self._values(number).reshape(-1, _WIDTH).take(nodes, axis=0)
            above[nodes] = (np.where(below > 0.0, below, np.inf) if number == 0 else below).min(axis=1)

    def _values(self, number: int) -> FloatArray:
        """The numbers below this level, of which its nodes are the minima."""
        return self._numbers if number == 0 else self._levels[number - 1]

    def lowest(self, count: int) -> IntArray:
        """Slots [count] of the lowest numbers above 0, in no order; there must be `count`.

        The `count` lowest numbers lie below the `count` nodes of the lowest minima, at every level: O(count log N).
        """
        nodes: IntArray = np.arange(len(self._values(len(self._levels))))
        for number in range(len(self._levels), 0, -1):
            nodes = _lowest_of(nodes, self._values(number)[nodes], count)
            nodes = (nodes[:, None] * _WIDTH + np.arange(_WIDTH)).ravel()
        return _lowest_of(nodes, self._numbers[nodes], count)


def _lowest_of(nodes: IntArray, values: FloatArray, count: int) -> IntArray:
    """Those of the lowest values, nothing (0, or infinity above it) left out."""
    something = (values > 0.0) & (values < np.inf)
    nodes, values = nodes[something], values[something]
    return nodes[np.argpartition(values, count - 1)[:count]] if len(nodes) > count else nodes
