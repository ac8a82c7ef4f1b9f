"""Data sets of Minari: what is read of them, what is refused, and training that begins with one or has nothing else."""

import json
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from note_rl.agents.pytorch import ACER, BC, DQN
from note_rl.collect.datasets import check_dataset, read_dataset
from note_rl.errors import EnvironmentMismatchError, SettingsError
from note_rl.policy import EpsGreedyQPolicy, GaussianPolicy, SoftmaxPolicy
from note_rl.replay.buffer import ReplayBuffer
from note_rl.replay.readers import NStep
from note_rl.settings import Demonstrations, Plateau, RecordedSteps
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting
from tests.recorded import minari_dataset, pendulum_steps


class Named(gymnasium.Env[dict[str, Any], int]):
    """As Counting, with observations of two parts, and actions that are called 5 and 6."""

    observation_space = spaces.Dict({"step": spaces.Box(0.0, 9.0, (1,)), "mark": spaces.Discrete(3)})
    action_space = spaces.Discrete(2, start=5)

    def __init__(self) -> None:
        self.number = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.number = 0
        return self._shown(), {}

    def step(self, action: int) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self.number += 1
        return self._shown(), float(action), False, self.number == 2, {}

    def _shown(self) -> dict[str, Any]:
        return {"step": np.full(1, self.number, np.float32), "mark": self.number % 3}


gymnasium.register("Counted-v0", f"{Counting.__module__}:Counting", kwargs={"length": 4})
gymnasium.register("CountedByTime-v0", f"{Counting.__module__}:Counting", kwargs={"length": 4, "by_time": True})
gymnasium.register("Named-v0", f"{__name__}:Named")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


def counted(name: str = "counted/all-v0", env: str = "Counted-v0") -> RecordedSteps:
    """Three episodes: to the end of the task, or the time, in 4 steps; given up after 2; and again to the end."""
    minari_dataset(name, env, lambda obs: int(obs[0]) % 2, [9, 2, 9])
    return read_dataset(name, env)


def test_ends_of_tasks_and_of_episodes_are_distinguished(home: Path) -> None:
    steps = counted()
    assert steps.obs[:, 0].tolist() == [0, 1, 2, 3, 0, 1, 0, 1, 2, 3]
    assert steps.next_obs[:, 0].tolist() == [1, 2, 3, 4, 1, 2, 1, 2, 3, 4]
    assert steps.action.tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]
    assert steps.reward.tolist() == [1, 2, 3, 4, 1, 2, 1, 2, 3, 4]
    assert np.flatnonzero(steps.ended).tolist() == [3, 5, 9]
    assert np.flatnonzero(steps.terminated).tolist() == [3, 9], "one was given up, which ends no task"
    by_time = counted("counted/time-v0", "CountedByTime-v0")
    assert np.flatnonzero(by_time.ended).tolist() == [3, 5, 9]
    assert not by_time.terminated.any()


def test_observations_and_actions_are_as_agents_see_them(home: Path) -> None:
    minari_dataset("named/all-v0", "Named-v0", lambda obs: 5 + int(obs["step"][0]), [9])
    steps = read_dataset("named/all-v0", "Named-v0")
    flat = gymnasium.wrappers.FlattenObservation(gymnasium.make("Named-v0"))
    shown = [flat.reset()[0], flat.step(5)[0], flat.step(5)[0]]
    np.testing.assert_array_equal(steps.obs, shown[:-1])
    np.testing.assert_array_equal(steps.next_obs, shown[1:])
    assert steps.action.tolist() == [0, 1], "counted from 0"
    assert steps.reward.tolist() == [5.0, 6.0]


@pytest.mark.parametrize("num_envs", [1, 3])
def test_returns_of_several_steps_stop_where_an_episode_does(home: Path, num_envs: int) -> None:
    steps = counted()
    buffer = ReplayBuffer(100)
    buffer.add(steps.steps(num_envs))
    number = 10 // num_envs * num_envs
    assert len(buffer) == number
    slots = buffer.ring.slots(np.arange(number))[None]
    read = NStep(3)(buffer.ring, slots, 0.5, np.random.default_rng(0))
    cuts = range(number // num_envs - 1, number, number // num_envs)
    for k in range(number):
        (at,) = np.flatnonzero(
            (steps.obs[:number, 0] == read.obs[0, k, 0]) & (steps.obs[:number, 1] == read.obs[0, k, 1])
        )
        taken = [at]
        while len(taken) < 3 and not steps.ended[taken[-1]] and taken[-1] not in cuts:
            taken.append(taken[-1] + 1)
        assert read.reward[0, k] == pytest.approx(sum(0.5**i * steps.reward[j] for i, j in enumerate(taken)))
        assert read.next_obs[0, k, 0] == steps.next_obs[taken[-1], 0]
        assert read.discount[0, k] == pytest.approx(0.0 if steps.terminated[taken[-1]] else 0.5 ** len(taken))


def test_what_does_not_fit_or_is_not_there_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=r"there is no data set counted/al-v0 in .*: there is none yet. `minari d"):
        check_dataset("counted/al-v0", "Counted-v0")
    counted()
    with pytest.raises(SettingsError, match=r"there is no data set counted/al-v0 in .*: did you mean counted/all-v0\?"):
        check_dataset("counted/al-v0", "Counted-v0")
    with pytest.raises(EnvironmentMismatchError, match=r"the observations Box.*: choose env\.id=Counted-v0, or an"):
        check_dataset("counted/all-v0", "CartPole-v1")
    with pytest.raises(EnvironmentMismatchError, match=r"have observations \[3\], and the environment \[4\]"):
        check_dataset(pendulum_steps(), "CartPole-v1")
    steps, shown = pendulum_steps(), np.zeros((200, 4), np.float32)
    mixed = RecordedSteps(shown, steps.action, steps.reward, shown, steps.terminated, steps.ended)
    with pytest.raises(EnvironmentMismatchError, match=r"have actions \[1\] \(float32\), and the environment Discrete"):
        check_dataset(mixed, "CartPole-v1")
    about = home / "counted" / "all-v0" / "data" / "metadata.json"
    told = json.loads(about.read_text())
    del told["action_space"]
    told["env_spec"] = json.dumps({**json.loads(told["env_spec"]), "entry_point": "os:system"})
    about.write_text(json.dumps(told))
    with pytest.raises(SettingsError, match=r"cannot be read .it does not say what its action_space is"):
        check_dataset("counted/all-v0", "Counted-v0")
    about.write_text("{")
    with pytest.raises(SettingsError, match="counted/all-v0 cannot be read"):
        check_dataset("counted/all-v0", "Counted-v0")
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(SettingsError, match=r"needs Minari, which is not installed: pip install 'note-rl\[offline\]'"):
        check_dataset("counted/all-v0", "Counted-v0")


def adam(agent: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(agent.param, 1e-3)


def test_a_pool_begins_with_a_data_set_and_training_goes_on(home: Path) -> None:
    steps = counted()
    agent = DQN(env="Counted-v0", hidden_size=4)
    told = {"policy": EpsGreedyQPolicy(0.1), "train_freq": 2, "num_updates": 1, "batch": 8, "seed": 0, "num_steps": 2}
    agent.set(**told, dataset="counted/all-v0", pool_size=9)
    with pytest.raises(SettingsError, match=r"holds 10 steps and the pool 9: set pool_size/capacity=10 or more"):
        agent.train(adam(agent), total_steps=4, p=0)
    agent.set(pool_size=100, normalise_obs=True)
    agent.train(adam(agent), total_steps=6, p=0)
    assert agent.num_gradient_steps == 3, "from the first phase on"
    ring = agent._trainer.experience.buffer.ring
    assert len(ring) == 16
    np.testing.assert_array_equal(ring.obs(ring.slots(np.arange(10))), steps.obs)
    assert agent.obs_normaliser.moments.count == 16
    other = DQN(env="Counted-v0", hidden_size=4)
    other.set(**told, dataset=steps, pool_size=100, normalise_obs=True)
    agent.save(home / "file")
    other.restore(home / "file")
    other.train(adam(other), total_steps=8, p=0)
    assert len(other._trainer.experience.buffer) == 18
    assert other.obs_normaliser.moments.count == 18, "what was restored knows of the data set"


def test_offline_nothing_is_stepped_and_a_run_goes_on_exactly(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted()
    stepped: list[int] = []
    step = Counting.step
    monkeypatch.setattr(Counting, "step", lambda self, action: stepped.append(action) or step(self, action))

    def made() -> BC:
        torch.manual_seed(0)
        agent = BC(env="Counted-v0", hidden_size=4)
        told = {"policy": SoftmaxPolicy(), "dataset": "counted/all-v0", "batch": 4, "train_freq": 5, "num_updates": 3}
        agent.set(**told, num_envs=2, normalise_obs=True, seed=0)
        return agent

    whole, first, second = made(), made(), made()
    whole.train(adam(whole), total_steps=30, p=0)
    assert (whole.num_env_steps, whole.num_gradient_steps, whole.num_episodes) == (30, 18, 0)
    assert not stepped
    assert len(whole._trainer.experience.buffer) == 10

    class Stop:
        def on_phase_end(self, phase: int, logs: dict[str, float]) -> None:
            first.stop_training = logs["num_env_steps"] >= 12

    first.train(adam(first), total_steps=30, p=0, callbacks=[Stop()])
    first.save(home / "file", save_data=False)
    second.restore(home / "file")
    second.train(adam(second), total_steps=30, p=0)
    for name, values in whole.learner.get_state().items():
        np.testing.assert_array_equal(second.learner.get_state()[name], values, err_msg=name)
    assert whole.evaluate(2).lengths.tolist() == [4, 4]
    assert len(stepped) >= 8


def test_what_does_not_go_with_it_is_refused(home: Path) -> None:
    told: dict[str, Any] = {"policy": SoftmaxPolicy(), "dataset": pendulum_steps()}
    agent = BC(env="Pendulum-v1")
    for more, said in (
        ({"dataset": None}, "offline=True learns from a data set alone, and there is none: give dataset="),
        ({"dataset": 3}, "dataset must be the id of a Minari data set or a RecordedSteps"),
        ({"trial_count": 3, "criterion": 1.0}, "offline and criterion cannot be combined: no episodes are played"),
        ({"plateau": Plateau()}, "offline and Plateau"),
        ({"HER": True}, "dataset and HER cannot be combined"),
        ({"frame_stack": 2}, "dataset and frame_stack above 1 cannot be combined"),
        ({"MARL": True}, "MARL and dataset cannot be combined"),
        ({"PPO": True}, "belongs to replay"),
    ):
        with pytest.raises(SettingsError, match=said):
            BC(env="Pendulum-v1").set(**{**told, **more})
    agent.set(**{**told, "policy": GaussianPolicy()}, batch=500)
    with pytest.raises(SettingsError, match=r"holds 200 steps, less than a minibatch .batch/batch_size=500"):
        agent.train(adam(agent), total_steps=10, p=0)
    with pytest.raises(SettingsError, match="episodes=3: offline no episodes are played"):
        agent.train(adam(agent), episodes=3, p=0)
    with pytest.raises(SettingsError, match=r"belongs to|does not go with"):
        ACER().set(policy=SoftmaxPolicy(), dataset="mine")


ODD = {
    "counted from start": (spaces.Discrete(3, start=5), [5, 7, 6], "Discrete"),
    "of a larger space": (spaces.Discrete(2), [0, 2, 1], "Discrete"),
    "of several with a start": (
        spaces.MultiDiscrete([2, 3], start=[1, -1]),
        [[1, -1], [2, 1], [1, 0]],
        "MultiDiscrete",
    ),
    "one number too many": (spaces.Box(-1, 1, (2,)), [[0.0, 0.0, 0.0]] * 3, "Box"),
    "of no space": (spaces.Discrete(3), [0.5, 1.0, 2.0], "float"),
}


@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize("kind", ODD)
def test_demonstrations_of_other_actions_are_refused(framework: Any, kind: str) -> None:
    """They would be read as no action at all, or as the last one."""
    space, actions, named = ODD[kind]

    class Actions(Counting):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = space

    expert = Demonstrations(np.zeros((3, 2), np.float32), np.array(actions))
    agent = framework.agents.GAIL(env=Actions, hidden_size=(4,))
    policy = GaussianPolicy() if named == "Box" else SoftmaxPolicy()
    agent.set(policy=policy, PPO=True, IRL=True, expert=expert, rollout_steps=8, batch=8)
    with pytest.raises(EnvironmentMismatchError, match=f"the demonstrations have actions .*{named}"):
        agent.train(optimizer=[framework.optimizers.sgd(group, 0.1) for group in agent.param], total_steps=8, p=0)
