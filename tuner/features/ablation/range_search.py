"""How far each parameter of the winner may move: a model of the study's trials says where to look, runs decide.

On either side of the winner's value the first one that is checked is where the model of the trials expects the score to
leave the winner's interval. While the score holds, the distance is doubled; once it has fallen, what lies between is
halved. All parameters are walked together, so that an executor has much to do at a time.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from optuna.trial import FrozenTrial

from tuner.config.paths import get_path
from tuner.errors import UserError
from tuner.features.ablation.facts import Ablation, CheckedRange, CheckedValue
from tuner.features.ablation.found_ranges import allowed_loss, holds, loss
from tuner.features.ablation.settings import MIN_SEEDS
from tuner.results.metric import FloatArray
from tuner.study.importance import profiles
from tuner.study.space.coordinates import Bounds, as_number
from tuner.study.space.space import Parameter, Space
from tuner.support.names import did_you_mean
from tuner.trial.messages import JsonDict

Moved = tuple[str, float]
"""Config path of a parameter, and the value that it has in place of the winner's."""

Measure = Callable[[Sequence[Moved], Sequence[int], int], Mapping[Moved, Mapping[int, float]]]
"""Runs the winner so changed on seeds and gives the scores there. Also gets how many runs are to come, at most."""

_NEAREST: Final = 0.05
"""The first value to be checked is at least this share of the range away: a model of few trials is no better."""
_DIGITS: Final = 3


@dataclass(frozen=True)
class Axis:
    """The values of one parameter, the others as the winner has them.

    Attributes:
        parameter: Which.
        config: Of the winner.
        profile: Its effect on the rank of a trial, at places spread evenly over its range; [M]. None: not known.
        fall: Of the rank, from the winner to where its score has fallen by what is allowed.
    """

    parameter: Parameter
    config: JsonDict
    profile: FloatArray | None = None
    fall: float = 0.0

    @property
    def bounds(self) -> Bounds:
        """Of the coordinate."""
        domain = self.parameter.coordinate.domain
        assert isinstance(domain, Bounds), "it is a number"
        return domain

    @property
    def start(self) -> float:
        """The winner's value, on the coordinate."""
        try:
            return as_number(self.parameter.drawn(self.config))
        except ValueError:  # a share of something that was rounded to a whole number, just outside
            return min((self.bounds.low, self.bounds.high), key=lambda end: abs(self.value(end) - self.value_of_winner))

    @property
    def value_of_winner(self) -> float:
        """In its own units."""
        return as_number(get_path(self.config, self.parameter.path))

    def value(self, drawn: float) -> float:
        """In its own units."""
        return as_number(self.parameter.value(drawn, self.config))

    def place(self, drawn: float) -> float:
        """Where a point of the coordinate lies, from 0 to 1."""
        bounds = self.bounds
        low, high, own = (math.log(one) if bounds.log else one for one in (bounds.low, bounds.high, drawn))
        return (own - low) / (high - low) if high > low else 0.0

    def at(self, place: float) -> float:
        """The point of the coordinate at a place, with few digits and on its grid."""
        bounds, place = self.bounds, min(max(place, 0.0), 1.0)
        if place in (0.0, 1.0):
            return bounds.high if place else bounds.low
        if bounds.log:
            drawn = float(f"{bounds.low * (bounds.high / bounds.low) ** place:.{_DIGITS}g}")
        else:
            digits = _DIGITS - math.ceil(math.log10(bounds.high - bounds.low))
            drawn = round(bounds.low + place * (bounds.high - bounds.low), digits)
        return min(max(self.on_grid(drawn), bounds.low), bounds.high)

    def on_grid(self, drawn: float) -> float:
        """The nearest point of the grid, each always the same number; without a grid the point itself."""
        if self.grid is None:
            return drawn
        drawn = self.bounds.low + round((drawn - self.bounds.low) / self.grid) * self.grid
        return round(drawn) if self.bounds.integer else float(f"{drawn:.12g}")

    @property
    def grid(self) -> float | None:
        """From one point to the next; None: there is none."""
        return (self.bounds.step or 1) if self.bounds.integer else self.bounds.step


def moved_parameters(space: Space, values: Mapping[str, object], asked: bool | Sequence[str]) -> tuple[Parameter, ...]:
    """The parameters of a winner of which it is asked how far they may move.

    Args:
        space: The search space.
        values: Of the winner, by config path.
        asked: All that are numbers, none, or those with these names: paths, or endings of paths.

    Raises:
        UserError: A name is none of them, or more than one, or all are choices.
    """
    active = [one for one in space.parameters if one.path in values]
    numbers = {one.path: one for one in active if isinstance(one.coordinate.domain, Bounds)}
    if asked is False:
        return ()
    if not numbers:
        raise UserError("ranges: the study has searched no number, only choices, and these have no range")
    if asked is True:
        return tuple(numbers.values())
    found = {}
    for name in asked:
        paths = [one.path for one in active if f".{one.path}".endswith(f".{name}")]
        if len(paths) > 1:
            raise UserError(f"ranges={name} may be {' or '.join(paths)}: type one of these")
        if paths and paths[0] not in numbers:
            others = ", ".join(numbers)
            raise UserError(f"ranges={name}: {paths[0]} is a choice, which has no range; numbers are {others}")
        if not paths:
            near = did_you_mean(name, numbers)
            raise UserError(f"ranges={name} is no parameter that the winner was searched in{near}")
        found[paths[0]] = numbers[paths[0]]
    return tuple(found.values())


def axes_of(
    parameters: Sequence[Parameter], config: JsonDict, trials: Sequence[FrozenTrial], winner: int, allowed: float
) -> list[Axis]:
    """An axis for each of these parameters, with what the study's trials tell of it.

    Args:
        parameters: That are numbers.
        config: Of the winner.
        trials: Of the study that have a value.
        winner: Number of the trial that drew the winner.
        allowed: The allowed loss.
    """
    scores = [trial.values[0] for trial in trials]
    names = {name for trial in trials for name in trial.params}
    found = profiles(trials, scores, sorted(names))
    top = next((trial.values[0] for trial in trials if trial.number == winner), None)
    if top is None or not found:
        return [Axis(parameter, config) for parameter in parameters]
    ordered, ranks = np.sort(scores), np.arange(len(scores)) / np.std(np.arange(len(scores)))
    fall = float(np.interp(top, ordered, ranks) - np.interp(top - allowed, ordered, ranks))
    return [Axis(parameter, config, found.get(parameter.name), fall) for parameter in parameters]


@dataclass
class _Side:
    """One direction from the winner's value; all points are of the coordinate.

    Attributes:
        axis: The parameter.
        end: Where the search ends.
        num_left: Checks.
        inside: The farthest point that holds.
        outside: The nearest that does not.
        checked: By point.
    """

    axis: Axis
    end: float
    num_left: int
    inside: float = field(init=False)
    outside: float | None = None
    checked: dict[float, CheckedValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inside = self.axis.start

    def next(self) -> float | None:
        """The point to be checked next; None: there is no need to check another."""
        if self.num_left == 0 or self.inside == self.end:
            return None
        axis = self.axis
        start, inside, end = (axis.place(one) for one in (axis.start, self.inside, self.end))
        if self.outside is not None:
            place = (inside + axis.place(self.outside)) / 2
        elif self.checked:
            place = start + 2 * (inside - start)
        else:
            place = self._expected(start, end)
        beyond = place >= 1.0 if end else place <= 0.0
        drawn = self.end if beyond else axis.at(place)
        return self._distinct(drawn)

    def _distinct(self, drawn: float) -> float | None:
        """The point, moved by one of the grid where it is known already; None where there is none between."""
        if drawn == self.inside and self.axis.grid is not None:
            drawn = self.axis.on_grid(drawn + math.copysign(self.axis.grid, self.end - self.inside))
        known = {self.axis.value(one) for one in (self.inside, self.outside) if one is not None}
        return None if self.axis.value(drawn) in known else drawn

    def _expected(self, start: float, end: float) -> float:
        """Where the model has the score fall by what is allowed; without a model half-way to the end.

        On synthetic studies of 20 and 40 trials three checks so come to within 2 % of the range of the true edge, on
        average; from half-way, 3.5 %.
        """
        profile, way = self.axis.profile, math.copysign(1.0, end - start) if end != start else 1.0
        if profile is None:
            return (start + end) / 2
        places = (np.arange(len(profile)) + 0.5) / len(profile)
        lost = np.interp(start, places, profile) - profile
        fallen = places[(lost > self.axis.fall) & ((places - start) * way > _NEAREST)]
        return float(fallen[np.abs(fallen - start).argmin()]) if fallen.size else end

    def take(self, drawn: float, checked: CheckedValue, *, is_held: bool) -> None:
        """Takes the result of a check."""
        self.checked[drawn] = checked
        self.num_left -= 1
        if is_held:
            self.inside = drawn
        else:
            self.outside = drawn


@dataclass(frozen=True)
class RangeSearch:
    """Finds how far parameters may move.

    Attributes:
        ablation: Of the same winner; the seeds and the winner's scores are its.
        axes: The parameters.
        num_checks: On each side, at most.
        measure: Has runs done.
        is_possible: Whether there can be a run with this value.
    """

    ablation: Ablation
    axes: Sequence[Axis]
    num_checks: int
    measure: Measure
    is_possible: Callable[[Moved], bool] = lambda moved: True

    def walk(self) -> Ablation:
        """The ablation, and how far each parameter may move; what it says of others stays."""
        sides = [_Side(axis, end, self.num_checks) for axis in self.axes for end in (axis.bounds.low, axis.bounds.high)]
        while asked := [(side, drawn) for side in sides if (drawn := side.next()) is not None]:
            moved = {(side.axis.parameter.path, side.axis.value(drawn)): (side, drawn) for side, drawn in asked}
            to_come = sum(side.num_left - 1 for side, _ in asked) * len(self.ablation.seeds)
            for checked, (side, drawn) in zip(self._checked(list(moved), to_come), moved.values(), strict=True):
                side.take(drawn, checked, is_held=holds(self.ablation, checked))
        found = {one.path: one for one in self.ablation.ranges}
        found |= {axis.parameter.path: self._range(axis, sides) for axis in self.axes}
        return replace(self.ablation, ranges=tuple(found[path] for path in sorted(found)))

    def _checked(self, moved: Sequence[Moved], to_come: int) -> list[CheckedValue]:
        """Each measured: on as few seeds as tell, or else on all."""
        possible = [one for one in moved if self.is_possible(one)]
        seeds, few = self.ablation.seeds, self.ablation.seeds[:MIN_SEEDS]
        found = {one: CheckedValue(one[1]) for one in moved}
        if possible:
            further = len(possible) * (len(seeds) - len(few))
            found |= self._scored(possible, few, to_come + further)
        if unclear := [one for one in possible if not self._is_clear(found[one])]:
            found |= self._scored(unclear, seeds, to_come)
        return [found[one] for one in moved]

    def _scored(self, moved: Sequence[Moved], seeds: Sequence[int], to_come: int) -> dict[Moved, CheckedValue]:
        scores = self.measure(moved, seeds, to_come)
        return {one: CheckedValue(one[1], tuple(scores[one][seed] for seed in seeds)) for one in moved}

    def _is_clear(self, checked: CheckedValue) -> bool:
        """Whether the whole interval of the loss is on one side of what is allowed."""
        lost, limit = loss(self.ablation, checked.scores), -allowed_loss(self.ablation)
        assert lost.low is not None
        assert lost.high is not None
        return lost.high < limit or lost.low >= limit

    def _range(self, axis: Axis, sides: Sequence[_Side]) -> CheckedRange:
        own = [side for side in sides if side.axis is axis]
        checked = sorted((one for side in own for one in side.checked.values()), key=lambda one: one.value)
        low, high = sorted(axis.value(side.end) for side in own)
        return CheckedRange(axis.parameter.path, axis.value_of_winner, low, high, tuple(checked))
