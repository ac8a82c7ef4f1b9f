"""Runs in this process keep to one thread on a CPU, and everybody else has theirs back afterwards."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import pytest
import torch

import tuner as package
from note_rl.support.threads import thread_variables
from tests.tuner.command_line import SMALL, SMALL_AGENTS, CommandLine
from tuner.config.composition import BackendConfig
from tuner.errors import UserError
from tuner.runs.run_threads import few_threads

TORCH = BackendConfig("torch", "pytorch", "torch")
KERAS = BackendConfig("keras", "keras", "tensorflow")


class Counted(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Notes the threads at every step."""

    seen: ClassVar[set[tuple[int, str | None]]] = set()

    def step(self, action: Any) -> Any:
        self.seen.add((torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS")))
        return self.env.step(action)


@pytest.fixture(autouse=True)
def _three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in thread_variables(1):
        monkeypatch.delenv(name, raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    Counted.seen.clear()
    yield
    torch.set_num_threads(before)


def as_it_was() -> bool:
    return torch.get_num_threads() == 3 and not any(name in os.environ for name in thread_variables(1))


WORDS = (*SMALL, *SMALL_AGENTS["dqn"], f"+wrapper.counted={{_target_: {__name__}.Counted, _partial_: true}}")


def test_a_run_from_python_has_one_and_gives_them_back(tuner: CommandLine) -> None:
    package.train(WORDS, folder="mine")
    assert Counted.seen == {(1, "1")}
    assert as_it_was()
    with pytest.raises(UserError):
        package.train([*WORDS, "optimizer.weight_decay=-1"], folder="refused")
    assert as_it_was()


def test_what_the_environment_says_counts(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    package.train(WORDS, folder="mine")
    assert Counted.seen == {(3, "2")}  # PyTorch had read it, or was given another number since


def test_a_comparison_has_one_too(tuner: CommandLine) -> None:
    ppo = [word for word in WORDS if word not in SMALL_AGENTS["dqn"]]
    answer = tuner("compare", *ppo, *SMALL_AGENTS["ppo"], "adaptive=ppo_kl", "num_seeds=2", "hydra.run.dir=mine")
    assert answer.status == 0, answer
    assert Counted.seen == {(1, "1")}
    assert as_it_was()
    assert Path("mine").is_dir()


def test_runs_that_take_turns_have_one_to_their_end() -> None:
    first, second = few_threads(TORCH), few_threads(TORCH)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert (torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS")) == (1, "1")
    second.__exit__(None, None, None)
    assert as_it_was()


def test_the_other_framework_reads_variables_and_gpus_need_none() -> None:
    with few_threads(KERAS):
        assert torch.get_num_threads() == 3
        assert {name: os.environ.get(name) for name in thread_variables(1)} == thread_variables(1)
    assert as_it_was()
    with few_threads(BackendConfig("torch", "pytorch", "torch", "auto")):
        assert as_it_was()
