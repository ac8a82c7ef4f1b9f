# ruff: noqa: T201
"""Worth of each choice of a study: samplers, pruners, seeds and stages at equal budget, on a recorded landscape.

    python tests/benchmarks/protocols.py [PAIR [quick|full [REPETITIONS [FILE [ROW ...]]]]]     (dqn-cartpole quick 100)

Each repetition is one whole study with a seed of its own, of the size of `study=quick` or `study=full`: the engine and
the stages are those of `tuner tune`, and only training is replayed (see `recorded.py`). A budget is counted in
environment steps of all runs before the test, so that who prunes may screen more. A true score is the mean over all
that a configuration may score, which a real study never knows. Printed are, with 95 % intervals over repetitions:

- regret: the best true score there is minus that of the configuration that was chosen, and its difference from that of
  the first row with the same seed;
- optimism: the score that it was chosen by minus its true one, which is what to fear from a number that chose; and how
  far that score is off, without its sign;
- error: how far the number that is printed as the result is from what it stands for, without its sign. Of a study that
  is the IQM over test seeds, against the true IQM; of a plain search it is the score it was chosen by;
- covered: in how many repetitions the 95 % interval of the score it was chosen by holds the true one, where it has an
  interval.

`protocols_pooled.py` puts the landscapes together.

FILE keeps what is finished: the same command goes on after a kill, as long as the landscape is the same. ROW: the first
row and those whose name contains one of these words are repeated. REPETITIONS is their number, or the seeds of studies:
100-199. The constants of `study.decision=model` were chosen on seeds below 100.
"""

import json
import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import optuna
from optuna.pruners import BasePruner, MedianPruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler

from tests.benchmarks.landscape import PAIRS, path_of
from tests.benchmarks.recorded import Recorded, RecordedExecutor, recorded, with_steps
from tuner.commands.study_from_config import define, search_parts
from tuner.config.composition import compose, config_loader
from tuner.config.paths import get_path
from tuner.results.metric import FloatArray, Metric, Mixed, UntimedMetric
from tuner.results.records import Scalar
from tuner.results.statistics import bootstrap_interval, iqm, mean
from tuner.results.verdict import verdict
from tuner.runs.config_checks import resolve
from tuner.study import StudyDefinition, StudyRunner, StudyStore, quiet_optuna
from tuner.study.optuna_internals import suggest
from tuner.study.sampling.sampler_factory import SamplerFactory
from tuner.study.space.drawn_points import anywhere
from tuner.trial.messages import JsonDict

_MANY = 1000
"""Configurations that no budget here suffices for."""


@dataclass(frozen=True)
class Found:
    """Results of one repetition.

    Attributes:
        regret: Of the chosen configuration.
        optimism: Of the score it was chosen by.
        error: Of the printed number, with its sign.
        num_screened: Configurations that were tried.
        covered: Whether the interval of the score that it was chosen by holds the true one; None: it has none.
    """

    regret: float
    optimism: float
    error: float
    num_screened: int
    covered: bool | None = None


class Truth:
    """The true scores of a landscape by one metric, and the best of them."""

    NUM_DRAWN: ClassVar[int] = 4000
    GENERATIONS: ClassVar[int] = 60

    def __init__(self, landscape: Recorded, metric: Metric) -> None:
        self.landscape, self.metric = landscape, metric
        self.best = self._best()

    def score(self, point: Mapping[str, Scalar]) -> float:
        """The true score of a configuration."""
        return float(np.mean(self.landscape.scores(point, self.metric)))

    def _best(self) -> float:
        """Of many points by chance, and of descendants of the best of them that move ever less."""
        space, rng = self.landscape.definition.space, np.random.default_rng(0)
        points = [space.draw(lambda _, distribution: anywhere(distribution, rng)) for _ in range(self.NUM_DRAWN)]
        scored = [(self.score(point), point) for point in points]
        for generation in range(self.GENERATIONS):
            scored = sorted(scored, key=lambda one: -one[0])[:60]
            for _, parent in list(scored):
                child = dict(parent)
                for name, distribution in space.distributions().items():
                    if rng.random() < 0.5:
                        drawn = [anywhere(distribution, rng) for _ in range(1 + generation)]
                        child[name] = min(drawn, key=lambda one, name=name: abs(one - parent[name]))
                scored.append((self.score(child), child))
        return max(score for score, _ in scored)


@cache
def composed(
    pair: str, size: str, overrides: tuple[str, ...] = ()
) -> tuple[StudyDefinition, SamplerFactory, BasePruner]:
    """The study that is typed so, its sampler and its pruner."""
    typed = [f"study={size}", "study.baselines=default", *PAIRS[pair], "tracker=jsonl"]
    # the rows were chosen and recorded with race and confirmation, and without the default among the trials
    typed += ["study.decision=confirmed", "warm_start=off", *overrides]
    config = compose(config_loader(), "tune", typed)
    return bare(define(config, typed)), *search_parts(resolve(config))


def bare(definition: StudyDefinition) -> StudyDefinition:
    """The study with only what is searched in the config of its runs, which saves half of the time."""
    needed = ("seed", "agent._target_", "env.id", "backend.name", "training.total_steps", "evaluation.num_points")
    config: JsonDict = {}
    for path in (
        *needed,
        *definition.space.paths,
        *(one for part in definition.space.parameters for one in part.rests_on),
    ):
        *parents, name = path.split(".")
        place = config
        for parent in parents:
            place = place.setdefault(parent, {})
        place[name] = get_path(definition.config, path)
    return replace(definition, config=config, configure=None, probe=None)


def num_runs(definition: StudyDefinition, *left_out: str) -> int:
    """Runs of a study as it is planned, without those of some stages."""
    return sum(plan.num_runs for plan in definition.plan() if plan.stage not in left_out)


def run_study(truth: Truth, overrides: tuple[str, ...], pair: str, size: str, seed: int) -> Found:
    """One whole study of what these overrides describe, with the budget that it has without them."""
    definition, sampler, pruner = composed(pair, size, overrides)
    plain = composed(pair, size)[0]
    budget = num_runs(plain) * plain.config["training"]["total_steps"]
    settings = replace(
        definition.settings, num_trials=_MANY, num_race=definition.settings.num_entrants, max_env_steps=budget
    )
    with tempfile.TemporaryDirectory() as folder, StudyStore("memory") as store:
        one = replace(definition, seed=seed, folder=Path(folder), settings=settings)
        with RecordedExecutor(truth.landscape) as executor:
            summary = StudyRunner(one, store, executor, sampler, pruner).run()
    found = verdict(summary)
    assert summary.winner_label is not None
    assert found.winner is not None
    assert found.tuning is not None
    space = truth.landscape.definition.space
    point = space.drawn(space.apply(one.config, dict(summary.params_of(summary.winner_label))))
    scores = truth.landscape.scores(point, truth.metric)
    own = float(np.mean(scores))
    optimism, error = found.tuning.iqm - own, found.winner.iqm - float(iqm(scores))
    low, high = found.tuning.low, found.tuning.high
    covered = None if low is None or high is None else bool(low <= own <= high)
    return Found(truth.best - own, optimism, error, len(summary.stage("screen")), covered)


class Last(UntimedMetric):
    """The last evaluation alone, by which RL Baselines3 Zoo goes."""

    name = label = "last"

    def _score(self, steps: FloatArray, values: FloatArray) -> float:
        return float(values[-1])


@dataclass(frozen=True)
class Plain:
    """A search that takes the configuration with the highest score, without any further stage.

    Attributes:
        sampler: Makes Optuna's.
        num_seeds: Seeds of each configuration, whose mean is its score.
        metric: What is maximised.
        pruner: Optuna's; goes by the newest evaluation, as RL Baselines3 Zoo does.
        same_seeds: Whether all configurations are trained on the same ones.
    """

    sampler: Callable[..., BaseSampler]
    num_seeds: int = 1
    metric: Metric = Mixed()  # noqa: RUF009 - it has no state
    pruner: MedianPruner | None = None
    same_seeds: bool = True

    def run(self, truth: Truth, budget: int, seed: int) -> Found:
        """One search of `budget` runs."""
        landscape, left, scores = truth.landscape, float(budget), dict[int, float]()
        points: list[dict[str, Scalar]] = []
        with quiet_optuna():
            sampler = self.sampler(seed=seed)
            study = optuna.create_study(direction="maximize", sampler=sampler, pruner=self.pruner)
            while left >= self.num_seeds:
                trial = study.ask()
                points.append(landscape.definition.space.draw(suggest(trial)))
                first = 10**6 * seed + (0 if self.same_seeds else trial.number * self.num_seeds) + 10
                curves = [landscape.curve(points[-1], first + number) for number in range(self.num_seeds)]
                used = self._used(trial, curves[0])
                left -= self.num_seeds * used
                if used < 1.0:
                    study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                    continue
                scores[trial.number] = float(np.mean([self.metric(with_steps(curve)) for curve in curves]))
                study.tell(trial, scores[trial.number])
        best = max(scores, key=lambda number: scores[number])
        promised = scores[best] - float(np.mean(landscape.scores(points[best], self.metric)))
        return Found(truth.best - truth.score(points[best]), promised, promised, len(points))

    def _used(self, trial: optuna.Trial, curve: Sequence[float]) -> float:
        """The share of a run that is done before it is pruned."""
        if self.pruner is None:
            return 1.0
        for index, value in enumerate(curve, start=1):
            trial.report(value, index)
            if index < len(curve) and trial.should_prune():
                return index / len(curve)
        return 1.0


_TPE = partial(TPESampler, multivariate=True, group=True, constant_liar=True)
_ZOO = partial(TPESampler, n_startup_trials=10, multivariate=True)
STUDIES: dict[str, tuple[str, ...]] = {
    "as set: sampler=tpe pruner=median": (),
    "sampler=tpe pruner=none": ("pruner=none",),
    "sampler=tpe, each by itself, pruner=none": ("pruner=none", "sampler.multivariate=false", "sampler.group=false"),
    "sampler=gp pruner=none": ("pruner=none", "sampler=gp"),
    "sampler=cmaes pruner=none": ("pruner=none", "sampler=cmaes"),
    "sampler=random pruner=none": ("pruner=none", "sampler=random"),
    "sampler=qmc pruner=none": ("pruner=none", "sampler=qmc"),
    "pruner=median without a gate": ("study.pruning.min_rank_agreement=-1", "study.pruning.min_rank_bound=-1"),
    "pruner=hyperband": ("pruner=hyperband",),
    "pruner=hyperband without a gate": (
        "pruner=hyperband", "study.pruning.min_rank_agreement=-1", "study.pruning.min_rank_bound=-1",
    ),
    "no race": ("study.num_race_seeds=0",),
    "a race of 8 on 2 more seeds": ("study.num_race=8", "study.num_race_seeds=2"),
    "decision=all_runs": ("study.decision=all_runs",),
    "decision=model": ("study.decision=model",),
    "5 candidates on 3 seeds": ("study.num_race=8", "study.num_candidates=5", "study.num_select_seeds=3"),
}  # fmt: skip
"""Whole studies with all their stages, by what is typed behind `study.decision=confirmed`."""

PLAIN = {
    "best of n: tpe, one seed": Plain(_TPE),
    "best of n: random, one seed": Plain(RandomSampler),
    "best of n/3: tpe, three seeds each": Plain(_TPE, 3),
    "best of n/3: random, three seeds each": Plain(RandomSampler, 3),
    "best of n/5: tpe, five seeds each": Plain(_TPE, 5),
    "rl-zoo3: tpe, median, last evaluation": Plain(_ZOO, 1, Last(), MedianPruner(10, 3), same_seeds=False),
}


class Kept:
    """Finished repetitions, a line for each of them.

    Args:
        path: The file; None: nothing is kept.
        landscape: Tells on which it was done, as it grows.
    """

    def __init__(self, path: Path | None, landscape: int) -> None:
        self._path = path
        self._landscape = landscape
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self._found = {tuple(key): Found(*values) for key, *values in map(json.loads, lines)}

    def __call__(self, key: tuple[object, ...], work: Callable[[], Found]) -> Found:
        """Does the work, unless it was done before."""
        key = (self._landscape, *key)
        if key not in self._found:
            self._found[key] = found = work()
            if self._path is not None:
                with self._path.open("a") as file:
                    file.write(json.dumps([key, *vars(found).values()]) + "\n")
        return self._found[key]


def interval(values: Sequence[float]) -> str:
    """Mean with a 95 % bootstrap interval."""
    low, high = bootstrap_interval(values, mean)
    return f"{np.mean(values):6.1f} [{low:5.1f}, {high:5.1f}]"


def seeds_of(repetitions: str) -> range:
    """The seeds of studies: this number of them, or those from one to another."""
    first, _, last = repetitions.rpartition("-")
    return range(int(first), int(last) + 1) if first else range(int(last))


def repeat(truth: Truth, name: str, pair: str, size: str, seeds: range, kept: Kept) -> list[Found]:
    """The repetitions of one row. The seeds are the same in all rows."""
    budget = num_runs(composed(pair, size)[0], "test")
    found = []
    for seed in seeds:
        if name in STUDIES:
            work = partial(run_study, truth, STUDIES[name], pair, size, seed)
        else:
            work = partial(PLAIN[name].run, truth, budget, seed)
        found.append(kept((pair, size, name, seed), work))
    return found


def main(pair: str = "dqn-cartpole", size: str = "quick", repetitions: str = "100", file: str = "", *rows: str) -> None:
    """Repeats and prints."""
    os.fsync = lambda descriptor: None  # no power cut is measured here
    kept = Kept(Path(file) if file else None, zlib.crc32(path_of(pair).read_bytes()))
    landscape = recorded(pair)
    landscape.definition = bare(landscape.definition)
    truth = Truth(landscape, Mixed())
    default = truth.score(landscape.definition.space.drawn(landscape.definition.config))
    budget = num_runs(composed(pair, size)[0], "test")
    print(f"{pair}, study={size}: {len(seeds_of(repetitions))} repetitions of {budget} runs before the test")
    print(f"of the variance between configurations {landscape.explained:.0%} is predicted where one is left out")
    print(f"best true score {truth.best:.1f}, default {default:.1f}")
    print(
        f"{'':41} {'regret':>21} {'minus that as set':>21} {'optimism':>21} {'its size':>21} {'error':>21} "
        "covered configurations"
    )
    first: list[float] = []
    for name in (*STUDIES, *PLAIN):
        if rows and not any(word in name for word in (*rows, "as set")):
            continue
        found = repeat(truth, name, pair, size, seeds_of(repetitions), kept)
        regrets = [one.regret for one in found]
        first = first or regrets
        columns = [
            regrets,
            [own - other for own, other in zip(regrets, first, strict=True)],
            [one.optimism for one in found],
            [abs(one.optimism) for one in found],
            [abs(one.error) for one in found],
        ]
        screened = np.mean([one.num_screened for one in found])
        known = [one.covered for one in found if one.covered is not None]
        covered = f"{np.mean(known):7.0%}" if known else "      -"
        print(f"{name:41} {'  '.join(map(interval, columns))} {covered}  {screened:.0f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
