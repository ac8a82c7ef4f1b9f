# ruff: noqa: T201
"""Landscapes: what random configurations of an agent come to in an environment, as whole evaluation curves over seeds.

Run it as `python tests/benchmarks/landscape.py [PAIR ...]`, with OMP_NUM_THREADS=1 if other work is under way. PAIR is
one of `PAIRS` or `SMALLER_PAIRS` below, such as dqn-cartpole; without any, all of `PAIRS` are made in that order. Each
run is added to `landscapes/PAIR.parquet` as soon as it has ended, aside and moved: the same command goes on after any
kill, which costs the one run under way. `landscape.py show` prints what there is, and `landscape.py best PAIR ...` the
configurations by their mean score.

Configuration 0 is the default one, the others are drawn uniformly from `conf/space/`, in its own coordinates. All are
trained on the same seeds, by the same code and with the same budget and evaluations as a trial of `tuner tune`, in
PyTorch. What replays a landscape is in `recorded.py`.
"""

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

from note_rl.errors import DivergedError
from note_rl.support.atomic_files import atomic_target
from tuner.commands.study_from_config import define
from tuner.config.composition import RunConfig, compose, config_loader
from tuner.results.metric import FloatArray, Mixed
from tuner.results.number_format import counted
from tuner.results.records import Scalar
from tuner.runs.training import run_training
from tuner.study import StudyDefinition
from tuner.study.space.drawn_points import anywhere
from tuner.trial.messages import JsonDict

FOLDER = Path(__file__).parent / "landscapes"
NUM_CONFIGURATIONS = 121
SEEDS = (1, 2, 3, 4)
_PPO = ("agent=ppo", "network=mlp_tanh", "schedule=none")  # as it was when these landscapes were recorded
_PPO_CONTINUOUS = (
    *("agent=ppo_continuous", "training.total_steps=50000", "~space.network"),
    "+space.env.num_envs={low: 1, high: 16, transform: power_of_two}",
)
PAIRS: dict[str, tuple[str, ...]] = {
    "dqn-cartpole": ("agent=dqn", "env=cartpole", "training.total_steps=30000"),
    "ppo-cartpole": (*_PPO, "env=cartpole", "training.total_steps=30000"),
    "dqn-acrobot": ("agent=dqn", "env=acrobot", "training.total_steps=30000"),
    "ppo-acrobot": (*_PPO, "env=acrobot", "training.total_steps=30000"),
    "dqn-mountaincar": ("agent=dqn", "env=mountaincar", "training.total_steps=60000"),
    "ppo_continuous-pendulum": (*_PPO_CONTINUOUS, "env=pendulum"),
    "ppo_continuous-mountaincar": (*_PPO_CONTINUOUS, "env=mountaincar_continuous"),
    "ppo_continuous-lunarlander": (*_PPO_CONTINUOUS, "env=lunarlander_continuous"),
}
"""By name, the overrides behind `tuner tune`; the rest is as `study=quick` has it."""
SMALLER_PAIRS: dict[str, tuple[str, ...]] = {
    "sac-pendulum": ("agent=sac", "env=pendulum", "training.total_steps=10000"),
}
"""The same, with fewer runs, as each takes long: about defaults, and not for replays of studies."""
_ALL_PAIRS = {**PAIRS, **SMALLER_PAIRS}


@dataclass(frozen=True)
class Row:
    """One run.

    Attributes:
        configuration: Its number; 0 is the default one.
        point: Where it lies in the space, by the names of Optuna's parameters.
        seed: Of the run.
        curve: Mean return of each evaluation; None from where it diverged.
        seconds: Wall time of the run, evaluations included.
        cpu_seconds: Processor time of the same.
    """

    configuration: int
    point: Mapping[str, Scalar]
    seed: int
    curve: tuple[float | None, ...]
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Landscape:
    """All runs of a pair, in the order in which they were made, and under what conditions; see `about`."""

    about: JsonDict
    rows: tuple[Row, ...] = ()

    def write(self, path: Path) -> None:
        """Replaces the file."""
        columns = {name: [getattr(row, name) for row in self.rows] for name in _TYPES}
        points = {f"point/{name}": [row.point[name] for row in self.rows] for name in self.about["space"]}
        table = pyarrow.table({name: pyarrow.array(columns[name], kind) for name, kind in _TYPES.items()} | points)
        path.parent.mkdir(exist_ok=True)
        with atomic_target(path) as aside:
            pyarrow.parquet.write_table(table.replace_schema_metadata({"about": json.dumps(self.about)}), aside)

    @classmethod
    def read(cls, path: Path) -> "Landscape":
        """The landscape in a file."""
        table = pyarrow.parquet.read_table(path, use_threads=False)
        about = json.loads(table.schema.metadata[b"about"])
        rows = [
            Row(
                point={name: line[f"point/{name}"] for name in about["space"]},
                curve=tuple(line["curve"]),
                **{name: line[name] for name in _TYPES if name != "curve"},
            )
            for line in table.to_pylist()
        ]
        return cls(about, tuple(rows))


_TYPES = {
    "configuration": pyarrow.int32(),
    "seed": pyarrow.int32(),
    "curve": pyarrow.list_(pyarrow.float32()),
    "seconds": pyarrow.float32(),
    "cpu_seconds": pyarrow.float32(),
}


def path_of(name: str, folder: Path = FOLDER) -> Path:
    """The file of a pair."""
    return folder / f"{name}.parquet"


def definition_of(overrides: Sequence[str]) -> StudyDefinition:
    """The study whose trials a landscape holds."""
    quick = [*overrides, "tracker=jsonl", "checkpoint=small", "checkpoint.best=false"]
    return define(compose(config_loader(), "tune", quick), quick)


def about(definition: StudyDefinition) -> JsonDict:
    """Under what conditions runs are made: those of one file share them all."""
    config = definition.config
    return {
        "agent": definition.agent,
        "env": definition.env_id,
        "total_steps": config["training"]["total_steps"],
        "num_points": config["evaluation"]["num_points"],
        "num_episodes": config["evaluation"]["num_episodes"],
        "space": definition.space.describe(),
    }


def point_of(definition: StudyDefinition, configuration: int) -> dict[str, Scalar]:
    """Where a configuration lies in the space."""
    if configuration == 0:
        return definition.space.drawn(definition.config)
    rng = np.random.default_rng(configuration)
    return definition.space.draw(lambda name, distribution: anywhere(distribution, rng))


def train(definition: StudyDefinition, configuration: int, seed: int) -> Row:
    """One run."""
    point = point_of(definition, configuration)
    config = definition.run_config(definition.space.values(point, definition.config), seed)
    curve = _Curve()
    wall, cpu = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        try:
            run_training(RunConfig.from_json(config), Path(folder), curve)
        except DivergedError:
            curve.values += [None] * (definition.num_points - len(curve.values))
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    return Row(configuration, point, seed, tuple(curve.values), seconds, cpu_seconds)


class _Curve:
    """The reporter of a run that keeps its evaluations and nothing else."""

    def __init__(self) -> None:
        self.values: list[float | None] = []
        self.reported: list[tuple[float, float]] = []

    def report(self, step: float, value: float, seconds: float | None = None) -> None:
        """Keeps an evaluation."""
        self.reported.append((step, value))
        self.values.append(value)

    def built(self, config: JsonDict) -> None: ...
    def log(self, step: int, metrics: Mapping[str, float]) -> None: ...
    def note(self, text: str) -> None: ...
    def ends(self, reason: str, used: float) -> None: ...
    def alive(self, progress: float) -> None: ...
    def check(self) -> None: ...


def missing(landscape: Landscape, num_configurations: int, seeds: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Configurations and seeds that were not run yet, seed by seed."""
    there = {(row.configuration, row.seed) for row in landscape.rows}
    wanted = ((configuration, seed) for seed in seeds for configuration in range(num_configurations))
    return (pair for pair in wanted if pair not in there)


def make(name: str, folder: Path = FOLDER, num_configurations: int | None = None, more: Sequence[str] = ()) -> None:
    """Makes a landscape, or what is left of it.

    Args:
        name: One of `PAIRS` or `SMALLER_PAIRS`.
        folder: Where its file is.
        num_configurations: Of each seed; None: as many as such a pair has.
        more: Further overrides.
    """
    typed = [*_ALL_PAIRS[name], *more]
    number, seeds = (61, (1, 2)) if name in SMALLER_PAIRS else (NUM_CONFIGURATIONS, SEEDS)
    definition = definition_of(typed)
    path = path_of(name, folder)
    landscape = Landscape.read(path) if path.exists() else Landscape(about(definition))
    if landscape.about != about(definition):
        raise SystemExit(f"{path} was made under other conditions; move it away to begin a new one")
    todo = list(missing(landscape, num_configurations or number, seeds))
    if todo:
        train(definition_of([*typed, "training.total_steps=1500"]), 0, 0)  # imports, which are nobody's time
    for configuration, seed in todo:
        row = train(definition, configuration, seed)
        landscape = Landscape(landscape.about, (*landscape.rows, row))
        landscape.write(path)
        print(f"{name} {configuration:3d} seed {seed}: {row.curve[-1]} in {row.cpu_seconds:.1f} s", flush=True)


def show() -> None:
    """Prints how much there is."""
    for name in _ALL_PAIRS:
        if (path := path_of(name)).exists():
            rows = Landscape.read(path).rows
            seeds = dict(sorted(Counter(row.seed for row in rows).items()))
            cpu = np.mean([row.cpu_seconds for row in rows])
            print(
                f"{name}: {len(rows)} runs, by seed {seeds}, {cpu:.1f} CPU seconds each, {path.stat().st_size:,} bytes"
            )


def best(names: Sequence[str], folder: Path = FOLDER) -> None:
    """Prints configurations by their mean score, with the mean of the last evaluation, and of seconds; of each pair.

    Those that diverged with a seed come last. Several pairs must have the same search space. They are put together by
    shares: 1 is the best score of a pair, 0 the median one, and no share is below -1.
    """
    landscapes = [Landscape.read(path_of(name, folder)) for name in names]
    definitions = [definition_of(_ALL_PAIRS[name]) for name in names]
    for name, landscape, definition in zip(names, landscapes, definitions, strict=True):
        if landscape.about != about(definition):
            raise SystemExit(f"{path_of(name, folder)} was made under other conditions than those of today")
    if any(landscape.about["space"] != landscapes[0].about["space"] for landscape in landscapes):
        raise SystemExit(f"{', '.join(names)}: these pairs have several search spaces; name pairs of one")
    found = [_means_by_number(landscape) for landscape in landscapes]
    numbers = sorted(set.intersection(*(set(means) for means in found)))
    shares = np.mean([_shares([means[number].score for number in numbers]) for means in found], axis=0)
    order = sorted(
        zip(numbers, shares, strict=True), key=lambda one: (-one[1], *(-means[one[0]].score for means in found))
    )
    points = {row.configuration: row.point for row in landscapes[0].rows}
    for rank, (number, share) in enumerate(order, start=1):
        values = definitions[0].space.values(points[number], definitions[0].config)
        shown = " ".join(
            f"{path}={f'{value:.4g}' if isinstance(value, float) else value}" for path, value in values.items()
        )
        of_each = "; ".join(str(means[number]) for means in found)
        print(f"{rank:3d} {number or 'default'}: share {share:.2f}, {of_each}: {shown}")


def _means_by_number(landscape: Landscape) -> dict[int, "_Means"]:
    by_number: dict[int, list[Row]] = {}
    for row in landscape.rows:
        by_number.setdefault(row.configuration, []).append(row)
    return {number: _Means.of(rows) for number, rows in by_number.items()}


def _shares(scores: Sequence[float]) -> FloatArray:
    finite = [score for score in scores if np.isfinite(score)]
    middle, highest = np.median(finite), np.max(finite)
    return np.asarray(np.maximum((np.asarray(scores) - middle) / (highest - middle), -1.0))


@dataclass(frozen=True)
class _Means:
    """Over the seeds of a configuration; scores of -inf where it diverged with one."""

    score: float
    end: float
    cpu_seconds: float
    num_seeds: int

    def __str__(self) -> str:
        of_runs = f"{self.cpu_seconds:.0f} CPU s, {counted(self.num_seeds, 'seed')}"
        return f"score {self.score:.0f}, end {self.end:.0f}, {of_runs}"

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "_Means":
        curves = [[-np.inf if value is None else value for value in row.curve] for row in rows]
        steps = [(point + 1) / len(curves[0]) for point in range(len(curves[0]))]
        scores = [Mixed()(list(zip(steps, curve, strict=True))) for curve in curves]
        ends, seconds = [curve[-1] for curve in curves], [row.cpu_seconds for row in rows]
        return cls(float(np.mean(scores)), float(np.mean(ends)), float(np.mean(seconds)), len(rows))


def main(words: Sequence[str]) -> None:
    """Makes them, or prints what there is."""
    match list(words):
        case ["show"]:
            show()
        case ["best", _, *_] if set(words[1:]) <= set(_ALL_PAIRS):
            best(words[1:])
        case names if unknown := set(names) - set(_ALL_PAIRS):
            known = ", ".join(_ALL_PAIRS)
            raise SystemExit(
                f"{' '.join(sorted(unknown))}: write show, best PAIR ... or PAIR ...; a PAIR is one of {known}"
            )
        case names:
            for name in names or PAIRS:
                make(name)


if __name__ == "__main__":
    main(sys.argv[1:])
