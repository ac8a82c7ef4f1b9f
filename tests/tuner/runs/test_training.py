"""A run trains, reports and keeps its checkpoints; one that was stopped goes on as if it had not been."""

import math
from pathlib import Path

import pytest

from tests.tuner.runs.reporters import CASES, POOL, Reporter, run_config
from tuner.commands.preflight import preflight
from tuner.config.composition import RunConfig, to_json
from tuner.runs.training import run_training
from tuner.trial.messages import Outcome, TrialInterrupted


@pytest.mark.parametrize(
    ("agent", "backend", "further"),
    [
        *((*case, ()) for case in CASES[:2]),
        pytest.param(*CASES[2], (), marks=pytest.mark.slow),  # in Keras: note_rl/training/test_resume.py
        pytest.param("dqn", "torch", POOL, marks=pytest.mark.slow),  # collect/workers/test_pool_network.py has pools
    ],
)
def test_a_stopped_run_continues_as_if_nothing_had_been(
    tmp_path: Path, agent: str, backend: str, further: tuple[str, ...]
) -> None:
    config = run_config(*further, agent=agent, backend=backend)
    straight, stopped = Reporter(), Reporter(stop_at=0.5)
    (tmp_path / "straight").mkdir()
    (tmp_path / "stopped").mkdir()
    whole = run_training(config, tmp_path / "straight", straight)
    with pytest.raises(TrialInterrupted):
        run_training(config, tmp_path / "stopped", stopped)
    stopped.stop_at = math.inf
    rest = run_training(config, tmp_path / "stopped", stopped)
    assert stopped.reported == straight.reported
    assert rest.evaluations == whole.evaluations
    assert (rest.num_env_steps, rest.num_gradient_steps) == (whole.num_env_steps, whole.num_gradient_steps)
    assert whole.returns[-len(rest.returns) :] == rest.returns
    assert stopped.progress[-1] == 1.0


def test_a_run_killed_between_report_and_checkpoint_does_not_report_twice(tmp_path: Path) -> None:
    config = run_config()
    reporter = Reporter(stop_at=0.5)
    with pytest.raises(TrialInterrupted):
        run_training(config, tmp_path, reporter)
    (tmp_path / "checkpoint.safetensors").unlink()
    reporter.stop_at = math.inf
    before, num_logged = list(reporter.reported), len(reporter.logged)
    run_training(config, tmp_path, reporter)
    assert reporter.reported[: len(before)] == before
    assert [fraction for fraction, _ in reporter.reported] == [1 / 3, 2 / 3, 1.0]
    again = [metrics for _, metrics in reporter.logged[num_logged:] if "eval/mean_return" in metrics]
    assert len(again) == 2, "what was reported is not evaluated again"


def test_a_pruned_run_leaves_no_checkpoint_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(TrialInterrupted):
        run_training(run_config(), tmp_path, Reporter(stop_at=0.1, outcome=Outcome.PRUNED))
    assert not (tmp_path / "checkpoint.safetensors").exists()


def test_built_settings_are_reported_before_the_first_step(tmp_path: Path) -> None:
    reporter = Reporter(stop_at=0.0)
    with pytest.raises(TrialInterrupted):
        run_training(run_config("agent.gamma=0.8", "optimizer.learning_rate=0.02"), tmp_path, reporter)
    used = reporter.used[0]
    assert (used["agent"]["gamma"], used["optimizer"]["learning_rate"], used["seed"]) == (0.8, 0.02, 0)


def test_scheduled_values_are_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.runs.training.LOG_INTERVAL_S", 0.0)
    reporter = Reporter()
    run_training(run_config("schedule.eps.fraction=0.5"), tmp_path, reporter)
    eps = [(step, metrics["train/eps"]) for step, metrics in reporter.logged if "train/eps" in metrics]
    assert eps[0][1] == pytest.approx(1.0)
    assert eps[-1][1] == pytest.approx(0.05)
    returns = [metrics["train/episode_return"] for _, metrics in reporter.logged if "train/episode_return" in metrics]
    assert returns
    assert all(metrics["train/env_steps_per_s"] > 0 for _, metrics in reporter.logged if "train/loss" in metrics)


def test_a_loss_that_a_phase_does_not_have_is_not_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the actor of TD3, that is, where each phase is one gradient step and the actor learns in every second."""
    monkeypatch.setattr("tuner.runs.training.LOG_INTERVAL_S", 0.0)
    small = ["agent=td3", "env=pendulum", "network.hidden_sizes=[4]", "buffer.batch_size=4", "buffer.learning_starts=8"]
    each = ["buffer.train_freq=1", "buffer.gradient_steps=1", "training.total_steps=24", "evaluation.num_episodes=1"]
    reporter = Reporter()
    run_training(RunConfig.from_json(to_json(preflight("train", [*small, *each]))), tmp_path, reporter)
    logged = [metrics for _, metrics in reporter.logged if "train/loss:1" in metrics]
    actors = [metrics for metrics in logged if "train/loss:0" in metrics]
    assert len(logged) == 17
    assert len(actors) == 8
    assert actors == [metrics for metrics in logged if "train/loss" in metrics]
    for metrics in actors:
        assert metrics["train/loss"] == pytest.approx(metrics["train/loss:0"] + metrics["train/loss:1"])
    assert all(math.isfinite(value) for metrics in logged for value in metrics.values())


def test_older_checkpoints_are_kept_if_asked(tmp_path: Path) -> None:
    run_training(run_config("checkpoint.keep=2", "checkpoint.save_replay=false"), tmp_path, Reporter())
    kept = sorted(path.name for path in tmp_path.glob("checkpoint*"))
    assert kept == [
        "checkpoint.safetensors",
        "checkpoint_000000000160.safetensors",
        "checkpoint_000000000240.safetensors",
    ]
