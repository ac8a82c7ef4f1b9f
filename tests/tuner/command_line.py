"""The command line as tests use it: in this process, with what was printed."""

import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.fuzzing.composing import remembering_files
from tuner.cli import main
from tuner.trackers.base import RunInfo

SMALL = (
    "tracker=jsonl",
    "training.total_steps=240",
    "evaluation.num_points=3",
    "evaluation.num_episodes=2",
    "network.hidden_sizes=[8]",
)
"""A run of a second."""
SMALL_STUDY = (
    *("executor=inline", "~space.buffer", "study.num_trials=2", "study.num_candidates=1", "study.num_test_seeds=1"),
    *("study.num_race_seeds=0", "study.num_select_seeds=1", "storage=journal"),
)
"""A study of such runs, for agents that learn from replay."""
_OFF_POLICY = ("buffer.learning_starts=64", "buffer.batch_size=16", "buffer.train_freq=8")
_RECORDED = "{_target_: tests.recorded.pendulum_steps}"
_ON_POLICY = ("env.num_envs=2", "buffer.num_steps=16", "buffer.batch_size=16", "buffer.num_epochs=2")
SMALL_AGENTS = {
    "a2c": ("agent=a2c", "env.num_envs=2"),
    "a2c_continuous": ("agent=a2c_continuous", "env=pendulum", "env.num_envs=2"),
    "acer": ("agent=acer", "env.num_envs=2", "buffer.num_steps=10", "buffer.learning_starts=64"),
    "alphazero": ("agent=alphazero", *_ON_POLICY, "agent.num_simulations=4"),
    "bc": ("agent=bc", "buffer.dataset.num_episodes=1", "buffer.train_freq=20", "buffer.gradient_steps=2"),
    "bc_continuous": ("agent=bc_continuous", "env=pendulum", f"buffer.dataset={_RECORDED}", "buffer.train_freq=80"),
    "dqn": ("agent=dqn", *_OFF_POLICY),
    "double_dqn": ("agent=double_dqn", *_OFF_POLICY),
    "dueling_dqn": ("agent=dueling_dqn", *_OFF_POLICY),
    "prioritized_dqn": ("agent=prioritized_dqn", *_OFF_POLICY),
    "rainbow": ("agent=rainbow", "agent.num_atoms=21", *_OFF_POLICY),
    "ddpg": ("agent=ddpg", "env=pendulum", *_OFF_POLICY),
    "td3": ("agent=td3", "env=pendulum", *_OFF_POLICY),
    "sac": ("agent=sac", "env=pendulum", *_OFF_POLICY),
    "sac_discrete": ("agent=sac_discrete", *_OFF_POLICY),
    "crossq": ("agent=crossq", "env=pendulum", "network.critic.hidden_sizes=[8]", *_OFF_POLICY),
    "tqc": ("agent=tqc", "env=pendulum", "agent.num_quantiles=5", *_OFF_POLICY),
    "ppo_continuous": ("agent=ppo_continuous", "env=pendulum", *_ON_POLICY),
    "ddpg_her": ("agent=ddpg_her", *_OFF_POLICY),
    "ppo": ("agent=ppo", *_ON_POLICY),
    "r2d2": (
        *("agent=r2d2", "env.num_envs=2", "network.units=16", "buffer.num_steps=10", "buffer.learning_starts=64"),
        *("buffer.batch_size=4", "buffer.replay_ratio=2"),
    ),
    "trpo": ("agent=trpo", "env.num_envs=2", "buffer.num_steps=16"),
    "trpo_continuous": ("agent=trpo_continuous", "env=pendulum", "env.num_envs=2", "buffer.num_steps=16"),
    "gail": ("agent=gail", *_ON_POLICY),
    "maddpg": ("agent=maddpg", *_OFF_POLICY),
}


@dataclass(frozen=True)
class Answer:
    """Output of a command, and its exit status."""

    status: int
    output: str
    errors: str


class CommandLine:
    """Runs `tuner ...` in an empty working directory."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Answer:
        self._capsys.readouterr()
        status = main(arguments)
        captured = self._capsys.readouterr()
        return Answer(status, captured.out, captured.err)

    def _written(self) -> list[Path]:
        """All files and folders, but for what Python compiles of the user's modules."""
        return sorted(path for path in self.folder.rglob("*") if "__pycache__" not in path.parts)

    def refused(self, *arguments: str) -> str:
        """The answer to a mistake: one or two lines, status 2, no traceback, nothing left behind."""
        before = self._written()
        answer = self(*arguments)
        assert answer.status == 2, answer
        assert "Traceback" not in answer.errors + answer.output
        assert answer.output == ""
        assert 1 <= len(answer.errors.strip().splitlines()) <= 2, answer.errors
        assert self._written() == before, "something was written"
        return answer.errors


@pytest.fixture(autouse=True, scope="session")
def files_read_once() -> Iterator[None]:
    """Composing takes a quarter of a second, and several are composed for a command."""
    with remembering_files():
        yield


@pytest.fixture
def tuner(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[CommandLine]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for module in ("summary", "importance"):
        monkeypatch.setattr(f"tuner.study.{module}.PERMUTATIONS", 4)  # what chance makes of importances takes seconds
    _keep_streams_open()
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield CommandLine(tmp_path, capsys)
    root.handlers[:], root.level = handlers, level  # Hydra's handlers write to a stream that is gone


def _keep_streams_open() -> None:
    """TensorFlow's absl handler closes its stream when Hydra sets up logging, unless that is the real stderr."""
    if "absl.logging" in sys.modules:
        sys.modules["absl.logging"].get_absl_handler().python_handler.stream = sys.__stderr__


class Interrupting:
    """A tracker that presses Ctrl-C, once or more, when a run has measured something behind a number of steps."""

    def __init__(self, after_steps: int, times: int = 1) -> None:
        self.after_steps, self.times = after_steps, times

    def start_run(self, info: RunInfo) -> "Interrupting":
        return self

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        if step >= self.after_steps:
            for _ in range(self.times):
                os.kill(os.getpid(), signal.SIGINT)

    def finish(self, exit_code: int = 0, summary: Mapping[str, object] | None = None) -> None:
        pass

    def close(self, timeout_s: float = 10.0) -> None:
        pass


class Recording:
    """A tracker that remembers."""

    infos: ClassVar[list[RunInfo]] = []
    ends: ClassVar[dict[str, tuple[int, dict[str, Any]]]] = {}
    steps: ClassVar[dict[str, list[int]]] = {}

    @classmethod
    def forget(cls) -> None:
        for memory in (cls.infos, cls.ends, cls.steps):
            memory.clear()

    def start_run(self, info: RunInfo) -> "RecordingRun":
        self.infos.append(info)
        return RecordingRun(info.name)

    def close(self, timeout_s: float = 10.0) -> None:
        pass


class RecordingRun:
    def __init__(self, name: str) -> None:
        self._name = name

    def log(self, step: int, metrics: dict[str, float]) -> None:
        Recording.steps.setdefault(self._name, []).append(step)

    def finish(self, exit_code: int = 0, summary: dict[str, Any] | None = None) -> None:
        Recording.ends[self._name] = (exit_code, summary or {})


RECORDING = "+tracker.mine={_target_: tests.tuner.command_line.Recording}"
"""An override that adds it."""
