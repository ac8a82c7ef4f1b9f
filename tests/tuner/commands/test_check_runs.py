"""The tasks of `tuner check` side by side: which are tried, with how many seeds, and in which order it is said."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.tuner.command_line import CommandLine
from tuner.commands import check_runs
from tuner.commands.check_runs import check_agent
from tuner.errors import UserError
from tuner.executors.base import Event, TrialEnded, TrialLogged
from tuner.runs import agent_check
from tuner.runs.agent_check import TASKS, Attempt, Task
from tuner.trial.messages import JsonDict, Outcome, TrialResult, TrialSpec

KINDS = [task.kind for task in TASKS if not task.needs_memory]
CONFIG: JsonDict = {"seed": 7, "env": {"id": "x", "num_envs": 1}, "training": {"total_steps": 20}, "executor": {}}


class Simulated:
    """An executor whose trials end in an order of their own.

    Args:
        fails: Says whether a task fails with a seed.
        parallel: Trials at a time.
        ends: How all trials end.
        is_slow: Whether the agent takes few gradient steps.
    """

    def __init__(
        self,
        fails: Callable[[str, int], bool],
        parallel: int = 2,
        ends: TrialResult | None = None,
        is_slow: bool = False,
    ) -> None:
        self.parallel, self.begun, self.most = parallel, list[tuple[str, int]](), 0
        self.steps: dict[tuple[str, int], int] = {}
        self._fails, self._ends, self._is_slow = fails, ends, is_slow
        self._active: list[TrialSpec] = []

    @property
    def free_slots(self) -> int:
        return self.parallel - len(self._active)

    def start(self, spec: TrialSpec, folder: Path) -> None:
        assert self.free_slots > 0
        self.begun.append((spec.config["env"]["kwargs"]["kind"], spec.seed))
        self.steps[self.begun[-1]] = spec.config["training"]["total_steps"]
        self._active.append(spec)
        self.most = max(self.most, len(self._active))

    def wait(self) -> list[Event]:
        spec = self._active.pop()  # the newest one is the quickest
        if self._ends is not None:
            return [TrialEnded(spec.key, self._ends)]
        learned = not self._fails(spec.config["env"]["kwargs"]["kind"], spec.seed)
        logged = {"mean_return": 1.0 if learned else math.nan, "learned": float(learned), "is_slow": self._is_slow}
        return [TrialLogged(spec.key, 500, logged), TrialEnded(spec.key, TrialResult(Outcome.COMPLETE))]


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> Callable[[Simulated], list[tuple[str, int, int]]]:
    def run(executor: Simulated) -> list[tuple[str, int, int]]:
        @contextmanager
        def made(node: JsonDict) -> Iterator[Any]:
            assert node == CONFIG["executor"]
            yield executor

        monkeypatch.setattr(check_runs, "make_executor", made)
        monkeypatch.setattr(check_runs, "runs_in_this_process", lambda node: True)
        monkeypatch.setattr(check_runs, "run_config_of", lambda config: config)
        monkeypatch.setattr(check_runs, "tried_out", lambda config: (False, False))
        return [(one.task.kind, one.num_learned, len(one.attempts)) for one in check_agent(CONFIG)]

    return run


Simulate = Callable[[Simulated], list[tuple[str, int, int]]]


@pytest.mark.parametrize("parallel", [1, 2, 5])
def test_answers_come_in_the_order_of_the_tasks(simulate: Simulate, parallel: int) -> None:
    executor = Simulated(lambda kind, seed: False, parallel)
    assert simulate(executor) == [(kind, 1, 1) for kind in KINDS]
    assert sorted(executor.begun) == sorted((kind, 7) for kind in KINDS)
    assert executor.most == parallel


@pytest.mark.parametrize("parallel", [1, 2, 5])
def test_more_seeds_are_for_tasks_whose_foundations_are_learned(simulate: Simulate, parallel: int) -> None:
    unstable, wrong = "observation", ("next_step", "time_limit")
    executor = Simulated(lambda kind, seed: kind in wrong or (kind == unstable and seed == 7), parallel)
    found = {kind: (learned, tried) for kind, learned, tried in simulate(executor)}
    assert found == {
        **dict.fromkeys(KINDS, (1, 1)),
        unstable: (2, 3),
        "next_step": (0, 3),
        "time_limit": (0, 1),  # it needs what next_step tests
    }
    assert {seed for kind, seed in executor.begun if kind == "next_step"} == {7, 8, 9}
    assert len(executor.begun) == len(KINDS) + 4


@pytest.mark.parametrize(("is_slow", "steps"), [(False, 20), (True, 200)])
def test_an_agent_of_few_gradient_steps_has_more_time_with_more_seeds(
    simulate: Simulate, is_slow: bool, steps: int
) -> None:
    executor = Simulated(lambda kind, seed: kind == "noise" and seed == 7, is_slow=is_slow)
    assert ("noise", 2, 3) in simulate(executor)
    assert executor.steps == {**{(kind, 7): 20 for kind in KINDS}, ("noise", 8): steps, ("noise", 9): steps}


def test_an_error_is_that_of_the_same_attempt_here(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def attempt(config: JsonDict) -> Attempt:
        tried.append((config["env"]["kwargs"]["kind"], config["seed"]))
        raise ZeroDivisionError

    monkeypatch.setattr(check_runs, "attempt", attempt)
    with pytest.raises(ZeroDivisionError):
        simulate(Simulated(lambda kind, seed: False, 1, TrialResult(Outcome.CRASHED, "ZeroDivisionError: ", "Trace")))
    assert tried == [("reward", 7)]


def test_a_process_that_was_killed_is_not_repeated_here(simulate: Simulate) -> None:
    killed = TrialResult(Outcome.OUT_OF_MEMORY, "it was killed")
    with pytest.raises(UserError, match=r"came to no end \(one step: the action that is rewarded\): it was killed"):
        simulate(Simulated(lambda kind, seed: False, 1, killed))


# When a task counts as learned


class Counts:
    """The part of an agent that is looked at: it takes steps, and is as good as its settings say.

    Args:
        steps: Environment steps and gradient steps of a phase.
        learned: Says whether it has learned by its gradient steps.
    """

    def __init__(self, steps: tuple[int, int], learned: Callable[[int], bool]) -> None:
        self.num_env_steps = self.num_gradient_steps = 0
        self.stop_training = False
        self.looked_at: list[tuple[int, int]] = []
        self._steps, self._learned = steps, learned

    def evaluate(self, num_episodes: int, seed: int) -> Any:
        del num_episodes, seed
        self.looked_at.append((self.num_env_steps, self.num_gradient_steps))
        return type("Evaluation", (), {"mean": 1.0 if self._learned(self.num_gradient_steps) else 0.0})

    def train(self, task: Task = TASKS[0]) -> agent_check._Looks:
        looks = agent_check._Looks(task, 20_000, 0, lambda progress: None)
        looks.set_agent(self)
        while self.num_env_steps < 20_000 and not self.stop_training:
            self.num_env_steps += self._steps[0]
            self.num_gradient_steps += self._steps[1]
            looks.on_phase_end(0, {})
        return looks


def test_an_agent_of_many_gradient_steps_is_looked_at_by_these() -> None:
    agent = Counts((8, 8), lambda updates: updates >= 500)
    assert agent.train().is_steady
    assert agent.looked_at[:2] == [(104, 104), (208, 208)]
    assert (agent.num_env_steps, len(agent.looked_at)) == (936, 9)  # learned from 520 on, and 400 later still


def test_an_agent_of_few_gradient_steps_is_looked_at_by_its_environment_steps() -> None:
    agent = Counts((40, 1), lambda updates: updates >= 100)
    assert agent.train().is_steady
    assert agent.looked_at == [(steps, steps // 40) for steps in (1000, 2000, 3000, 4000, 5000, 6000)]


@pytest.mark.parametrize("period", [200, 400])
def test_an_agent_that_is_right_by_chance_now_and_then_is_not_steady(period: int) -> None:
    looks = (agent := Counts((8, 8), lambda updates: updates % (2 * period) >= period)).train()
    assert not looks.is_steady
    assert agent.num_env_steps == 20_000


# The command line

AGENT = """
from note_rl.agents.pytorch import A2C

class Broken(A2C):
    def __call__(self, *batch):
        raise LookupError("no such thing")
"""


def test_worker_processes_give_the_same_answers(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_check, "TASKS", TASKS[:2])
    monkeypatch.setattr("tuner.commands.check.TASKS", TASKS[:2])
    typed = ("check", "a2c", "network.hidden_sizes=[16]", "training.total_steps=8000")
    alone, together = tuner(*typed, "executor=inline"), tuner(*typed, "executor.parallel=2")
    assert (alone.status, together.status) == (0, 0)
    assert alone.output == together.output
    assert "all 2 tasks are learned" in together.output


def test_an_error_in_a_worker_is_shown_as_that_of_the_user(tuner: CommandLine) -> None:
    (tuner.folder / "broken_a2c.py").write_text(AGENT)
    answer = tuner("check", "a2c", "agent._target_=broken_a2c.Broken", "network.hidden_sizes=[16]")
    assert answer.status != 0
    assert "your own code, broken_a2c.py line 6" in answer.errors
    assert "no such thing" in answer.errors
