"""From the values that a program gives, whenever it does, to the points at which a study compares runs."""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tuner.results.metric import STEP_TOLERANCE
from tuner.runs.command.metric_files import Batch, Point

_SPARE = 1000  # values before those of a window, for a program that goes on from before them

_FRESH, _OF_ITS_FILE, _OF_BEFORE = range(3)  # what replaces a value: nothing, its file written anew, any value


@dataclass(slots=True)
class _Value:
    step: float
    value: float
    file: str
    until: int = _FRESH


class ScoreGrid:
    """Scores at the points k/num_points of a budget.

    A point's score is the mean of the values since the point before; a value that passes several points is the score
    of each that has none. Values that are not finite are left out. A point with none but those, or that ends with more
    of them in a row than it has numbers, waits for the next number; if the next point has none either, both are NaN.

    A program that goes on from a checkpoint gives values again, and so does a file that is written anew. The first of
    them replaces what stood at its step and behind it; a point that has ended keeps its score.

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
        self._recent: deque[_Value] = deque(maxlen=window + _SPARE if window else 0)
        self._since: list[_Value] = []
        self._num_odd = 0  # values in a row that are not finite
        self._waiting: list[int] = []  # points that have passed without a number
        self._next = 1
        self._last_score = math.nan
        self._lowest: dict[str, float] = {}  # step by file, since values were marked
        self._marked = False
        self.reached, self.num_values = 0.0, 0

    def take(self, batches: Sequence[Batch]) -> list[Point]:
        """Takes in what was read, in the order of steps; returns the points that it ends, with their scores."""
        for batch in batches:
            if batch.anew:
                self._mark((one for one in self._held() if one.file == batch.file), _OF_ITS_FILE)
                self._lowest.pop(batch.file, None)
        values = [_Value(step, value, batch.file) for batch in batches for step, value in batch.points]
        values.sort(key=lambda one: one.step)
        return [ended for step, several in groupby(values, lambda one: one.step) for ended in self._add(step, several)]

    def add(self, step: float, value: float) -> list[Point]:
        """Takes in one value."""
        return self.take([Batch("", False, [(step, value)])])

    def begin_attempt(self) -> None:
        """The program is started again: it may go on from a step that it had passed."""
        self._mark(self._held(), _OF_BEFORE)
        self._lowest.clear()

    def finish(self) -> list[Point]:
        """The points that are left: the program has ended."""
        left = [*self._waiting, *range(self._next, self._num_points + 1)]
        score = self._score([])
        if score is None:
            score = math.nan if self._num_odd else self._last_score
        self._waiting, self._next = [], self._num_points + 1
        return [(number / self._num_points, score) for number in left]

    def state(self) -> dict[str, Any]:
        """State for `restore`, as JSON holds it."""
        return {
            "grid": [self._total, self._num_points, self._window],
            "next": self._next,
            "waiting": self._waiting,
            "num_odd": self._num_odd,
            "last_score": self._last_score,
            "reached": self.reached,
            "num_values": self.num_values,
            "since": [[one.step, one.value, one.file] for one in self._since],
            "recent": [[one.step, one.value, one.file] for one in self._recent],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from what an earlier attempt had before it started its program.

        Raises:
            ValueError, TypeError, KeyError: It is of another grid, or damaged.
        """
        if state["grid"] != [self._total, self._num_points, self._window]:
            raise ValueError("another grid")
        following, odd, values = int(state["next"]), int(state["num_odd"]), int(state["num_values"])
        waiting, reached = [int(number) for number in state["waiting"]], float(state["reached"])
        last_score = float(state["last_score"])
        if not 1 <= following <= self._num_points + 1 or not all(1 <= number < following for number in waiting):
            raise ValueError("no point of the grid")
        since, recent = ([_Value(float(a), float(b), str(c)) for a, b, c in state[key]] for key in ("since", "recent"))
        self._next, self._num_odd, self.num_values = following, odd, values
        self._waiting, self._last_score, self.reached = waiting, last_score, reached
        self._since = since
        self._recent.extend(recent)
        self.begin_attempt()

    def _add(self, step: float, several: Iterable[_Value]) -> list[Point]:
        """Takes in the values at a step."""
        values = list(several)
        self.reached = max(self.reached, min(step / self._total, 1.0))
        self.num_values += len(values)
        for one in values:
            self._replace(step, one.file)
        numbers = [one for one in values if math.isfinite(one.value)]
        given = [one.value for one in numbers]
        ended: list[Point] = []
        if numbers:
            ended += [self._scored(number, self._mean_of(given)) for number in self._waiting]
            self._waiting = []
        waited = bool(self._waiting)
        while self._next <= self._num_points and self._passed(step, beyond=True):
            ended += self._end_point(given, waited)
        is_late = self._next > 1 and not self._is_behind(step, self._next - 1)
        if not is_late:
            self._since += numbers
        if numbers:
            self._recent.extend(numbers)
            self._num_odd = 0
        else:
            self._num_odd += len(values)
        if self._next <= self._num_points and self._passed(step, beyond=False):
            ended += self._end_point([], waited)
        return ended

    def _end_point(self, given: list[float], waited: bool) -> list[Point]:
        """Ends the next point; it has no score yet if only values came that are no numbers."""
        score = self._score(given)
        number, self._since = self._next, []
        self._next += 1
        if score is not None:
            return [self._scored(number, score)]
        self._waiting.append(number)
        if not waited:
            return []
        waiting, self._waiting = self._waiting, []
        return [(one / self._num_points, math.nan) for one in waiting]

    def _score(self, given: list[float]) -> float | None:
        """Of the next point; `given` counts where it has no values of its own. None: there is none yet."""
        if self._since and self._num_odd <= len(self._since):
            return self._mean_of([] if self._window else [one.value for one in self._since])
        return self._mean_of(given) if given else None

    def _mean_of(self, given: list[float]) -> float:
        values = [*(one.value for one in self._recent), *given]
        values = values[-self._window :] if self._window else given
        return sum(values) / len(values)

    def _scored(self, number: int, score: float) -> Point:
        self._last_score = score
        return number / self._num_points, score

    def _passed(self, step: float, beyond: bool) -> bool:
        distance = step / self._total - self._next / self._num_points
        return distance > STEP_TOLERANCE if beyond else distance >= -STEP_TOLERANCE

    def _is_behind(self, step: float, point: int) -> bool:
        return step / self._total - point / self._num_points > STEP_TOLERANCE

    def _held(self) -> Iterable[_Value]:
        return (*self._since, *self._recent)

    def _mark(self, values: Iterable[_Value], until: int) -> None:
        for one in values:
            one.until = max(one.until, until)
            self._marked = True

    def _replace(self, step: float, file: str) -> None:
        """Drops the marked values at a step and behind it, once for each new lowest step."""
        if not self._marked or self._lowest.get(file, math.inf) <= step:
            return
        self._lowest[file] = step

        def stays(one: _Value) -> bool:
            replaced = one.until == _OF_BEFORE or (one.until == _OF_ITS_FILE and one.file == file)
            return one.step < step or not replaced

        self._since = [one for one in self._since if stays(one)]
        kept = [one for one in self._recent if stays(one)]
        self._recent.clear()
        self._recent.extend(kept)
