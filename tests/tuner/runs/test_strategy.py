"""Runs whose gradient steps several processes take together, as they are configured."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from note_rl.training.checkpoint import read_checkpoint
from tests.tuner.command_line import CommandLine, files_read_once, tuner
from tests.tuner.runs.test_stops import Stopping, attempt, config_of
from tuner.trial.folder import CHECKPOINT_FILE, read_reports

__all__ = ["files_read_once", "tuner"]


@pytest.mark.slow  # the next test stops a run, and processes that train as one are in note_rl's tests
def test_two_replicas_train_as_one_and_go_on_after_a_stop(tmp_path: Path) -> None:
    together = ("strategy=ddp", "training.max_grad_norm=0.05")
    alone, torn = Stopping(), Stopping()
    assert attempt(config_of("prioritized_dqn", "torch", together[1]), tmp_path / "alone", alone, math.inf)
    config = config_of("prioritized_dqn", "torch", *together)
    assert not attempt(config, tmp_path / "torn", torn, len(alone.calls) // 2)
    assert attempt(config, tmp_path / "torn", torn, math.inf)
    assert torn.reported == alone.reported
    found = {name: read_checkpoint(tmp_path / name / CHECKPOINT_FILE)[0] for name in ("alone", "torn")}
    for name in found["alone"]:
        if name.startswith(("learner/agent", "learner/optimizer")):
            np.testing.assert_allclose(found["torn"][name], found["alone"][name], rtol=0, atol=1e-5)


def test_a_run_whose_ranks_have_their_own_environments_goes_on_after_a_stop(tmp_path: Path) -> None:
    config = config_of("prioritized_dqn", "torch", "strategy=ddp", "strategy.feeding=sharded", "env.num_envs=2")
    straight, torn = Stopping(), Stopping()
    assert attempt(config, tmp_path / "straight", straight, math.inf)
    assert not attempt(config, tmp_path / "torn", torn, len(straight.calls) // 2)
    assert attempt(config, tmp_path / "torn", torn, math.inf)
    assert torn.reported == straight.reported
    found = {name: read_checkpoint(tmp_path / name / CHECKPOINT_FILE)[0] for name in ("straight", "torn")}
    assert any(name.startswith("trainer/shards/1/experience/") for name in found["straight"])
    for name, values in found["straight"].items():
        if name != "history/seconds":
            np.testing.assert_array_equal(found["torn"][name], values)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "strategy"), [("torch", "ddp"), ("keras", "multi_worker")])
def test_dqn_balances_the_pole_over_two_ranks_that_have_their_own_environments(
    backend: str, strategy: str, tmp_path: Path
) -> None:
    program = "import sys; from tuner.cli import main; sys.exit(main())"
    typed = ["experiment=nstep_dqn_cartpole", f"backend={backend}", f"strategy={strategy}", "strategy.feeding=sharded"]
    typed += ["env.num_envs=2", "seed=1", "tracker=jsonl", "evaluation.num_episodes=20", f"hydra.run.dir={tmp_path}"]
    subprocess.run([sys.executable, "-c", program, "train", *typed], check=True)
    assert max(value for _, value in read_reports(tmp_path)) >= 475


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("backend=keras",), "strategy=ddp needs backend=torch; with backend=keras use strategy=mirrored"),
        (("buffer.batch_size=63",), "it a multiple of 2, such as buffer.batch_size=64 (the batch is that of"),
        (
            ("strategy.replicas=1",),
            "strategy.replicas=1 is not possible: it must be a whole number of at least 2; one process trains with",
        ),
        (("agent=trpo",), "TRPO takes its steps by itself, in update()"),
        (("strategy.strategy=horovod",), "strategy.strategy=horovod must be ddp or mirrored"),
        (("strategy.feeding=dealt",), "strategy.feeding=dealt must be split or sharded"),
        (("strategy.feeding=sharded", "env.num_envs=2", "buffer.train_freq=9"), "buffer.train_freq=9 is that of all 2"),
        (("strategy.feeding=sharded",), "env.num_envs=1 is that of all 2 ranks together"),
        (
            ("strategy.feeding=sharded", "env.num_envs=2", "adaptive=ess", "agent=prioritized_dqn"),
            "strategy.feeding=sharded and adaptive cannot",
        ),
        (
            ("strategy.feeding=sharded", "env.num_envs=2", "collector=pool"),
            "worker processes (pool_network",
        ),
    ],
)
def test_what_cannot_be_shared_is_refused_before_anything_runs(
    tuner: CommandLine, arguments: tuple[str, ...], message: str
) -> None:
    assert message in tuner.refused("train", "strategy=ddp", *arguments)


@pytest.mark.parametrize("strategy", ["mirrored", "parameter_server"])
def test_where_there_are_no_ranks_none_has_environments_of_its_own(tuner: CommandLine, strategy: str) -> None:
    said = tuner.refused("train", "agent=dqn", "backend=keras", f"strategy={strategy}", "strategy.feeding=sharded")
    assert said.count("strategy.feeding=sharded gives each rank environments of its own, which goes with") == 1
    assert "use strategy.feeding=split" in said


def test_a_function_has_no_gradient_steps_to_share(tuner: CommandLine) -> None:
    arguments = ("agent=synthetic", "strategy=ddp", "tracker=jsonl")
    assert "strategy has no meaning here" in tuner.refused("train", *arguments)
