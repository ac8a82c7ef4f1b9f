"""From the values that a program gives, whenever it does, to the points at which a study compares runs."""

from collections import deque

from tuner.results.objective import STEP_TOLERANCE
from tuner.runs.command.metric_files import Point


class ScoreGrid:
    """Scores at the points k/num_points of a budget.

    A point's score is the mean of the values since the point before; a value that passes several points is the score
    of each that has none.

    Args:
        total: The end of the program's own step axis.
        num_points: Of the grid.
        window: The mean of this many last values, in place of those since the point before; None: those.

    Attributes:
        reached: The done part of the budget, at the last value.
        num_values: How many values there were.
    """

    def __init__(self, total: float, num_points: int, window: int | None) -> None:
        self._total, self._num_points = total, num_points
        self._window = window
        self._recent: deque[float] = deque(maxlen=window or 1)
        self._since: list[float] = []
        self._next = 1
        self.reached, self.num_values = 0.0, 0

    def add(self, step: float, value: float) -> list[Point]:
        """Takes in a value; returns the points that it ends, with their scores."""
        self.reached = max(self.reached, min(step / self._total, 1.0))
        ended = []
        while self._next <= self._num_points and self._passed(step, beyond=True):
            if not self._since:
                self._note(value)
            ended.append(self._end_point())
        self._note(value)
        self.num_values += 1
        if self._next <= self._num_points and self._passed(step, beyond=False):
            ended.append(self._end_point())
        return ended

    def finish(self) -> list[Point]:
        """The points that are left: the program has ended."""
        return [self._end_point() for _ in range(self._next, self._num_points + 1)]

    def _passed(self, step: float, beyond: bool) -> bool:
        distance = step / self._total - self._next / self._num_points
        return distance > STEP_TOLERANCE if beyond else distance >= -STEP_TOLERANCE

    def _note(self, value: float) -> None:
        self._since.append(value)
        self._recent.append(value)

    def _end_point(self) -> Point:
        values = list(self._recent) if self._window or not self._since else self._since
        at, score = self._next / self._num_points, sum(values) / len(values)
        self._next += 1
        self._since = []
        return at, score
