"""`tuner check` names the part of an agent that does not learn."""

from typing import Any

import pytest

from note_rl.environments.small_tasks import LEAVE_REWARD, STAY_REWARD, SmallTask
from tests.tuner.command_line import Answer, CommandLine
from tuner.commands import COMMANDS
from tuner.commands.check import more_steps
from tuner.config.paths import get_path
from tuner.runs import agent_check
from tuner.runs.agent_check import Attempt, reduced
from tuner.runs.config_checks import resolve

BROKEN = """
import torch
from note_rl.agents.pytorch import A2C, DQN

class Climbing(DQN):
    def __call__(self, *batch):
        return -super().__call__(*batch)

class Numb(DQN):
    def __call__(self, s, *batch):
        return super().__call__(0.0 * s, *batch)

class Blind(DQN):
    def next_value(self, next_s):
        return 0.0 * super().next_value(next_s)

class Forgetful(A2C):
    def action(self, s, state):
        probabilities, state = super().action(s, state)
        return probabilities, {name: 0.0 * values for name, values in state.items()}
"""
WIDE = ("network.hidden_sizes", "network.critic.hidden_sizes")
SMALL = ("network.hidden_sizes=[16]", "training.jit_compile=false", "executor=inline")


def checked(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, kinds: set[str], *arguments: str) -> Answer:
    """The answer with these tasks only."""
    monkeypatch.setattr(agent_check, "TASKS", tuple(task for task in agent_check.TASKS if task.kind in kinds))
    monkeypatch.setattr("tuner.commands.check.TASKS", agent_check.TASKS)
    (tuner.folder / "broken.py").write_text(BROKEN)
    return tuner("check", *SMALL, *arguments)


def test_a_sound_agent_learns_and_nothing_is_written(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = checked(tuner, monkeypatch, {"observation", "next_step"}, "dqn")
    assert (answer.status, answer.errors) == (0, "")
    first, second, last = answer.output.splitlines()
    assert "learned in " in first
    assert "learned in " in second
    sizes = "buffer.batch_size=64, as these tasks need no more (type other sizes to check those)"
    assert last == f"all 2 tasks are learned; with {sizes}"
    assert [path.name for path in tuner.folder.iterdir() if path.name != "__pycache__"] == ["broken.py"]


@pytest.mark.parametrize(
    ("agent", "kind", "suspect", "seeds"),
    [
        ("Climbing", "reward", "the sign of the loss", "2 seeds"),
        ("Numb", "observation", "what the networks are given", "1 seed"),
        ("Blind", "next_step", "the next observation, the discount (gamma)", "1 seed"),
    ],
)
def test_a_broken_part_is_named(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, agent: str, kind: str, suspect: str, seeds: str
) -> None:
    monkeypatch.setattr(agent_check, "MORE_SEEDS", int(seeds[0]) - 1)  # each takes all of its steps
    quickly = ("buffer=replay", "buffer.batch_size=128", "buffer.learning_starts=100", "training.total_steps=2400")
    answer = checked(tuner, monkeypatch, {kind}, f"broken.{agent}", *quickly)
    assert answer.status == 1, answer
    first, last = answer.output.splitlines()
    assert f"not learned with 0 of {seeds}" in first
    assert last.startswith("1 of 1 tasks are not learned.")
    assert suspect in last
    assert last.endswith("may only need more steps: training.total_steps=24000 (now 2400).")


@pytest.mark.parametrize(("agent", "seed"), [("td3", 1), ("crossq", 0), ("dqn", 0)])
def test_a_time_limit_is_learned(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, agent: str, seed: int) -> None:
    answer = checked(tuner, monkeypatch, {"time_limit"}, agent, f"seed={seed}")
    assert (answer.status, answer.errors) == (0, ""), answer


def test_an_agent_that_takes_a_time_limit_for_an_end_leaves(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_check, "MORE_SEEDS", 0)
    step = SmallTask.step

    def ended(task: SmallTask, action: Any) -> Any:
        obs, reward, terminated, truncated, info = step(task, action)
        return obs, reward, terminated or truncated, False, info

    monkeypatch.setattr(SmallTask, "step", ended)
    answer = checked(tuner, monkeypatch, {"time_limit"}, "dqn", "training.total_steps=2400")
    assert answer.status == 1, answer
    first, last = answer.output.splitlines()
    assert "not learned with 0 of 1 seed (mean returns 1; 0.65 to 0.75 is right)" in first
    assert "done must be 1 only where the task itself has ended" in last


def test_the_discount_from_which_on_it_pays_to_stay_is_named() -> None:
    discount = 1.0 - STAY_REWARD / LEAVE_REWARD  # below it, STAY_REWARD / (1 - discount) < LEAVE_REWARD
    [suspects] = [task.suspects for task in agent_check.TASKS if task.kind == "time_limit"]
    assert 0.0 < discount < 0.9
    assert suspects.endswith(f"a discount below {discount:.2g}")


WITH_MEMORY = ("a2c", "network=gru", "training.total_steps=8000")


@pytest.mark.parametrize("backend", ["torch", pytest.param("keras", marks=pytest.mark.slow)])
def test_an_agent_with_a_memory_has_a_task_more(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    answer = checked(tuner, monkeypatch, {"reward", "memory"}, *WITH_MEMORY, f"backend={backend}")
    assert (answer.status, answer.errors) == (0, ""), answer
    _, memory, last = answer.output.splitlines()
    assert memory.startswith("three steps: the first observation names the last action  learned in ")
    assert last == "all 2 tasks are learned"


def test_an_agent_without_one_does_not(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = checked(tuner, monkeypatch, {"reward", "memory"}, "dqn", "buffer.batch_size=128")
    assert (answer.status, answer.errors) == (0, ""), answer
    assert answer.output.splitlines()[1:] == ["all 1 tasks are learned"]


def test_an_agent_that_forgets_fails_there_alone(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_check, "MORE_SEEDS", 0)
    answer = checked(tuner, monkeypatch, {"observation", "memory"}, *WITH_MEMORY, "agent._target_=broken.Forgetful")
    assert answer.status == 1, answer
    first, memory, last = answer.output.splitlines()
    assert "learned in " in first
    assert "not learned with 0 of 1 seed (mean" in memory
    assert last.startswith("1 of 2 tasks are not learned.")
    assert "the state that action() returns" in last


def test_a_loss_that_is_not_finite_is_a_task_that_is_not_learned(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = checked(tuner, monkeypatch, {"reward"}, "dqn", "optimizer=sgd", "optimizer.learning_rate=1e20")
    assert (answer.status, answer.errors) == (1, ""), answer
    assert "mean returns no finite loss, no finite loss, no finite loss;" in answer.output


def test_an_environment_of_its_own_is_refused(tuner: CommandLine) -> None:
    assert "env=acrobot: tuner check has environments of its own" in tuner.refused("check", "dqn", "env=acrobot")


def test_an_agent_of_numbers_is_given_numbers(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = checked(tuner, monkeypatch, {"reward"}, "ppo_continuous")
    assert (answer.status, answer.errors) == (0, ""), answer
    assert "learned in " in answer.output


@pytest.mark.parametrize(("agent", "source"), [("bc", "dataset"), ("gail", "learned_reward")])
def test_imitation_is_refused_as_the_tasks_have_rewards_only(tuner: CommandLine, agent: str, source: str) -> None:
    assert f"learns from buffer.{source} does not learn from rewards" in tuner.refused("check", agent)


def test_a_function_is_refused(tuner: CommandLine) -> None:
    assert "name an agent, as in tuner check dqn" in tuner.refused("check", "synthetic")


@pytest.mark.parametrize(
    ("agent", "typed", "lowered"),
    [
        ("sac", (), {"network.hidden_sizes": [64, 64], "buffer.batch_size": 64}),
        ("sac", ("network.hidden_sizes=[256,32]",), {"buffer.batch_size": 64}),
        ("sac", ("network.hidden_sizes=[256,32]", "buffer.batch_size=99"), {}),
        ("crossq", ("buffer.batch_size=256",), {path: [64, 64] for path in WIDE}),
        ("sac", ("network=mlp_tanh",), {"buffer.batch_size": 64}),
        ("ppo", (), {}),
        ("a2c", (), {}),  # a whole rollout is a minibatch
    ],
)
def test_sizes_that_nobody_typed_are_those_of_small_tasks(
    agent: str, typed: tuple[str, ...], lowered: dict[str, object]
) -> None:
    command = COMMANDS["check"]
    config = resolve(command.checked(command.meant([f"agent={agent}", *typed])).config)
    found, changed = reduced(config, [word.partition("=")[0] for word in typed])
    assert changed == lowered
    assert {path: get_path(found, path) for path in lowered} == lowered
    assert found["training"] == config["training"]
    assert not any(get_path(config, path) == size for path, size in lowered.items())


def test_minibatches_of_a_rollout_stay_as_they_decide_on_its_sequences() -> None:
    command = COMMANDS["check"]
    config = resolve(
        command.checked(command.meant(["agent=ppo", "buffer.num_steps=64", "buffer.batch_size=128"])).config
    )
    assert reduced(config, []) == (config, {})


@pytest.mark.parametrize(
    ("steps_of_attempts", "advice"),
    [
        ([1000, 1000], "An agent that learns slowly may only need more steps: training.total_steps=10000 (now 1000)"),
        ([1000, 10_000], "That it only learns slowly is unlikely: 10,000 steps were tried, too"),
    ],
)
def test_more_steps_are_advised_where_they_were_not_tried(steps_of_attempts: list[int], advice: str) -> None:
    attempts = tuple(Attempt(0.0, steps, learned=False) for steps in steps_of_attempts)
    assert more_steps(agent_check.Answer(agent_check.TASKS[0], attempts), 1000) == advice
