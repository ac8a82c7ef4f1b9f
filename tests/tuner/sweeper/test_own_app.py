"""`tuner train -m hydra/sweeper=optuna`, in this process."""

import json
import os
from pathlib import Path

import optuna
import pytest
import yaml

from tests.tuner.command_line import SMALL, SMALL_AGENTS, CommandLine
from tuner.study import StudyStore, summarise

SWEEP = ("train", "-m", "hydra/sweeper=optuna")
SEARCH = ("optimizer.learning_rate=tag(log,interval(1e-5,1e-2))", "hydra.sweeper.direction=maximize")


def test_training_runs_are_jobs_and_their_scores_are_told(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "OMP_NUM_THREADS", "1")
    small = [word for word in (*SMALL, *SMALL_AGENTS["dqn"][1:]) if not word.startswith("network")]
    search = (*SEARCH, "agent=choice(dqn,double_dqn)", "network.hidden_sizes=choice([8],[4,6])")
    sweep = (*SWEEP, *small, *search, "hydra.sweeper.num_trials=2", "hydra.sweeper.name=ours")
    for _ in range(2):  # the second time there is nothing left to do
        answer = tuner(*sweep)
        assert answer.status == 0, answer
    (folder,) = tuner.folder.glob("multirun/*")
    study = optuna.load_study(study_name="ours", storage="sqlite:///studies.db")
    assert len(study.trials) == 2
    for trial in study.trials:
        job = folder / str(trial.number)
        config = yaml.safe_load((job / "config.yaml").read_text())
        values = trial.user_attrs["run"]["values"]
        assert config["optimizer"]["learning_rate"] == values["optimizer.learning_rate"]
        assert config["network"]["hidden_sizes"] == values["network.hidden_sizes"]
        assert ("Double" in config["agent"]["_target_"]) == (values["agent"] == "double_dqn")
        curve = [json.loads(line)["value"] for line in (job / "reports.jsonl").read_text().splitlines()]
        area = ((curve[0] + curve[1]) / 2 + (curve[1] + curve[2]) / 2) / 2
        assert trial.value == pytest.approx(0.5 * area + 0.5 * curve[2])
        assert trial.intermediate_values == {333: curve[0], 667: curve[1], 1000: curve[2]}
    with StudyStore("sqlite:///studies.db") as store:
        summary = summarise(store, "ours", tuner.folder)
    assert [run.value for run in summary.runs] == [trial.value for trial in study.trials], "tuner report can read it"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (SEARCH[:1], "hydra.sweeper.direction is not set"),
        (("optimizer.learning_rate=interval(-1,1)", *SEARCH[1:]), "optimizer.learning_rate=-1.0 is not possible"),
        ((*SEARCH, "hydra/sweeper/sampler=grid"), "GridSampler tries every combination"),
        ((*SEARCH, "+hydra.sweeper.sampler.n_start=3"), "TPESampler has no n_start"),
        ((*SEARCH, "hydra.launcher._target_=my.Launcher"), "a launcher runs a whole batch"),
    ],
)
def test_mistakes_are_refused_before_anything_runs(tuner: CommandLine, arguments: tuple[str, ...], reason: str) -> None:
    answer = tuner(*SWEEP, *SMALL, *arguments)
    assert answer.status == 2, answer
    assert reason in answer.errors
    assert "Traceback" not in answer.errors
    assert not list(Path().glob("multirun/*/*")), "no job was begun"
    assert not Path("studies.db").exists()


def test_a_study_is_no_job_of_a_sweep(tuner: CommandLine) -> None:
    answer = tuner("tune", "-m", "hydra/sweeper=optuna", "seed=range(3)", "hydra.sweeper.direction=maximize")
    assert answer.status == 2
    assert "tuner train -m" in answer.errors
