"""How far the parameters of a winner may move: on a hill whose formula is known, with kills, and what is refused."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

from tests.tuner.features.ablation.test_ablation import rate_and_batch, studied, summary_of
from tests.tuner.studies import ControllerDied, FakeExecutor, Script, journal
from tuner.errors import UserError
from tuner.features.ablation.blocks import Between
from tuner.features.ablation.facts import ABLATE, ABLATION, Ablation, AblationStep, Change, CheckedRange, CheckedValue
from tuner.features.ablation.found_ranges import allowed_loss, found_range, range_sentences, ranges_csv
from tuner.features.ablation.range_search import Axis, Moved, RangeSearch, _Side, axes_of, moved_parameters
from tuner.features.ablation.runner import AblationRunner, AblationTask
from tuner.features.ablation.seeds import ablation_seeds
from tuner.features.ablation.settings import AblationSettings
from tuner.results.summary_json import summary_from_json, summary_to_json
from tuner.runs.simulator import Synthetic
from tuner.study import StudyDefinition, StudyStore
from tuner.study.space.space import Space
from tuner.study.storage.trial_records import read_records
from tuner.trial.messages import JsonDict, Outcome, TrialResult, TrialSpec

HILL: JsonDict = {
    "agent": {"learning_rate": 2e-3, "gamma": 0.985, "batch_size": 64, "activation": "tanh", "idle": 0.05}
}
SPACE: JsonDict = {
    "agent": {
        "learning_rate": {"low": 1e-5, "high": 1.0, "log": True},
        "gamma": {"low": 0.8, "high": 0.9999, "transform": "one_minus"},
        "batch_size": {"low": 8, "high": 1024, "transform": "power_of_two"},
        "activation": {"choices": ["relu", "tanh", "sigmoid"]},
        "idle": {"low": 0.0, "high": 0.1},
    }
}
WINNER = {f"agent.{name}": value for name, value in HILL["agent"].items()}


def truth(**moved: Any) -> float:
    values = {name: value for name, value in {**HILL["agent"], **moved}.items() if name != "idle"}
    return Synthetic(**values).quality


def noisy(seed: int, noise: float, **moved: Any) -> float:
    return truth(**moved) + noise * random.Random(f"{seed} {sorted(moved.items())}").gauss(0.0, 1.0)


class Measured:
    """Scores by the formula, with noise that each run has for itself; remembers what was run."""

    def __init__(self, noise: float) -> None:
        self.runs: set[tuple[Moved, int]] = set()
        self.announced: list[int] = []
        self._noise = noise

    def __call__(self, moved: Sequence[Moved], seeds: Sequence[int], to_come: int) -> Mapping[Moved, Any]:
        self.runs |= {(one, seed) for one in moved for seed in seeds}
        self.announced.append(len(self.runs) + to_come)
        return {
            (path, value): {seed: noisy(seed, self._noise, **{path.removeprefix("agent."): value}) for seed in seeds}
            for path, value in moved
        }


def ablation(study_seed: int, noise: float, num_seeds: int = 10) -> Ablation:
    """From a default at 10 to the winner."""
    seeds = ablation_seeds(study_seed, num_seeds)
    steps = (AblationStep((Change("agent.gamma", 0.9, 0.985),), tuple(noisy(seed, noise) for seed in seeds)),)
    return Ablation("trial 7", seeds, tuple(10.0 + noisy(seed, noise, gamma=0.2) for seed in seeds), steps)


def hill() -> Space:
    return Space.from_config(SPACE, HILL)


def walked(study_seed: int, noise: float, num_checks: int, axes: Sequence[Axis] | None = None) -> tuple[Any, Measured]:
    measured = Measured(noise)
    axes = axes or [Axis(one, HILL) for one in moved_parameters(hill(), WINNER, asked=True)]
    found = RangeSearch(ablation(study_seed, noise), axes, num_checks, measured).walk()
    return found, measured


def true_edges(name: str, allowed: float) -> tuple[float, float]:
    """Where the formula has fallen by so much, below and above the winner, on the scale of the search."""
    lowest = truth() - allowed
    good = [x for x, found in truths(name) if found >= lowest]
    return PLACES[name](good[0]), PLACES[name](good[-1])


@cache
def truths(name: str) -> list[tuple[float, float]]:
    """The formula along the scale of the search, of one parameter alone."""
    spread = {"learning_rate": (-5.0, 0.0), "gamma": (math.log10(0.2), -4.0)}[name]
    return [(x, truth(**{name: PLACES[name](x)})) for x in np.linspace(*spread, 4001).tolist()]


PLACES: Mapping[str, Callable[[float], float]] = {"learning_rate": lambda x: 10.0**x, "gamma": lambda x: 1.0 - 10.0**x}
"""By name: the value at a place on the scale of the search."""


def apart(name: str, one: float, other: float) -> float:
    """Share of the range that lies between two values."""
    if name == "learning_rate":
        return abs(math.log10(one / other)) / 5.0
    return abs(math.log10((1.0 - one) / (1.0 - other))) / math.log10(0.2 / 1e-4)


@pytest.mark.parametrize("study_seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
def test_found_ranges_are_close_to_the_true_ones(study_seed: int) -> None:
    """True edges by the formula; noise of 2 has what is allowed, about 2, at a slope of some 2 per 1 % of the range."""
    found, _ = walked(study_seed, noise=2.0, num_checks=6)
    ranges = {one.path.removeprefix("agent."): found_range(found, one) for one in found.ranges}
    allowed = allowed_loss(found)
    for name in ("learning_rate", "gamma"):
        for edge, true in zip((ranges[name].below, ranges[name].above), true_edges(name, allowed), strict=True):
            assert edge.fails_at is not None
            assert apart(name, edge.holds_at, true) < 0.04, (name, edge, true)
            assert apart(name, edge.fails_at.value, true) < 0.04
            assert apart(name, edge.holds_at, edge.fails_at.value) < 0.03, "six checks close in"
    low, high = ranges["batch_size"].below, ranges["batch_size"].above
    assert (low.holds_at, high.holds_at) == (64, 64), "a step costs 5 points"
    assert (low.fails_at.value, high.fails_at.value) == (32, 128)  # type: ignore[union-attr]
    assert ranges["idle"].below.holds_at == 0.0
    assert ranges["idle"].above.holds_at == 0.1
    assert ranges["idle"].above.at_end
    said = " ".join(range_sentences(found))
    assert "learning_rate may lie between 0.00" in said
    assert "idle may lie between 0 and 0.1 (checked by runs); the search ends at 0 and 0.1." in said
    assert "batch_size is known to hold at 64 only; at 32 the score falls by" in said


def test_few_seeds_are_enough_where_it_is_clear_and_runs_are_never_more_than_announced() -> None:
    found, measured = walked(0, noise=2.0, num_checks=3)
    sizes = {len(one.scores) for each in found.ranges for one in each.checked}
    assert sizes == {5, 10}
    assert all(len(one.checked) <= 6 for one in found.ranges)
    assert len(measured.runs) == sum(len(one.scores) for each in found.ranges for one in each.checked)
    assert max(measured.announced) <= 4 * 2 * 3 * 10
    assert {seed for _, seed in measured.runs} <= set(found.seeds)


def screened(num_trials: int) -> list[optuna.trial.FrozenTrial]:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1), direction="maximize")
    for number in range(num_trials):
        trial = study.ask(hill().distributions())
        values = hill().values(trial.params, HILL)
        study.tell(trial, noisy(number, 2.0, **{path.removeprefix("agent."): value for path, value in values.items()}))
    return study.get_trials()


def test_a_model_of_the_trials_looks_nearer_to_the_edge_than_half_way() -> None:
    trials = screened(60)
    winner = max(trials, key=lambda trial: trial.values[0]).number
    parameters = moved_parameters(hill(), WINNER, ("learning_rate", "agent.gamma"))
    modelled = axes_of(parameters, HILL, trials, winner, allowed=4.0)
    assert all(axis.profile is not None for axis in modelled)
    distances = {}
    for kind, axes in (("model", modelled), ("none", axes_of(parameters, HILL, trials[:5], 0, allowed=4.0))):
        found, _ = walked(0, noise=2.0, num_checks=1, axes=axes)
        distances[kind] = [
            apart(name, one.value, true)
            for each in found.ranges
            for name in [each.path.removeprefix("agent.")]
            for one, true in zip(each.checked, true_edges(name, 4.0), strict=True)
        ]
    assert np.mean(distances["model"]) < 0.6 * np.mean(distances["none"])


def test_what_cannot_be_run_is_an_edge_of_its_own() -> None:
    axes = [Axis(one, HILL) for one in moved_parameters(hill(), WINNER, ("idle",))]
    search = RangeSearch(ablation(0, 1.0), axes, 2, Measured(1.0), lambda moved: moved[1] < 0.06)
    found = search.walk()
    above = found_range(found, found.ranges[0]).above
    assert above.holds_at == 0.05
    assert above.fails_at is not None
    assert above.fails_at.scores == ()
    assert "it cannot be run" in " ".join(range_sentences(found))
    assert [row.split(",")[2:4] for row in ranges_csv(found).splitlines() if row.split(",")[1] > "0.06"][-1] == [
        "no",
        "",
    ]


def test_without_noise_a_small_share_of_the_gain_may_be_lost() -> None:
    found = ablation(0, 0.0)
    gain = truth() - (10.0 + truth(gamma=0.2))
    assert allowed_loss(found) == pytest.approx(0.05 * gain)


def test_the_next_point_of_a_grid_is_the_same_number_from_either_side() -> None:
    config = {"agent": {"p": 0.2}}
    (parameter,) = Space.from_config({"agent": {"p": {"low": 0.0, "high": 1.0, "step": 0.1}}}, config).parameters
    side = _Side(Axis(parameter, config), 1.0, 3)
    assert side._distinct(0.2) == 0.3  # 0.2 + 0.1 is another number
    side.outside = 0.3
    assert side._distinct(0.2) is None


def test_what_was_found_of_others_stays() -> None:
    kept = CheckedRange("agent.other", 1.0, 0.0, 2.0, (CheckedValue(2.0, (1.0,) * 5),))
    axes = [Axis(one, HILL) for one in moved_parameters(hill(), WINNER, ("idle",))]
    found = RangeSearch(replace(ablation(0, 1.0), ranges=(kept,)), axes, 1, Measured(1.0)).walk()
    assert [one.path for one in found.ranges] == ["agent.idle", "agent.other"]
    assert found.ranges[1] == kept


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (("activation",), "activation is a choice, which has no range; numbers are agent.batch_size"),
        (("learnin_rate",), "ranges=learnin_rate is no parameter .*did you mean agent.learning_rate"),
        (("agent.batch",), "ranges=agent.batch is no parameter"),
    ],
)
def test_names_that_have_no_range_are_refused(names: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        moved_parameters(hill(), WINNER, names)


def test_a_study_of_choices_has_no_ranges() -> None:
    choices = Space.from_config({"agent": {"activation": {"choices": ["relu", "tanh"]}}}, HILL)
    with pytest.raises(UserError, match="has searched no number"):
        moved_parameters(choices, WINNER, asked=True)
    assert moved_parameters(choices, WINNER, asked=False) == ()


@pytest.mark.parametrize(
    ("settings", "complaint"), [({"num_checks": 0}, "from 1 to 8"), ({"ranges": ()}, "names no param")]
)
def test_sizes_that_check_nothing_are_refused(settings: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        AblationSettings(**settings)


SETTINGS = AblationSettings(num_seeds=6, num_race_seeds=3, num_checks=2)


def ranged(
    folder: Path, study: StudyDefinition, found: Between, executor: FakeExecutor, names: bool | tuple[str, ...] = True
) -> Ablation:
    moved = moved_parameters(study.space, found.values(found.all), names)
    with StudyStore(journal(folder)) as store:
        return AblationRunner(AblationTask(study, found, SETTINGS, moved=moved), store, executor).run()


def test_ranges_are_kept_with_the_study_and_not_run_twice(tmp_path: Path) -> None:
    study, found = studied(tmp_path)
    executor = FakeExecutor(parallel=2, behave=rate_and_batch)
    ended = ranged(tmp_path, study, found, executor, ("learning_rate",))
    assert [one.path for one in ended.ranges] == ["optimizer.learning_rate"]
    assert {spec.seed for spec in executor.started} <= {
        *ablation_seeds(0, SETTINGS.num_seeds),
        *ablation_seeds(0, SETTINGS.num_race_seeds, race=True),
    }
    again = FakeExecutor(behave=rate_and_batch)
    assert ranged(tmp_path, study, found, again, ("learning_rate",)) == ended
    assert again.started == []
    assert ranged(tmp_path, study, found, again, names=False).ranges == ended.ranges, "not asked again, and not lost"
    assert again.started == []
    summary = summary_of(tmp_path)
    found_again = ABLATION.of(summary)
    assert found_again is not None
    assert found_again.ranges == ended.ranges
    assert ABLATION.of(summary_from_json(summary_to_json(summary))) == ABLATION.of(summary)


@pytest.mark.slow
def test_kills_at_any_moment_change_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    names = ("learning_rate",)
    expected = ranged(whole, *studied(whole), FakeExecutor(parallel=2, behave=rate_and_batch), names)
    study, found = studied(parts)
    rng, ended, sessions = random.Random(1), False, 0
    while not ended:
        executor = FakeExecutor(parallel=2, behave=rate_and_batch, die_after=rng.randint(50, 200))
        try:
            assert ranged(parts, study, found, executor, names) == expected
            ended = True
        except ControllerDied:
            sessions += 1
    assert sessions >= 3
    with StudyStore(journal(parts)) as store:
        stage = store.find("study", ABLATE)
        assert stage is not None
        runs = read_records(stage, ABLATE, parts)
    assert len({(run.label, run.seed) for run in runs}) == len(runs) == expected.num_runs
    assert all(run.outcome is Outcome.COMPLETE for run in runs)


def test_a_value_at_which_all_runs_crash_does_not_hold(tmp_path: Path) -> None:
    study, found = studied(tmp_path)
    rate = found.values(found.all)["optimizer.learning_rate"]

    def behave(spec: TrialSpec, attempt: int) -> Script:
        script = rate_and_batch(spec, attempt)
        fails = spec.config["optimizer"]["learning_rate"] > rate and spec.config["buffer"]["batch_size"] < 64
        default = spec.config["optimizer"]["learning_rate"] == study.config["optimizer"]["learning_rate"]
        return Script([], TrialResult(Outcome.DIVERGED, "nan")) if fails and not default else script

    ended = ranged(tmp_path, study, found, FakeExecutor(behave=behave), ("learning_rate",))
    span = found_range(ended, ended.ranges[0])
    assert span.above.holds_at == rate
    assert span.above.fails_at is not None


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (
            [{"path": "a", "value": 1.0, "low": 0.0, "high": 2.0, "checked": [{"value": 1.0, "scores": [1.0] * 9}]}],
            "other",
        ),
        ([{"path": "a", "value": "much", "low": 0.0, "high": 2.0, "checked": []}], "value"),
        ([3], "ranges"),
    ],
)
def test_ranges_that_are_none_are_not_shown(tmp_path: Path, damage: Any, complaint: str) -> None:
    study, found = studied(tmp_path)
    ranged(tmp_path, study, found, FakeExecutor(behave=rate_and_batch), names=False)
    with StudyStore(journal(tmp_path)) as store:
        stage = store.find("study", ABLATE)
    assert stage is not None
    stage.set_user_attr("ablation", {**stage.user_attrs["ablation"], "ranges": damage})
    with pytest.raises(UserError, match=complaint):
        summary_of(tmp_path)
