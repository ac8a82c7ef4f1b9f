"""Every sampler of conf/sampler on the synthetic hill: what it is chosen for can be seen in what it draws."""

import math
import statistics
from pathlib import Path
from typing import Any

import optuna
import pytest

from tests.tuner.command_line import CommandLine
from tests.tuner.studies import FakeExecutor, definition, journal
from tuner.config.composition import compose, config_loader
from tuner.errors import UserError
from tuner.results.records import StudySummary
from tuner.runs.build import build_node
from tuner.runs.config_checks import resolve
from tuner.runs.simulator import Synthetic
from tuner.study import StudyRunner, StudyStore, quiet_optuna
from tuner.study.optuna_internals import handle_of, suggest
from tuner.study.sampling.sampler_factory import make_sampler
from tuner.study.space.space import Space
from tuner.trial.messages import JsonDict

AGENT = {"learning_rate": 1e-4, "gamma": 0.9, "batch_size": 256, "activation": "relu"}
HILL: JsonDict = {
    "learning_rate": {"low": 1e-5, "high": 1.0, "log": True},
    "gamma": {"low": 0.8, "high": 0.9999, "transform": "one_minus"},
    "batch_size": {"low": 8, "high": 1024, "transform": "power_of_two"},
}


def factory(*overrides: str) -> Any:
    """The sampler that a command line asks for, as `tuner tune` makes it."""
    config = resolve(compose(config_loader(), "tune", ["agent=synthetic", *overrides]))
    with quiet_optuna():
        return build_node("sampler", {**config["sampler"], "_partial_": True})


def search(*overrides: str, seed: int = 0, num_trials: int = 40) -> list[tuple[dict[str, Any], float]]:
    """The values drawn, and their noise-free score."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = Space.from_config({"agent": HILL}, {"agent": AGENT})
    sampler = make_sampler(factory(*overrides), seed, 0, space)
    study = optuna.create_study(sampler=sampler, direction="maximize")
    found = []
    for _ in range(num_trials):
        trial = study.ask()
        values = space.values(space.draw(suggest(trial)), {"agent": AGENT})
        arguments = {path.removeprefix("agent."): value for path, value in values.items()}
        score = Synthetic(**{**AGENT, **arguments, "activation": "tanh"}).quality
        study.tell(trial, score)
        found.append((arguments, score))
    return found


def typical_best(*overrides: str, num_seeds: int = 8, num_trials: int = 40) -> float:
    """Median over sampler seeds of the best score."""
    bests = [
        max(score for _, score in search(*overrides, seed=seed, num_trials=num_trials)) for seed in range(num_seeds)
    ]
    return statistics.median(bests)


@pytest.fixture(scope="module")
def random_best() -> float:
    return typical_best("sampler=random", num_seeds=10)


@pytest.mark.parametrize(
    ("overrides", "num_seeds", "margin"),
    [
        (["sampler=tpe"], 6, 5.0),
        (["sampler=cmaes"], 6, 5.0),
        pytest.param(["sampler=gp", "sampler.n_startup_trials=6"], 1, 8.0, marks=pytest.mark.slow),
    ],
    ids=["tpe", "cmaes", "gp"],
)
def test_samplers_that_learn_beat_random_search(
    random_best: float, overrides: list[str], num_seeds: int, margin: float
) -> None:
    num_trials = 16 if "sampler=gp" in overrides else 40
    assert typical_best(*overrides, num_seeds=num_seeds, num_trials=num_trials) >= random_best + margin


@pytest.mark.parametrize("choice", ["nsga2", "nsga3"])
def test_later_generations_are_better_than_the_first(choice: str) -> None:
    gains = []
    for seed in range(4):
        scores = [score for _, score in search(f"sampler={choice}", "sampler.population_size=10", seed=seed)]
        gains.append(statistics.mean(scores[-10:]) - statistics.mean(scores[:10]))
    assert statistics.median(gains) > 10.0


def test_a_low_discrepancy_sequence_leaves_no_gap() -> None:
    """Of 16 scrambled Sobol points one lies in each sixteenth of the range, and chance would leave gaps."""

    def num_strata(choice: str) -> int:
        drawn = search(f"sampler={choice}", num_trials=17)[1:]  # the first trial only tells it the space
        return len({int((math.log10(arguments["learning_rate"]) + 5) / 5 * 16) for arguments, _ in drawn})

    assert num_strata("qmc") == 16
    assert num_strata("random") < 16


def test_the_same_seed_draws_the_same() -> None:
    for choice in ("random", "tpe", "qmc"):
        assert search(f"sampler={choice}", num_trials=14) == search(f"sampler={choice}", num_trials=14)
        assert search(f"sampler={choice}", num_trials=14) != search(f"sampler={choice}", num_trials=14, seed=1)


# Samplers that come to an end

FINITE: JsonDict = {
    "agent": {"kind": {"choices": ["plain", "double"]}},
    "buffer": {"batch_size": {"low": 16, "high": 256, "transform": "power_of_two"}},
}


def run(folder: Path, make: Any, space: JsonDict, parallel: int = 1, **changes: Any) -> StudySummary:
    with StudyStore(journal(folder)) as store:
        return StudyRunner(definition(folder, space=space, **changes), store, FakeExecutor(parallel), make).run()


def points_of(summary: StudySummary) -> list[tuple[Any, ...]]:
    return [tuple(run.params[path] for path in sorted(run.params)) for run in summary.stage("screen")]


@pytest.mark.parametrize(
    ("typed", "pruner"),
    [
        ([], "MedianPruner"),
        (["sampler=random"], "MedianPruner"),
        (["sampler=grid"], "NopPruner"),
        (["sampler=brute_force"], "NopPruner"),
        (["sampler=grid", "pruner=asha"], "SuccessiveHalvingPruner"),
        (["pruner=median", "sampler=brute_force"], "MedianPruner"),
        (["sampler=grid", "pruner=wilcoxon"], "WilcoxonPruner"),
    ],
)
def test_a_grid_runs_whole_unless_a_pruner_is_named(typed: list[str], pruner: str) -> None:
    assert compose(config_loader(), "tune", typed).pruner._target_ == f"optuna.pruners.{pruner}"


def test_an_experiment_may_name_both(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    for name, choices in (("whole", ("sampler: grid",)), ("pruned", ("sampler: grid", "pruner: asha"))):
        lines = "".join(f"  - override /{choice}\n" for choice in choices)
        (tmp_path / "experiment" / f"{name}.yaml").write_text(f"# @package _global_\ndefaults:\n{lines}")
    pruners = [compose(config_loader(tmp_path), "tune", [f"experiment={name}"]).pruner for name in ("whole", "pruned")]
    assert [pruner._target_.rpartition(".")[2] for pruner in pruners] == ["NopPruner", "SuccessiveHalvingPruner"]


@pytest.mark.parametrize("choice", ["grid", "brute_force"])
@pytest.mark.parametrize("parallel", [1, 3])
def test_every_point_is_visited_exactly_once(tmp_path: Path, choice: str, parallel: int) -> None:
    make = factory(f"sampler={choice}", *(["sampler.num_points=5"] if choice == "grid" else []))
    expected = {(kind, size) for kind in ("plain", "double") for size in (16, 32, 64, 128, 256)}
    first = points_of(run(tmp_path, make, FINITE, parallel, num_trials=4))
    assert len(set(first)) == len(first) == 4
    whole = points_of(run(tmp_path, make, FINITE, parallel, num_trials=100))
    assert whole[:4] == first
    assert len(whole) == 10
    assert set(whole) == expected
    assert points_of(run(tmp_path, make, FINITE, parallel, num_trials=200)) == whole


def test_a_grid_takes_steps_choices_and_evenly_spaced_points(tmp_path: Path) -> None:
    space = {
        "agent": {"gamma": {"low": 0.9, "high": 0.98, "step": 0.04}},
        "optimizer": {"learning_rate": {"low": 1e-4, "high": 1.0, "log": True}},
    }
    points = points_of(run(tmp_path, factory("sampler=grid"), space, num_trials=50))
    assert sorted({gamma for gamma, _ in points}) == pytest.approx([0.9, 0.94, 0.98])
    assert sorted({rate for _, rate in points}) == pytest.approx([1e-4, 1e-2, 1.0])
    assert len(points) == 9


def test_brute_force_tries_a_conditional_parameter_only_where_it_is_there(tmp_path: Path) -> None:
    space = {
        "agent": FINITE["agent"],
        "buffer": {
            "batch_size": {"low": 16, "high": 64, "transform": "power_of_two", "when": {"agent.kind": "double"}}
        },
    }
    points = points_of(run(tmp_path, factory("sampler=brute_force"), space, num_trials=50))
    assert set(points) == {("plain",), ("double", 16), ("double", 32), ("double", 64)}
    assert len(points) == 4, "the sampler itself says that it is done"


@pytest.mark.parametrize(
    ("overrides", "space", "why"),
    [
        (["sampler=brute_force"], {"agent": {"gamma": {"low": 0.9, "high": 0.99}}}, "agent.gamma has no end of them"),
        (["sampler=grid", "sampler.num_points=1"], FINITE, "sampler.num_points=1 must be at least 2"),
        (
            ["sampler=grid"],
            {**FINITE, "optimizer": {"learning_rate": {"low": 0.1, "high": 1.0, "when": {"agent.kind": "plain"}}}},
            "cannot walk through optimizer.learning_rate, which has a `when`",
        ),
    ],
)
def test_spaces_that_a_sampler_cannot_walk_through_are_refused(
    tmp_path: Path, overrides: list[str], space: JsonDict, why: str
) -> None:
    with pytest.raises(UserError, match=why):
        run(tmp_path, factory(*overrides), space)


# Classes of the user's own, and of others

MINE = """
import optuna

class Constant(optuna.samplers.RandomSampler):
    '''Always the lowest value.'''

    def __init__(self, offset: float = 0.0, seed: int | None = None) -> None:
        super().__init__(seed)
        self.offset = offset

    def sample_independent(self, study, trial, name, distribution):
        return distribution.low + self.offset

class WithoutSeed(optuna.samplers.RandomSampler):
    def __init__(self, low: bool = True) -> None:
        super().__init__()

    def sample_independent(self, study, trial, name, distribution):
        return distribution.low
"""
TUNE = ("agent=synthetic", "executor=inline", "storage=journal", "study.name=mine", "study.num_trials=3",
        "study.num_race_seeds=0", "space=function", "+space.agent.gamma={low: 0.5, high: 0.9}")  # fmt: skip


def drawn_gammas(tuner: CommandLine, *arguments: str) -> list[Any]:
    answer = tuner("tune", *TUNE, "warm_start=off", *arguments)
    assert answer.status == 0, answer.errors
    with StudyStore("journal:///studies.journal") as store:
        return [trial.params["agent.gamma"] for trial in store.require("mine").trials]


def test_a_sampler_of_the_users_own_is_used(tuner: CommandLine) -> None:
    (tuner.folder / "my_samplers.py").write_text(MINE)
    folder = tuner.folder / "conf" / "sampler"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text("_target_: my_samplers.Constant\noffset: 0.125\n")
    assert drawn_gammas(tuner, "--config-dir", "conf", "sampler=mine") == [0.625] * 3


@pytest.mark.parametrize("kind", ["Constant", "WithoutSeed"])
def test_a_sampler_from_a_registry_is_used(tuner: CommandLine, kind: str) -> None:
    package = tuner.folder / "registry" / "samplers" / "mine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(MINE)
    hub = ("sampler=hub", "sampler.package=samplers/mine", f"sampler.cls={kind}", "sampler.registry=registry")
    assert drawn_gammas(tuner, *hub) == [0.5] * 3


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["sampler.package=samplers/mine", "sampler.cls=Constan"], "has no Constan; did you mean Constant?"),
        (["sampler.package=samplers/min", "sampler.cls=X"], "did you mean samplers/mine?"),
        (["sampler.package=samplers/mine"], "sampler.cls is missing"),
    ],
)
def test_a_missing_entry_of_a_registry_is_reported_in_a_line(
    tuner: CommandLine, arguments: list[str], why: str
) -> None:
    package = tuner.folder / "registry" / "samplers" / "mine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(MINE)
    answer = tuner("tune", *TUNE, "sampler=hub", "sampler.registry=registry", *arguments)
    assert answer.status == 2
    assert why in answer.errors


# The configs are those of Optuna, but for what is said there


def test_tpe_is_joint_and_spreads_parallel_trials_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr("optuna.samplers.TPESampler.__init__", lambda self, **arguments: seen.update(arguments))
    factory("sampler=tpe")(seed=1)
    assert seen == {"n_startup_trials": 10, "multivariate": True, "group": True, "constant_liar": True, "seed": 1}


@pytest.mark.parametrize("name", ["random", "tpe", "nsga2"])
def test_a_study_that_is_stopped_goes_on_to_draw_what_it_would_have_drawn(name: str) -> None:
    straight = [arguments for arguments, _ in search(f"sampler={name}", num_trials=18)]
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = Space.from_config({"agent": HILL}, {"agent": AGENT})
    study, stopped = optuna.create_study(direction="maximize"), []
    for number in range(18):
        study.sampler = make_sampler(factory(f"sampler={name}"), 0, number, space)
        trial = study.ask()
        if number % 3 == 2:  # the controller dies while the trial is being entered
            first = space.parameters[0]
            suggest(trial)(first.name, first.distribution)
            study.sampler = make_sampler(factory(f"sampler={name}"), 0, number + 1, space)
            trial = handle_of(study, trial)
        values = space.values(space.draw(suggest(trial)), {"agent": AGENT})
        stopped.append({path.removeprefix("agent."): value for path, value in values.items()})
        study.tell(trial, Synthetic(**{**AGENT, **stopped[-1], "activation": "tanh"}).quality)
    assert stopped == straight
    assert len({str(arguments) for arguments in straight}) == 18
