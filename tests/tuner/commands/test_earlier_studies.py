"""A search that starts with what another study has found."""

import shutil
from dataclasses import replace
from pathlib import Path

import optuna
import pytest

import tuner as platform
from tests.tuner.command_line import CommandLine
from tests.tuner.commands.fake_studies import FAKE, SMALL_STUDY, STORAGE, tune
from tests.tuner.reporting.summaries import run
from tuner.commands import earlier_studies
from tuner.results.records import StudySummary

pytestmark = pytest.mark.usefixtures("fake_executor")
LATER = ("study.name=later", "study.num_trials=6")
GAMMA, RATE = "agent.gamma", "optimizer.learning_rate"


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is there once the study `mine` was run."""
    return tmp_path_factory.mktemp("studies") / "mine"


@pytest.fixture
def searched(tuner: CommandLine, shelf: Path) -> None:
    """The study `mine` of DQN in the working directory: run for the first test, copied for the others."""
    if shelf.exists():
        shutil.copytree(shelf, tuner.folder, dirs_exist_ok=True)
    else:
        tune(tuner, "agent=dqn")
        shutil.copytree(tuner.folder, shelf)


def points_of(name: str) -> list[dict[str, object]]:
    """The configurations of the screened trials, in their order."""
    runs = platform.load(name, storage=STORAGE).summary.stage("screen")
    return [dict(run.params) for run in sorted(runs, key=lambda run: run.number)]


def best_of(name: str) -> list[dict[str, object]]:
    """The winner, then the others by their scores in screening."""
    summary = platform.load(name, storage=STORAGE).summary
    ranked = sorted(summary.stage("screen"), key=lambda run: (run.label != summary.winner_label, -(run.score or 0.0)))
    return [dict(run.params) for run in ranked]


def test_the_best_configurations_of_an_earlier_study_are_tried_first(tuner: CommandLine, searched: None) -> None:
    answer = tune(tuner, "agent=dqn", *LATER, "env=acrobot", "seed=1", "warm_start=study:mine")
    best, tried, default = best_of("mine"), points_of("later"), points_of("mine")[0]
    expected = [default, *(point for point in best[:4] if point != default)]
    assert tried[: len(expected)] == expected
    assert tried[len(expected)] not in best
    assert "trial 0 is default, trial 1 is study:mine/" in answer.output
    assert ("number 1 of the best configurations of study mine" in answer.output) != (
        "Of the configurations that the search was started with (warm_start), trial" in answer.output
    )


def test_what_was_fixed_in_the_earlier_study_keeps_its_value(tuner: CommandLine, searched: None) -> None:
    """The winner of networks with relu, where the activation is searched and the default has tanh."""
    searched_too = ("++network.activation=tanh", "+space.network.activation={choices: [tanh, relu]}")
    tune(tuner, "agent=dqn", *LATER, "env=acrobot", "seed=1", "warm_start=study:mine", *searched_too)
    default, *others = points_of("later")[:4]
    assert default["network.activation"] == "tanh"
    assert [point["network.activation"] for point in others] == ["relu"] * 3


def test_in_a_list_the_default_is_left_out(tuner: CommandLine, searched: None) -> None:
    tune(tuner, "agent=dqn", *LATER, "env=acrobot", "seed=1", "warm_start=[study:mine]")
    assert points_of("later")[:4] == best_of("mine")[:4]


def test_infeasible_configurations_come_behind_feasible_ones() -> None:
    scores = {"trial 0": 9.0, "trial 1": 5.0, "trial 2": 8.0, "trial 3": 7.0}
    runs = [
        replace(run(label, "screen", score, params={GAMMA: score}), feasible=score < 8.0)
        for label, score in scores.items()
    ]
    summary = StudySummary("s", "final", "E-v0", "dqn", "torch", tuple(runs), "trial 1")
    assert [values[GAMMA] for values in earlier_studies._values_of_best(summary)] == [5.0, 7.0, 9.0, 8.0]


def test_the_default_configuration_among_the_best_is_called_so(tuner: CommandLine) -> None:
    tune(tuner, "agent=dqn", "study.num_trials=3")
    default = points_of("mine")[0]
    tune(tuner, "agent=dqn", *LATER, "warm_start=study:mine")
    summary = platform.load("later", storage=STORAGE).summary
    place = best_of("mine").index(default)
    others = [f"study:mine/{number}" for number in (1, 2, 3)]
    del others[place]
    assert list(summary.starts.values()) == ["default", *others]
    assert points_of("later")[0] == default
    tune(tuner, "agent=dqn", "study.name=listed", "study.num_trials=6", "warm_start=[study:mine]")
    others.insert(place, "default")
    assert list(platform.load("listed", storage=STORAGE).summary.starts.values()) == others


def test_values_outside_of_a_range_are_moved_to_its_nearest_end(tuner: CommandLine, searched: None) -> None:
    best = best_of("mine")
    middle = sorted(float(str(point[GAMMA])) for point in best[:4])[1]
    narrow = f"space.agent.gamma={{low: {middle}, high: 0.9999}}"  # without the default, 0.99, as it happens
    tune(tuner, "agent=dqn", *LATER, "warm_start=study:mine", narrow, "~space.policy.eps")
    for before, now in zip(best[:4], points_of("later"), strict=False):
        assert now[RATE] == before[RATE]
        assert now[GAMMA] == max(middle, float(str(before[GAMMA])))
        assert "policy.eps" not in now


def test_between_the_values_of_a_grid_the_default_is_taken(tuner: CommandLine, searched: None) -> None:
    grid = ("~space.agent.gamma", "+space.agent.gamma={choices: [0.9, 0.99, 0.9999]}")
    tune(tuner, "agent=dqn", *LATER, "warm_start=study:mine", *grid)
    default = points_of("later")[0]
    rates = [point[RATE] for point in best_of("mine")[:4] if point[RATE] != default[RATE]]
    tried = points_of("later")[: 1 + len(rates)]
    assert [point[GAMMA] for point in tried] == [0.99] * len(tried)
    assert [point[RATE] for point in tried[1:]] == rates


def test_a_study_goes_on_when_the_earlier_one_is_gone_or_has_grown(tuner: CommandLine, searched: None) -> None:
    tune(tuner, "agent=dqn", *LATER, "warm_start=study:mine")
    before, starts = points_of("later"), platform.load("later", storage=STORAGE).summary.starts
    tune(tuner, "agent=dqn", "study.num_trials=12")
    tune(tuner, "agent=dqn", *LATER, "warm_start=study:mine", "study.num_trials=7")
    assert points_of("later")[:6] == before
    assert platform.load("later", storage=STORAGE).summary.starts == starts, "nothing is tried again"
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend("studies.journal"))
    optuna.delete_study(study_name="mine", storage=storage)
    tune(tuner, "agent=dqn", *LATER, "warm_start=study:mine", "study.num_trials=8")
    after = points_of("later")
    assert after[:6] == before
    assert len(after) == 8


def refused(tuner: CommandLine, *arguments: str) -> str:
    return tuner.refused("tune", *FAKE, *SMALL_STUDY, *LATER, *arguments).strip()


def test_without_a_storage_there_is_no_study_to_start_with(tuner: CommandLine) -> None:
    assert "warm_start=study:mine: there is no study in this storage yet" in refused(
        tuner, "agent=dqn", "warm_start=study:mine"
    )


def test_what_cannot_be_started_with_is_refused(tuner: CommandLine, searched: None) -> None:
    assert "there is no study min; did you mean mine?" in refused(tuner, "agent=dqn", "warm_start=study:min")
    assert "warm_start=study:later is the study that begins here" in refused(
        tuner, "agent=dqn", "warm_start=study:later"
    )
    assert "searched dqn, and ppo is searched" in refused(tuner, "agent=ppo", "warm_start=study:mine")
