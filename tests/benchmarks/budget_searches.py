# ruff: noqa: T201
"""Score against cost on a recorded landscape: `study.budgets` against the rule of PufferLib's Protein, at equal steps.

    python tests/benchmarks/budget_searches.py [PAIR [REPETITIONS [FIRST]]]     (ppo-cartpole 100 0)

The budgets are a ninth, a third and all of the steps of the landscape. A run of a ninth is the first of nine
evaluations of a recorded run, so landscapes are used whose agents have no schedule that ends with the budget. Each
repetition is the three studies of `tuner tune study.budgets=[...]`, replayed (see `recorded.py`), and one search by
Protein's rule with as many environment steps as these had before their tests.

Protein (Suarez 2025, `pufferlib.sweep`) is written here from its description. It tries 10 points of a Sobol sequence,
the budget being one more parameter on a logarithmic axis. Then it draws 256 neighbours of each point of the front of
(score, steps) and of the five best. It takes the one with the largest product of predicted score, by a Gaussian
process, and 1 - |target - cost|, both scaled to 0 to 1. The cost of a run is known here. The target is drawn anew
each time, from 16 % to 100 % of the cost axis, times 1.1. Every run has a seed of its own; no run is repeated. The
best observed score within each budget is what it promises.

A true score is the mean over all that a configuration may score in these steps. Printed are, with 95 % intervals over
repetitions: the hypervolume of what is advised, that is the mean over the three budgets of the best true score that was
advised for no more steps, from 0 (the mean of random configurations with that many steps) to 1 (the best of 1,000 of
them); how far the promised scores are off, without sign; and how many of the intervals of the promised scores hold the
true score.
"""

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from scipy.optimize import minimize
from scipy.stats import qmc

from tests.benchmarks.landscape import PAIRS
from tests.benchmarks.protocols import bare
from tests.benchmarks.recorded import Recorded, RecordedExecutor, matern, recorded, with_steps
from tuner.commands.study_from_config import define, search_parts
from tuner.config.composition import compose, config_loader
from tuner.executors.base import TrialBuilt, TrialFunction, TrialStarted
from tuner.features.budgets.budget_points import BudgetPoint, compared_budgets, point_of
from tuner.features.budgets.budget_studies import BudgetStudies
from tuner.results.insights.effort import used_share
from tuner.results.metric import Mixed
from tuner.results.records import TEST, Scalar, StudySummary
from tuner.results.statistics import bootstrap_interval, iqm
from tuner.runs.config_checks import resolve
from tuner.study import StudyRunner, StudyStore
from tuner.study.space.drawn_points import anywhere
from tuner.trial.messages import TrialSpec

Array = NDArray[np.float64]
Point = Mapping[str, Scalar]
POINTS = (1, 3, 9)
"""Evaluations of a run of each budget."""


class Prefixes:
    """Scores of configurations in the first evaluations of a recorded run.

    Args:
        landscape: What is replayed.
    """

    def __init__(self, landscape: Recorded) -> None:
        self.landscape = landscape
        self.num_points = landscape.definition.num_points
        self.total_steps = landscape.definition.total_steps

    def scores(self, point: Point, points: int) -> list[float]:
        """All that a configuration may score in its first evaluations, equally likely."""
        curves = self.landscape.distribution(point)[:, :points].tolist()
        return [Mixed()(with_steps(curve)) for curve in curves]

    def truth(self, point: Point, points: int) -> float:
        """The mean of them."""
        return float(np.mean(self.scores(point, points)))

    def steps(self, points: int) -> int:
        """Of a run with this number of evaluations."""
        return self.total_steps * points // self.num_points

    @cached_property
    def scale(self) -> dict[int, tuple[float, float]]:
        """By number of evaluations: the mean and the best true score of random configurations."""
        rng, space = np.random.default_rng(0), self.landscape.definition.space
        drawn = [space.draw(lambda _, kind: anywhere(kind, rng)) for _ in range(1000)]
        found = {points: [self.truth(point, points) for point in drawn] for points in POINTS}
        return {points: (float(np.mean(scores)), max(scores)) for points, scores in found.items()}

    def hypervolume(self, advised: Mapping[int, Point]) -> float:
        """Of configurations by the number of evaluations that they are advised for."""
        found = []
        for points, (low, high) in self.scale.items():
            own = [(self.truth(point, one) - low) / (high - low) for one, point in advised.items() if one <= points]
            found.append(max([0.0, *own]))
        return float(np.mean(found))


class PrefixExecutor(RecordedExecutor):
    """Replays the beginnings of recorded runs."""

    def __init__(self, prefixes: Prefixes) -> None:
        super().__init__(prefixes.landscape)
        self._prefixes = prefixes

    def start(self, spec: TrialSpec, folder: Path, function: TrialFunction | bytes | None = None) -> None:
        """Starts a trial."""
        config: dict[str, Any] = {**spec.config, "seed": spec.seed}
        points = int(config["evaluation"]["num_points"])
        whole = {
            **config,
            "training": {**config["training"], "total_steps": self._prefixes.total_steps},
            "evaluation": {**config["evaluation"], "num_points": self._prefixes.num_points},
        }
        curve = self._recorded.curve(self._recorded.point_of(whole), spec.seed)[:points]
        self._left[spec.key] = iter(with_steps(curve))
        self._events += [TrialStarted(spec.key, os.getpid()), TrialBuilt(spec.key, 0.0, config)]
        self._go_on(spec.key)


@dataclass(frozen=True)
class Found:
    """Results of one search.

    Attributes:
        volume: See `Prefixes.hypervolume`.
        errors: How far each promised score is off.
        covered: Whether its interval holds the true score; none: it has no interval.
        steps: Environment steps before a test.
    """

    volume: float
    errors: tuple[float, ...]
    covered: tuple[bool, ...]
    steps: float


def by_studies(prefixes: Prefixes, pair: str, seed: int) -> Found:
    """The studies of `study.budgets`."""
    listed = ",".join(str(prefixes.steps(points)) for points in POINTS)
    typed = [f"study.budgets=[{listed}]", *_without_steps(pair), "tracker=jsonl", f"seed={seed}", "study.name=s"]
    summaries: list[StudySummary] = []
    with tempfile.TemporaryDirectory() as folder:
        typed += [f"study.folder={folder}", f"storage.url=journal:///{folder}/studies.journal"]
        studies = BudgetStudies.of(compose(config_loader(), "tune", typed), typed, None)
        for place, points in enumerate(POINTS):
            config = studies.composed(words := studies.typed(place))
            definition = bare(define(config, words))
            definition = replace(definition, config=_with_points(definition.config, points))
            sampler, pruner = search_parts(resolve(config))
            with StudyStore(str(config.storage.url)) as store, PrefixExecutor(prefixes) as executor:
                summaries.append(StudyRunner(definition, store, executor, sampler, pruner).run())
    made = [point_of(steps, one) for steps, one in zip(studies.steps, summaries, strict=True)]
    found = compared_budgets([one for one in made if one is not None])
    space, default = prefixes.landscape.definition.space, prefixes.landscape.definition.config
    points_of = dict(zip(studies.steps, POINTS, strict=True))

    def place_of(one: BudgetPoint) -> Point:
        summary = next(summary for summary in summaries if summary.name == one.study)
        return space.drawn(space.apply(default, dict(summary.params_of(one.label))))

    places = {points_of[one.steps]: place_of(one) for one in found}
    truths = {points: float(iqm(prefixes.scores(place, points))) for points, place in places.items()}
    return Found(
        prefixes.hypervolume(places),
        tuple(abs(one.score.iqm - truths[points_of[one.steps]]) for one in found),
        tuple(_holds(one, truths[points_of[one.steps]]) for one in found),
        sum(
            used_share(run) * steps
            for steps, summary in zip(studies.steps, summaries, strict=True)
            for run in summary.runs
            if run.stage != TEST
        ),
    )


def _holds(one: BudgetPoint, truth: float) -> bool:
    assert one.score.low is not None
    assert one.score.high is not None
    return one.score.low <= truth <= one.score.high


def _without_steps(pair: str) -> list[str]:
    return [word for word in PAIRS[pair] if not word.startswith("training.total_steps=")]


def _with_points(config: dict[str, Any], points: int) -> dict[str, Any]:
    return {**config, "evaluation": {**config["evaluation"], "num_points": points}}


class Protein:
    """See the module.

    Args:
        prefixes: What is replayed.
        seed: Of all that is drawn.
    """

    NUM_RANDOM, NEIGHBOURS, NUM_BEST, EXPANSION, SPREAD = 10, 256, 5, 0.1, 0.25
    TARGETS = (0.16, 0.32, 0.48, 0.64, 0.8, 1.0)

    def __init__(self, prefixes: Prefixes, seed: int) -> None:
        self._prefixes = prefixes
        self._rng = np.random.default_rng(seed)
        self._domains = prefixes.landscape.definition.space.distributions()
        self._sobol = qmc.Sobol(len(self._domains) + 1, seed=self._rng)
        self._bag: list[float] = []

    def run(self, budget: float) -> Found:
        """Searches with this number of environment steps."""
        places: list[Array] = []
        scores: list[float] = []
        spent, number = 0.0, 0
        while True:
            place = self._sobol.random(1)[0] if number < self.NUM_RANDOM else self._suggest(places, scores)
            points = self._points_of(place)
            if spent + self._prefixes.steps(points) > budget:
                break
            spent += self._prefixes.steps(points)
            number += 1
            curve = self._prefixes.landscape.curve(self._as_point(place), int(self._rng.integers(2**29)))[:points]
            score = Mixed()(with_steps(curve))
            if not np.isnan(score):
                places.append(place)
                scores.append(score)
        advised, promised = {}, {}
        for points in POINTS:
            within = [index for index, place in enumerate(places) if self._points_of(place) <= points]
            if within:
                best = max(within, key=lambda index: scores[index])
                advised[self._points_of(places[best])] = self._as_point(places[best])
                promised[self._points_of(places[best])] = scores[best]
        errors = [abs(promised[one] - self._prefixes.truth(place, one)) for one, place in advised.items()]
        return Found(self._prefixes.hypervolume(advised), tuple(errors), (), spent)

    def _suggest(self, places: Sequence[Array], scores: Sequence[float]) -> Array:
        x, y = np.array(places), np.array(scores)
        costs = x[:, -1]
        order = np.argsort(costs, kind="stable")
        front = [index for rank, index in enumerate(order) if y[index] > max(y[order[:rank]], default=-np.inf)]
        around = list(dict.fromkeys([*front, *np.argsort(-y)[: self.NUM_BEST]]))
        drawn = np.concatenate(
            [x[one] + self._rng.normal(0.0, self.SPREAD, (self.NEIGHBOURS, x.shape[1])) for one in around]
        )
        candidates = np.clip(drawn, 0.0, 1.0)
        predicted = _predict(x, y, candidates)
        spread = np.ptp(y) or 1.0
        return np.asarray(
            candidates[np.argmax((predicted - y.min()) / spread * (1.0 - np.abs(self._target() - candidates[:, -1])))]
        )

    def _target(self) -> float:
        if not self._bag:
            self._bag = list(self._rng.permutation(self.TARGETS))
        return (1.0 + self.EXPANSION) * float(np.clip(self._bag.pop() + self._rng.normal(0.0, 0.1), 0.0, 1.0))

    def _points_of(self, place: Array) -> int:
        """Evaluations of a run, from the last coordinate: the steps by their logarithm."""
        return round(float(self._prefixes.num_points ** float(place[-1])))

    def _as_point(self, place: Array) -> Point:
        return {
            name: _at(domain, float(where)) for (name, domain), where in zip(self._domains.items(), place, strict=False)
        }


def _at(domain: object, where: float) -> Scalar:
    """The point of a domain at a share of its range."""
    if isinstance(domain, CategoricalDistribution):
        return domain.choices[min(int(where * len(domain.choices)), len(domain.choices) - 1)]
    assert isinstance(domain, FloatDistribution | IntDistribution)
    low, high = (np.log(domain.low), np.log(domain.high)) if domain.log else (domain.low, domain.high)
    value = low + where * (high - low)
    value = float(np.clip(np.exp(value) if domain.log else value, domain.low, domain.high))
    return round(value) if isinstance(domain, IntDistribution) else value


def _predict(x: Array, y: Array, at: Array) -> Array:
    """The mean of a Gaussian process whose length scale and noise are those of the highest likelihood."""
    centred = (y - y.mean()) / (y.std() or 1.0)

    def loss(settings: Array) -> float:
        covariance = matern(x / np.exp(settings[0]), x / np.exp(settings[0])) + np.exp(settings[1]) * np.eye(len(x))
        factor = np.linalg.cholesky(covariance)
        weights = np.linalg.solve(factor, centred)
        return float(0.5 * weights @ weights + np.log(np.diag(factor)).sum())

    best = minimize(
        loss, np.log([0.5, 0.1]), method="L-BFGS-B", bounds=[(np.log(0.05), np.log(10)), (np.log(1e-4), 0.0)]
    ).x
    scale, noise = np.exp(best)
    weights = np.linalg.solve(matern(x / scale, x / scale) + noise * np.eye(len(x)), centred)
    return np.asarray(y.mean() + y.std() * matern(at / scale, x / scale) @ weights)


def interval(values: Sequence[float]) -> str:
    """Mean with a 95 % bootstrap interval."""
    low, high = bootstrap_interval(values, lambda rows: rows.mean(-1))
    return f"{np.mean(values):.3f} [{low:.3f}, {high:.3f}]"


def main(pair: str = "ppo-cartpole", repetitions: str = "100", first: str = "0") -> None:
    """Repeats and prints, as it goes."""
    os.fsync = lambda descriptor: None  # no power cut is measured here
    landscape = recorded(pair)
    landscape.definition = bare(landscape.definition)
    prefixes = Prefixes(landscape)
    ours: list[Found] = []
    theirs: list[Found] = []
    for seed in range(int(first), int(first) + int(repetitions)):
        ours.append(by_studies(prefixes, pair, seed))
        theirs.append(Protein(prefixes, seed).run(ours[-1].steps))
        if (seed + 1) % 10 == 0:
            gain = [one.volume - other.volume for one, other in zip(ours, theirs, strict=True)]
            covered = [one for found in ours for one in found.covered]
            print(
                f"{pair}, {len(ours)} repetitions: hypervolume {interval([one.volume for one in ours])}, "
                f"Protein {interval([one.volume for one in theirs])}, difference {interval(gain)}; error "
                f"{np.mean([e for one in ours for e in one.errors]):.1f}, "
                f"Protein {np.mean([e for one in theirs for e in one.errors]):.1f}; covered {np.mean(covered):.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
