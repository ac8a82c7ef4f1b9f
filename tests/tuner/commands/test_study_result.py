"""`tuner.load`: what a study found, at hand in Python."""

import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tuner
from tests.tuner.features.objectives.test_objectives import SEVERAL, timed
from tests.tuner.studies import ControllerDied, FakeExecutor, journal, run_study
from tuner.errors import UserError
from tuner.features.objectives.facts import FRONT
from tuner.results.columns import trials_csv

SMALL_STUDY = (
    *("study.num_trials=2", "study.num_race_seeds=0", "study.num_candidates=1", "study.num_select_seeds=1"),
    *("study.num_test_seeds=2", "executor=inline", "tracker=jsonl", "storage=journal"),
)


def test_all_runs_are_rows_and_with_pandas_a_table(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = run_study(here)
    result = tuner.load("study", storage=journal(here))
    assert [(row["stage"], row["number"], row["value"]) for row in result.rows] == [
        (run.stage, run.number, run.value) for run in summary.runs
    ]
    assert all(
        row["agent.gamma"] == run.params["agent.gamma"]
        for row, run in zip(result.rows, summary.runs, strict=True)
        if run.params
    )
    heads = trials_csv(summary).partition("\n")[0].split(",")
    assert set().union(*result.rows) == set(heads)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match=r"'note-rl\[report\]', or use rows"):
        _ = result.trials
    pandas = ModuleType("pandas")
    pandas.DataFrame = lambda rows: ("a table of", rows)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    assert result.trials == ("a table of", result.rows)


def test_a_study_under_way_has_no_winner_and_says_how_to_go_on(here: Path) -> None:
    command = {"command": "tuner tune agent=synthetic"}
    with pytest.raises(ControllerDied):
        run_study(here, FakeExecutor(die_after=70), facts=command)
    result = tuner.load("study", storage=journal(here))
    assert result.winners == ()
    assert len(result.rows) > 1
    for ask in (lambda: result.winner, lambda: result.overrides, result.agent):
        with pytest.raises(
            UserError, match=r"study study has no winner yet\. Best so far: trial(.|\n)*tuner tune agent="
        ):
            ask()


def test_of_several_objectives_there_is_a_front(here: Path) -> None:
    summary = run_study(here, FakeExecutor(2, timed), **SEVERAL)
    result = tuner.load("study", storage=journal(here))
    assert [winner.label for winner in result.winners] == list(FRONT.of(summary))
    assert result.winner.label == summary.winner_label
    assert all(winner.values == summary.params_of(winner.label) for winner in result.winners)


def test_a_function_that_was_tuned_leaves_no_agent_behind(here: Path) -> None:
    result = tuner.tune(["agent=synthetic", "study.name=mine", *SMALL_STUDY])
    loaded = tuner.load("studies/mine")
    for name in dir(loaded):
        if not name.startswith("_") and name not in ("trials", "agent", "best_run", "summary"):
            assert getattr(result, name) == getattr(loaded, name), name
    assert loaded.winner.config == result.config == tuner.load(result).winner.config
    assert loaded.winner.values == result.best_params
    assert loaded.experiment_file.exists()
    assert repr(result).startswith("<TuneResult mine in studies/mine: ")
    with pytest.raises(UserError, match="tunes a function"):
        loaded.agent()


def played(agent: Any, seed: int) -> float:
    """Return of one episode, as anybody would play it."""
    env = agent.make_env()
    obs, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        action, state = agent.predict(obs)
        assert state is None
        obs, reward, terminated, truncated, _ = env.step(action)
        total, over = total + float(reward), terminated or truncated
    return total


@pytest.mark.usefixtures("dqn_study")
def test_the_winners_agent_acts_and_can_be_trained_again() -> None:
    loaded = tuner.load("studies/mine")
    test = [row for row in loaded.rows if row["stage"] == "test" and row["label"] == loaded.winner.label]
    agent = loaded.agent()
    assert repr(agent) == f"<Player: DQN (torch) on CartPole-v1, seed {agent.run.config.seed}, 240 steps>"
    assert loaded.default_command.startswith("tuner train training.total_steps=240 ")
    assert len(test) == 2
    assert agent.run.config.seed == max(test, key=lambda row: row["value"])["seed"]
    assert agent.run.agent.num_env_steps == loaded.winner.config["training"]["total_steps"]
    assert loaded.agent(seed=test[0]["seed"]).run.config.seed == test[0]["seed"]
    assert loaded.agent("default").run.config.agent["gamma"] == 0.99
    assert played(agent, seed=0) == played(loaded.agent(), seed=0) > 0
    again = tuner.train(loaded.overrides, folder="again")
    assert again.num_env_steps == loaded.winner.config["training"]["total_steps"]
    with pytest.raises(UserError, match=r"has the shape \[4\].*this one has \[7\]"):
        agent.predict(np.zeros(7))


def test_what_a_strangers_storage_says_was_typed_is_looked_at_before_it_is_used(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "evil_load.py").write_text("import os\nos.mkdir('owned')\ndef train(**options):\n    return 1.0\n")
    commands = {
        "evil_load.train": "tuner train agent=function agent._target_=evil_load.train",
        "changes how Hydra runs": "tuner train 'hydra.searchpath=[file:///tmp]'",
    }
    for number, (word, command) in enumerate(commands.items()):
        run_study(here / str(number), facts={"retrain": command})
        result = tuner.load("study", storage=journal(here / str(number)))
        with pytest.raises(UserError, match=word):
            _ = result.overrides
    monkeypatch.setenv("SECRET", "the value of a secret")
    for number, word in enumerate(("env.kwargs.x=${oc.env:SECRET}", "+env.x='${oc.${env.y}:SECRET}'"), len(commands)):
        for facts in (
            {"retrain": shlex.join(["tuner", "train", word])},
            {"command": f"tuner tune {shlex.quote(word)}"},
        ):
            place = here / f"{number}{len(facts)}{next(iter(facts))}"
            run_study(place, facts=facts)
            with pytest.raises(UserError, match="is not looked up for a storage") as refused:
                _ = tuner.load("study", storage=journal(place)).overrides
            assert "the value of" not in str(refused.value)
    assert not (here / "owned").exists()
    trusting = tuner.load("study", storage=journal(here / "0"), trust=["evil_load"])
    assert trusting.overrides == ("agent=function", "agent._target_=evil_load.train")
