"""A study of a program: trials side by side in processes of their own, pruned by what the program writes."""

import sys
from pathlib import Path

import pytest

import tuner as api
from tests.tuner.command_line import CommandLine
from tuner.results.records import StudySummary
from tuner.trial.messages import Outcome

TRAINING = """
import json, sys
rate, steps = float(sys.argv[1]), int(sys.argv[2])
with open("log.jsonl", "w") as out:
    for step in range(steps // 8, steps + 1, steps // 8):
        print(json.dumps({"step": step, "ret": rate * step}), file=out, flush=True)
"""
STUDY = (
    *("executor.parallel=2", "storage=journal", "study.name=s", "study.num_candidates=1", "study.num_race_seeds=0"),
    *("study.num_select_seeds=1", "study.num_test_seeds=1", "tracker=jsonl", "space=none"),
)


def study(tuner: CommandLine, *words: str) -> StudySummary:
    answer = tuner("tune", "agent=command", *words, *STUDY)
    assert answer.status == 0, answer
    return api.load("s", storage="journal:///studies.journal").summary


def test_a_program_is_tuned_and_pruned(tuner: CommandLine) -> None:
    (tuner.folder / "train.py").write_text(TRAINING)
    summary = study(
        tuner,
        f"agent.command='{sys.executable} train.py {{rate}} {{steps}}'",
        *("agent.read=jsonl", "agent.metric=ret", "agent.step=step", "+agent.rate=0.5"),
        *("+space.agent.rate={low: 0.0, high: 1.0}", "sampler=random", "pruner.n_startup_trials=3"),
        *("study.num_trials=10", "study.pruning={min_trials: 3, rungs: [0.5], min_rank_bound: -1}"),
        *("training.total_steps=800", "evaluation.num_points=4"),
    )
    screened = summary.stage("screen")
    assert {run.outcome for run in screened} == {Outcome.COMPLETE, Outcome.PRUNED}
    best = max(run.params["agent.rate"] for run in screened)
    assert summary.winner_label is not None
    assert summary.params_of(summary.winner_label)["agent.rate"] == best
    for run in screened:
        rate = run.params["agent.rate"]
        whole = [(part, pytest.approx(rate * 200 * (4 * part - 0.25))) for part in (0.25, 0.5, 0.75, 1.0)]
        assert list(run.curve) == whole[: 2 if run.outcome is Outcome.PRUNED else 4]


@pytest.mark.slow
def test_a_program_in_the_manner_of_cleanrl_is_tuned(tuner: CommandLine) -> None:
    script = Path(__file__).with_name("ppo_script.py")
    command = f"{sys.executable} {script} --learning-rate {{learning_rate}} --num-steps 32 --num-envs 2 --seed {{seed}}"
    summary = study(
        tuner,
        f"agent.command='{command} --total-timesteps {{steps}}'",
        *("agent.read=jsonl", "agent.metric=charts/episodic_return", "agent.step=global_step"),
        *("+agent.learning_rate=1e-3", "+space.agent.learning_rate={low: 1e-4, high: 1e-2, log: true}"),
        *("study.num_trials=2", "training.total_steps=1024", "evaluation.num_points=4"),
    )
    assert {run.outcome for run in summary.runs} == {Outcome.COMPLETE}
    assert all(value >= 8.0 for run in summary.runs for _, value in run.curve), "of CartPole"
