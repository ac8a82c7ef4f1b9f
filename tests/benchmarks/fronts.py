# ruff: noqa: T201
"""Cost and savings of pruning where there are two objectives, [mixed, seconds], on a recorded landscape.

    python tests/benchmarks/fronts.py [PAIR [TRIALS [REPETITIONS [SAMPLER]]]]     (dqn-cartpole 40 100 drawn)

REPETITIONS is their number, or the seeds of studies: 100-199. The rule of pruning was chosen on seeds below 60.
Each repetition is a pair of studies with the same seed, one with pruning and one without. With `drawn` for SAMPLER both
try the same configurations, drawn at random, and choose those that no other complete one beats on its one seed: a few
minutes. With tpe or another name of `conf/sampler/` they are whole studies as `tuner tune` runs them, with
`pruner=none` for the second.

Training is replayed (see `recorded.py`). The seconds of a run come of the recorded ones as its curve does: a regression
over configurations, and how the seeds of the nearest ones deviate from their mean. Within a run they are taken to grow
evenly, but for chance of `UNEVEN`.

Of a front the true values count: means over all that a configuration may score and take. The reference point of its
hypervolume (Zitzler and Thiele 1999) is the worst of each objective over 1,000 random configurations, seconds on a
logarithmic axis. Printed are, with 95 % intervals over repetitions, the hypervolume of the front that a study chose as
a share of that without pruning; the same of all complete trials of screening; and environment steps as a share of those
without pruning: of screening, and of all before the test.
"""

import math
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from optuna.pruners import BasePruner

from tests.benchmarks.landscape import PAIRS, Landscape, path_of
from tests.benchmarks.protocols import bare, seeds_of
from tests.benchmarks.recorded import Recorded, RecordedExecutor, Surrogate, with_steps
from tuner.commands.study_from_config import define, search_parts
from tuner.config.composition import compose, config_loader
from tuner.executors.base import TrialBuilt, TrialEnded, TrialFunction, TrialReported, TrialStarted
from tuner.features.objectives.facts import FRONT
from tuner.features.objectives.leads import Margins, Objectives, measured, rung_points
from tuner.features.objectives.pareto_front import Losses, front_of
from tuner.results.insights.effort import used_share
from tuner.results.metric import Mixed, make_others
from tuner.results.protocol import Pruning
from tuner.results.records import CONFIRM, SCREEN, Scalar, StudySummary
from tuner.results.statistics import bootstrap_interval
from tuner.runs.config_checks import resolve
from tuner.study import StudyDefinition, StudyRunner, StudyStore
from tuner.study.sampling.sampler_factory import SamplerFactory
from tuner.study.space.drawn_points import anywhere
from tuner.trial.messages import Outcome, TrialResult, TrialSpec

Array = NDArray[np.float64]
UNEVEN = 0.05
"""Standard deviation of the logarithm of the seconds until an evaluation, besides those of the whole run."""


class Timed(Recorded):
    """A landscape that also knows how long runs take."""

    def __init__(self, landscape: Landscape, definition: StudyDefinition) -> None:
        super().__init__(landscape, definition)
        logs: dict[int, list[float]] = {}
        for row in landscape.rows:
            logs.setdefault(row.configuration, []).append(math.log(row.cpu_seconds))
        own = [np.array(logs[number]) for number in self._numbers]
        self._log_seconds = Surrogate(self._points, np.array([[one.mean()] for one in own]))
        self._spread = [(one - one.mean()) * math.sqrt(len(one) / max(len(one) - 1, 1)) for one in own]

    def log_seconds(self, point: Mapping[str, Scalar]) -> Array:
        """The logarithms [M] that a run may take, all equally likely."""
        at = self._unit(point)
        distances = self._log_seconds.distances(at)[self._telling]
        nearest = self._telling[np.argsort(distances, kind="stable")[:3]]
        return np.asarray(self._log_seconds(at[None])[0, 0] + np.concatenate([self._spread[one] for one in nearest]))

    def seconds(self, point: Mapping[str, Scalar], seed: int) -> float:
        """Seconds of a run."""
        possible = self.log_seconds(point)
        return math.exp(
            possible[random.Random(f"seconds {seed} {self._unit(point).tolist()}").randrange(len(possible))]
        )

    def truth(self, point: Mapping[str, Scalar]) -> tuple[float, float]:
        """The losses of a configuration: minus its mean score, and the logarithm of its mean seconds."""
        return -float(np.mean(self.scores(point, Mixed()))), math.log(float(np.mean(np.exp(self.log_seconds(point)))))

    @cached_property
    def worst(self) -> Array:
        """The worst of each loss over random configurations."""
        return np.max(self._random, axis=0)

    @cached_property
    def widths(self) -> Array:
        """From the best to the worst of each."""
        return np.asarray(self.worst - np.min(self._random, axis=0))

    @cached_property
    def _random(self) -> Array:
        rng = np.random.default_rng(0)
        space = self.definition.space
        return np.array([self.truth(space.draw(lambda _, kind: anywhere(kind, rng))) for _ in range(1000)])

    def hypervolume(self, losses: Sequence[tuple[float, float]]) -> float:
        """Share of the box between the best and the worst that these dominate."""
        front = sorted(front_of(dict(enumerate(losses))), key=lambda index: losses[index])
        found, last = 0.0, 1.0
        for index in front:
            left, low = np.clip((self.worst - losses[index]) / self.widths, 0.0, None)
            height = 1.0 - low
            if height < last:
                found += left * (last - height)
                last = height
        return float(found)


class TimedExecutor(RecordedExecutor):
    """Replays training runs with the seconds that they took."""

    def __init__(self, landscape: Timed) -> None:
        super().__init__(landscape)
        self._timed = landscape
        self._whole: dict[str, float] = {}

    def start(self, spec: TrialSpec, folder: Path, function: TrialFunction | bytes | None = None) -> None:
        """Starts a trial."""
        config = {**spec.config, "seed": spec.seed}
        point = self._timed.point_of(config)
        self._whole[spec.key] = self._timed.seconds(point, spec.seed)
        self._left[spec.key] = iter(with_steps(self._timed.curve(point, spec.seed)))
        self._events += [TrialStarted(spec.key, os.getpid()), TrialBuilt(spec.key, 0.0, config)]
        self._go_on(spec.key)

    def _go_on(self, key: str) -> None:
        super()._go_on(key)
        last = self._events[-1]
        if isinstance(last, TrialReported):
            uneven = math.exp(random.Random(f"{key} {last.step}").gauss(0.0, UNEVEN)) if last.step < 1.0 else 1.0
            self._events[-1] = replace(last, seconds=last.step * self._whole[key] * uneven)

    def _end(self, key: str, outcome: Outcome) -> None:
        super()._end(key, outcome)
        self._events[-1] = TrialEnded(key, TrialResult(outcome, seconds=self._whole.pop(key)))


@dataclass(frozen=True)
class Ended:
    """Results of one study.

    Attributes:
        front: Hypervolume of what it chose.
        screened: That of all complete trials of screening.
        steps: Shares of a run that were done, in screening.
        later: The same in confirmation.
    """

    front: float
    screened: float
    steps: float
    later: float


@cache
def composed(typed: tuple[str, ...]) -> tuple[StudyDefinition, SamplerFactory, BasePruner]:
    """The study that is typed so, its sampler and its pruner."""
    config = compose(config_loader(), "tune", typed)
    return bare(define(config, typed)), *search_parts(resolve(config))


def run_study(landscape: Timed, typed: Sequence[str], seed: int) -> Ended:
    """One whole study of what is typed."""
    definition, sampler, pruner = composed(tuple(typed))
    executor = TimedExecutor(landscape)
    with tempfile.TemporaryDirectory() as folder, StudyStore("memory") as store, executor:
        one = replace(definition, seed=seed, folder=Path(folder))
        summary = StudyRunner(one, store, executor, sampler, pruner).run()
    space = landscape.definition.space

    def truths(labels: Sequence[str]) -> list[tuple[float, float]]:
        points = (space.drawn(space.apply(one.config, dict(summary.params_of(label)))) for label in labels)
        return [landscape.truth(point) for point in points]

    complete = [run.label for run in summary.stage(SCREEN) if run.complete]
    return Ended(
        landscape.hypervolume(truths(FRONT.of(summary))),
        landscape.hypervolume(truths(complete)),
        sum(_shares(summary, SCREEN)),
        sum(_shares(summary, CONFIRM)),
    )


def drawn_pair(landscape: Timed, num_trials: int, seed: int) -> tuple[Ended, Ended]:
    """The same random configurations with and without pruning, as `FrontJudge` has it, one after the other."""
    rng, space = np.random.default_rng(seed), landscape.definition.space
    pruning, num_points = Pruning(), landscape.definition.num_points
    objectives = Objectives(Mixed(), make_others(("seconds",), "mixed"))
    early: dict[int, list[Losses | None]] = {point: [] for point in rung_points(pruning, num_points)}
    final: list[Losses] = []
    truths: list[list[tuple[float, float]]] = [[], []]
    ends: list[Losses] = []
    margins: Margins | None = None
    steps = 0.0
    while len(truths[1]) < num_trials:
        point = space.draw(lambda _, kind: anywhere(kind, rng))
        curve, seconds = with_steps(landscape.curve(point, seed)), landscape.seconds(point, seed)
        if any(math.isnan(value) for _, value in curve):
            continue
        times = [(step, step * seconds * math.exp(rng.normal(0.0, UNEVEN) * (step < 1.0))) for step, _ in curve]
        own = {rung: objectives.early(curve, times, rung / num_points) for rung in early}
        ends.append((-Mixed()(curve), math.log(seconds)))
        truths[1].append(landscape.truth(point))
        pruned = (
            rung.fraction
            for rung in (margins.used if margins else ())
            if (mine := own[rung.point]) is not None
            and rung.is_hopeless(mine, [other for other in early[rung.point] if other is not None])
        )
        used = next(pruned, 1.0)
        steps += used
        if used == 1.0:
            final.append(ends[-1])
            truths[0].append(truths[1][-1])
            for rung, losses in own.items():
                early[rung].append(losses)
            margins = measured(pruning, num_points, margins, early, final) or margins

    def ended(losses: Sequence[Losses], known: Sequence[tuple[float, float]], done: float) -> Ended:
        chosen = front_of(dict(enumerate(losses)))
        return Ended(landscape.hypervolume([known[one] for one in chosen]), landscape.hypervolume(known), done, 0.0)

    return ended(final, truths[0], steps), ended(ends, truths[1], float(num_trials))


def _shares(summary: StudySummary, stage: str) -> Iterator[float]:
    return (used_share(run) for run in summary.stage(stage))


def interval(values: Sequence[float]) -> str:
    """Mean with a 95 % bootstrap interval."""
    low, high = bootstrap_interval(values, lambda rows: rows.mean(-1))
    return f"{np.mean(values):.4f} [{low:.4f}, {high:.4f}]"


def main(pair: str = "dqn-cartpole", trials: str = "40", repetitions: str = "100", sampler: str = "drawn") -> None:
    """Repeats and prints, as it goes."""
    os.fsync = lambda descriptor: None  # no power cut is measured here
    typed = [*PAIRS[pair], "tracker=jsonl", "study.metric=[mixed,seconds]", f"study.num_trials={trials}"]
    typed += ["study.num_test_seeds=1"]
    landscape = Timed(Landscape.read(path_of(pair)), composed(tuple(typed))[0])
    found: dict[str, list[float]] = {"front": [], "screened": [], "steps of screening": [], "steps before the test": []}
    for number, seed in enumerate(seeds_of(repetitions), start=1):
        if sampler == "drawn":
            pruned, whole = drawn_pair(landscape, int(trials), seed)
        else:
            several = ([*typed, f"sampler={sampler}", *more] for more in ((), ("pruner=none",)))
            pruned, whole = (run_study(landscape, one, seed) for one in several)
        found["front"].append(pruned.front / whole.front)
        found["screened"].append(pruned.screened / whole.screened)
        found["steps of screening"].append(pruned.steps / whole.steps)
        found["steps before the test"].append((pruned.steps + pruned.later) / (whole.steps + whole.later))
        if number % 10 == 0:
            intervals = "  ".join(f"{name} {interval(values)}" for name, values in found.items())
            print(f"{pair} {sampler}, {trials} trials, {number} studies: {intervals}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
