"""How many runs there are behind screening: a number that is known beforehand, or as many as fit a budget of time."""

from collections.abc import Callable


class Quota:
    """The number of runs behind screening.

    Attributes:
        num_runs: In all, as far as it is known.

    Args:
        least: There are no fewer.
        most: There are no more; and no more than `least` unless `fits` says so.
        expected: How many will probably fit.
        fits: Whether the budget leaves time for one more.
        changed: Called with `num_runs`, whenever it has become another.
    """

    def __init__(
        self, least: int, expected: int, most: int, fits: Callable[[], bool], changed: Callable[[int], object]
    ) -> None:
        self._least, self._most = least, most
        self._fits, self._changed = fits, changed
        self.num_runs = max(least, expected)

    def allows(self, number: int) -> bool:
        """Whether there is a run of this number, counted from 1."""
        allowed = number <= self._least or (number <= self._most and self._fits())
        self._set(max(number, self.num_runs) if allowed else number - 1)
        if not allowed:
            self._most = number - 1  # what did not fit once is over
        return allowed

    def may_end_with(self, number: int) -> bool:
        """Whether the run of this number may be the last one."""
        return number >= self._least

    def _set(self, num_runs: int) -> None:
        if num_runs != self.num_runs:
            self.num_runs = num_runs
            self._changed(num_runs)
