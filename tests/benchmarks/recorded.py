"""Replays a landscape in place of training: a whole study takes seconds, and the truth about its winner is known.

  tuner tune --config-dir tests/benchmarks/conf agent=dqn env=cartpole executor=recorded executor.landscape=dqn-cartpole

is the study that it would be without the executor, stage by stage; only its training runs are replayed, from a file of
`landscapes/` (which `landscape.py` makes).

The curve of a configuration and a seed is a mean curve plus a deviation. The mean is a Gaussian process regression over
the recorded configurations, in the coordinates of the search space, with a length scale for each of them and a noise
that make the leave-one-out error of whole curves smallest. The deviation is one of those that the seeds of the nearest
recorded configurations show around their own mean: which one follows from configuration and seed. A recorded
configuration has its own recorded curves, and on a recorded seed the very one. So the distribution of what a
configuration scores has finitely many values, and its mean is known exactly.
"""

import math
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from scipy.optimize import minimize

from tests.benchmarks.landscape import FOLDER, PAIRS, Landscape, about, definition_of, path_of
from tuner.errors import UserError
from tuner.executors.base import TrialBuilt, TrialEnded, TrialFunction, TrialReported, TrialStarted
from tuner.executors.inline import InlineExecutor
from tuner.results.metric import Metric
from tuner.results.records import Scalar
from tuner.study import StudyDefinition
from tuner.study.definition import TRAINING_ENTRY, judged_part
from tuner.trial.messages import JsonDict, Outcome, TrialResult, TrialSpec, Verdict

Array = NDArray[np.float64]
_NUM_NEAREST = 3
_HERE = 1e-6  # of the unit cube: closer is the same configuration


class Surrogate:
    """Mean curves over the unit cube, from noisy ones at some points of it.

    Args:
        points: [N, D].
        curves: [N, T].
    """

    def __init__(self, points: Array, curves: Array) -> None:
        self._points = points
        self._mean = curves.mean(axis=0)
        self._centred = curves - self._mean
        start = np.log([1.0] * points.shape[1] + [0.1])
        bounds = [(math.log(0.1), math.log(30.0))] * points.shape[1] + [(math.log(1e-3), math.log(3.0))]
        found = minimize(lambda x: float(np.mean(self._left_out(np.exp(x)) ** 2)), start, bounds=bounds)
        self._scales, self._noise = np.exp(found.x[:-1]), float(np.exp(found.x[-1]))
        self._weights = np.linalg.solve(self._covariance(points) + self._noise * np.eye(len(points)), self._centred)

    @property
    def explained(self) -> float:
        """Share of the variance of the curves that is predicted where their configuration is left out."""
        left = self._left_out(np.array([*self._scales, self._noise]))
        return float(1.0 - np.mean(left**2) / np.mean(self._centred**2))

    def __call__(self, points: Array) -> Array:
        """Mean curves [M, T] at points [M, D]."""
        return self._mean + self._covariance(points) @ self._weights

    def distances(self, point: Array) -> Array:
        """How far away the points of the data are in length scales, [N]."""
        return np.asarray(np.linalg.norm((self._points - point) / self._scales, axis=1))

    def _covariance(self, points: Array) -> Array:
        return matern(points / self._scales, self._points / self._scales)

    def _left_out(self, settings: Array) -> Array:
        """Errors at each point of a regression without it (Rasmussen and Williams 2006, equation 5.12)."""
        scaled = self._points / settings[:-1]
        inverse = np.linalg.inv(matern(scaled, scaled) + settings[-1] * np.eye(len(scaled)))
        return np.asarray(inverse @ self._centred / np.diag(inverse)[:, None])


def matern(first: Array, second: Array) -> Array:
    """The Matern covariance with nu = 5/2 between points [M, D] and [N, D]."""
    squared = (first**2).sum(1)[:, None] + (second**2).sum(1) - 2.0 * first @ second.T
    distance = np.sqrt(5.0 * np.maximum(squared, 0.0))
    return np.asarray((1.0 + distance + distance**2 / 3.0) * np.exp(-distance))


class Recorded:
    """Curves of any configuration of a landscape's search space on any seed.

    Args:
        landscape: The runs.
        definition: The study whose trials they are.
    """

    def __init__(self, landscape: Landscape, definition: StudyDefinition) -> None:
        self.definition = definition
        values = [value for row in landscape.rows for value in row.curve if value is not None]
        self._low, self._high = min(values), max(values)
        self._curves: dict[int, dict[int, tuple[float, ...]]] = {}
        points: dict[int, Array] = {}
        for row in landscape.rows:
            curve = tuple(math.nan if value is None else value for value in row.curve)
            self._curves.setdefault(row.configuration, {})[row.seed] = curve
            if row.configuration not in points:
                points[row.configuration] = self._unit(self._as_used(row.point))
        self._numbers = list(points)
        self._points = np.array(list(points.values()))
        own = [self._known(number) for number in self._numbers]
        self._surrogate = Surrogate(self._points, np.array([curves.mean(axis=0) for curves in own]))
        several = [index for index, curves in enumerate(own) if len(curves) > 1]
        self._telling = np.array(several or range(len(own)))  # one seed alone says nothing about noise
        self._deviations = [
            (curves - curves.mean(axis=0)) * math.sqrt(len(curves) / max(len(curves) - 1, 1)) for curves in own
        ]

    @property
    def explained(self) -> float:
        """See `Surrogate.explained`."""
        return self._surrogate.explained

    def curve(self, point: Mapping[str, Scalar], seed: int) -> tuple[float, ...]:
        """Evaluations of a run; NaN from where it diverged."""
        at = self._unit(point)
        number = self._recorded_at(at)
        if number is not None and seed in self._curves[number]:
            return self._curves[number][seed]
        possible = self.distribution(point)
        return tuple(possible[random.Random(f"{seed} {at.tolist()}").randrange(len(possible))].tolist())

    def distribution(self, point: Mapping[str, Scalar]) -> Array:
        """The curves [M, T] that a configuration may have, all equally likely on a seed that was not recorded."""
        at = self._unit(point)
        number = self._recorded_at(at)
        if number is not None:
            return self._known(number)
        distances = self._surrogate.distances(at)[self._telling]
        nearest = self._telling[np.argsort(distances, kind="stable")[:_NUM_NEAREST]]
        deviations = np.concatenate([self._deviations[index] for index in nearest])
        return np.asarray(np.clip(self._surrogate(at[None]) + deviations, self._low, self._high))

    def scores(self, point: Mapping[str, Scalar], metric: Metric) -> list[float]:
        """The scores that a configuration may have, all equally likely; their mean is its true score."""
        return [metric(with_steps(curve)) for curve in self.distribution(point).tolist()]

    def point_of(self, config: JsonDict) -> dict[str, Scalar]:
        """Where a run's configuration lies.

        Raises:
            UserError: It is not of this landscape.
        """
        space, definition = self.definition.space, self.definition
        point = space.drawn(config)
        expected = definition.run_config(space.values(point, definition.config), config["seed"])
        if judged_part(expected) != judged_part(config):
            raise UserError("executor=recorded knows what the search space holds, and other settings were changed too")
        return point

    def _as_used(self, point: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """The point that a drawn one stands for: shares of whole numbers are rounded."""
        space, config = self.definition.space, self.definition.config
        return space.drawn(space.apply(config, space.values(point, config)))

    def _known(self, number: int) -> Array:
        """The recorded curves [S, T] of a configuration; where it diverged, with the lowest value there is."""
        curves = np.array(list(self._curves[number].values()), dtype=np.float64)
        return np.nan_to_num(curves, nan=self._low)

    def _recorded_at(self, at: Array) -> int | None:
        near = np.flatnonzero(np.abs(self._points - at).max(axis=1) < _HERE)
        return self._numbers[near[0]] if len(near) else None

    def _unit(self, point: Mapping[str, Scalar]) -> Array:
        """The point in the unit cube."""
        found = []
        for name, distribution in self.definition.space.distributions().items():
            if isinstance(distribution, CategoricalDistribution):  # of two choices the coordinate is exact
                index = distribution.to_internal_repr(point[name])
                found.append(index / max(len(distribution.choices) - 1, 1))
                continue
            assert isinstance(distribution, FloatDistribution | IntDistribution)
            ends = np.array([distribution.low, distribution.high, point[name]], dtype=np.float64)
            low, high, value = np.log(ends) if distribution.log else ends
            found.append((value - low) / (high - low))
        return np.array(found)


def recorded(name: str, folder: Path = FOLDER, definition: StudyDefinition | None = None) -> Recorded:
    """A landscape, ready to be replayed.

    Args:
        name: Of the pair.
        folder: Where its file is.
        definition: The study whose trials it holds; None: as the pair's overrides give it.

    Raises:
        UserError: It was made under other conditions than the configuration now has.
    """
    definition = definition or definition_of(PAIRS[name])
    landscape = Landscape.read(path_of(name, folder))
    if landscape.about != about(definition):
        raise UserError(
            f"{name}.parquet was made under other conditions than conf/ has now: move it away, make another"
        )
    return Recorded(landscape, definition)


class RecordedExecutor(InlineExecutor):
    """Replays training runs at once, without a thread and a folder of theirs; anything else runs as with its base.

    Args:
        landscape: What they are replayed from, or the name of its pair.
        parallel: How many trials are under way at the same time.
    """

    def __init__(self, landscape: Recorded | str, parallel: int = 1) -> None:
        super().__init__(parallel)
        self._recorded = recorded(landscape) if isinstance(landscape, str) else landscape
        self._left: dict[str, Iterator[tuple[float, float]]] = {}

    @staticmethod
    def check(landscape: Recorded | str, parallel: int = 1) -> None:
        """Refuses what the constructor refuses."""
        InlineExecutor.check(parallel)
        there = [path.stem for path in sorted(FOLDER.glob("*.parquet"))]
        if isinstance(landscape, str) and landscape not in there:
            raise UserError(f"executor=recorded: there is no landscape {landscape}, but of {', '.join(there)}")

    @property
    def free_slots(self) -> int:
        """How many trials can be started now."""
        return super().free_slots - len(self._left)

    def start(self, spec: TrialSpec, folder: Path, function: TrialFunction | bytes | None = None) -> None:
        """Starts a trial; see `Executor.start`."""
        if spec.entry != TRAINING_ENTRY:
            super().start(spec, folder, function)
            return
        config = {**spec.config, "seed": spec.seed}
        curve = self._recorded.curve(self._recorded.point_of(config), spec.seed)
        self._left[spec.key] = iter(with_steps(curve))
        self._events += [TrialStarted(spec.key, os.getpid()), TrialBuilt(spec.key, 0.0, config)]
        self._go_on(spec.key)

    def answer(self, key: str, verdict: Verdict) -> None:
        """Answers a `TrialReported`; see `Executor.answer`."""
        if key not in self._left:
            super().answer(key, verdict)
        elif verdict == "continue":
            self._go_on(key)
        else:
            self._end(key, Outcome.PRUNED if verdict == "prune" else Outcome.STOPPED)

    def stop_all(self) -> None:
        """Ends replayed trials, and asks others to leave; see `Executor.stop_all`."""
        for key in list(self._left):
            self._end(key, Outcome.STOPPED)
        super().stop_all()

    def _go_on(self, key: str) -> None:
        step, value = next(self._left[key], (None, 0.0))
        if step is None:
            self._end(key, Outcome.COMPLETE)
        elif math.isnan(value):
            self._end(key, Outcome.DIVERGED)
        else:
            self._events.append(TrialReported(key, step, value))

    def _end(self, key: str, outcome: Outcome) -> None:
        del self._left[key]
        self._events.append(TrialEnded(key, TrialResult(outcome)))


def with_steps(curve: Sequence[float]) -> list[tuple[float, float]]:
    """A curve as runs report it: the done part of the budget, and the value."""
    return [((index + 1) / len(curve), value) for index, value in enumerate(curve)]
