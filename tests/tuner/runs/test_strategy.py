"""Runs whose gradient steps several processes take together, as they are configured."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from note_rl import RL_pytorch
from note_rl.training.checkpoint import read_checkpoint
from note_rl.types import TrainResult
from tests.tuner.command_line import CommandLine, files_read_once, tuner
from tests.tuner.runs.test_stops import Stopping, attempt, config_of
from tuner.trial.folder import CHECKPOINT_FILE

__all__ = ["files_read_once", "tuner"]


def test_a_run_that_is_shared_asks_for_its_replicas_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def by_itself(self: Any, *, strategy: str, replicas: int, **arguments: Any) -> TrainResult:
        asked.append((strategy, replicas))
        return self.train(**arguments)

    monkeypatch.setattr(RL_pytorch, "distributed_training", by_itself)
    alone, torn = Stopping(), Stopping()
    assert attempt(config_of("dqn", "torch"), tmp_path / "alone", alone, math.inf)
    assert asked == []
    config = config_of("dqn", "torch", "strategy=ddp", "strategy.replicas=4")
    assert not attempt(config, tmp_path / "torn", torn, len(alone.calls) // 2)
    assert attempt(config, tmp_path / "torn", torn, math.inf)
    assert asked == [("ddp", 4)] * 2
    assert torn.reported == alone.reported


@pytest.mark.slow  # the test above has no processes; what ranks do together: test_leader.py
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
    ],
)
def test_what_cannot_be_shared_is_refused_before_anything_runs(
    tuner: CommandLine, arguments: tuple[str, ...], message: str
) -> None:
    assert message in tuner.refused("train", "strategy=ddp", *arguments)


def test_a_function_has_no_gradient_steps_to_share(tuner: CommandLine) -> None:
    arguments = ("agent=synthetic", "strategy=ddp", "tracker=jsonl")
    assert "strategy has no meaning here" in tuner.refused("train", *arguments)
