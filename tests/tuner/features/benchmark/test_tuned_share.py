"""Gain of tuning over a default, by studies with the same agent, environment, metric and number of steps."""

from dataclasses import replace
from typing import Any

import pytest

from tests.tuner.reporting.summaries import full_study
from tuner.features.benchmark.entrants import Cell
from tuner.features.benchmark.tuned_share import shares_of
from tuner.results.records import StudySummary

CELL = Cell(
    "dqn",
    "dqn",
    "cartpole",
    {"agent": {"_target_": "note_rl.DQN"}, "env": {"id": "CartPole-v1"}, "training": {"total_steps": 500}, "seed": 0},
)


def study(**changes: Any) -> StudySummary:
    """Of 500 steps: on test seeds the default scores 22, the winner 82."""
    return full_study(**{"metric": "mixed", "random_score": 2.0, "budget": {STEPS: 500}, **changes})


STEPS = "environment steps per run"


def test_a_study_says_how_much_tuning_brought() -> None:
    (found,) = shares_of([CELL], [study()], "mixed")
    assert (found.study, found.floor, found.default, found.tuned) == ("poles", 2.0, 22.0, 82.0)
    assert found.share == 0.75
    (worse,) = shares_of([CELL], [study(winner_label="default")], "mixed")
    assert worse.share == 0.0


@pytest.mark.parametrize(
    "changes",
    [
        {"metric": "final"},
        {"budget": {STEPS: 501}},
        {"random_score": None},
        {"random_score": 90.0},
        {"winner_label": None},
    ],
)
def test_a_study_of_something_else_says_nothing(changes: dict[str, Any]) -> None:
    assert shares_of([CELL], [study(**changes)], "mixed") == []


def test_a_study_in_another_environment_says_nothing() -> None:
    other = Cell("dqn", "dqn", "acrobot", {**CELL.config, "env": {"id": "Acrobot-v1"}})
    assert [one.env for one in shares_of([other, CELL], [study()], "mixed")] == ["cartpole"]


def test_an_algorithm_of_another_library_has_its_studies() -> None:
    agent = {"_target_": "tuner.features.sb3.sb3_trainer.Sb3", "algorithm": "PPO"}
    cell = Cell("sb3", "sb3", "cartpole", {**CELL.config, "agent": agent})
    assert shares_of([cell], [replace(study(), agent="sb3-a2c")], "mixed") == []
    (found,) = shares_of([cell], [replace(study(), agent="sb3-ppo")], "mixed")
    assert found.share == 0.75
