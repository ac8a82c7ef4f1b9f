"""Vector environments of Gymnasium and of the user give what environments stepped one by one give."""

import functools
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from note_rl.collect.collector import Collector
from note_rl.environments import VectorEnvironment, flat_observations, training_environments
from note_rl.environments.goals import goal_layout
from note_rl.environments.gymnasium_vector import foreign_environments
from note_rl.errors import CheckpointError, EnvironmentMismatchError
from note_rl.policy import GreedyQPolicy
from tests.note_rl.environments.odd_environments import Plain
from tests.note_rl.environments.vectors import Numbered, collected, makers, same
from tests.note_rl.small_environments import Counting

MODES = list(AutoresetMode)


class Walk(Counting):
    """Counting, moved by its actions; episodes of different lengths, which a reset without a seed does not change."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is None:
            self.mark = self.first_mark
        self.first_mark = self.mark
        return self._observation(), {}

    def step(self, action):
        _, reward, terminated, truncated, info = super().step(action)
        self.mark = self.mark + 10.0 * action
        return self._observation(), reward + self.mark, terminated, truncated, info


@pytest.mark.parametrize("by_time", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_gives_what_one_by_one_gives(mode, by_time):
    expected, episodes = collected(VectorEnvironment([make() for make in makers(Walk, by_time)], seed=4), 20)
    if mode is AutoresetMode.SAME_STEP:  # later seeds are not ours to give: each environment keeps its first mark
        expected = first_marks(by_time)
    vector = SyncVectorEnv(makers(Walk, by_time), autoreset_mode=mode)
    steps, ended = collected(training_environments(vector, None, seed=4), 20)
    same(steps, expected)
    assert [(one.length, one.env_index) for one in ended] == [(one.length, one.env_index) for one in episodes]
    assert {one.length for one in ended if one.env_index == 1} == {3}
    assert steps["terminated"].any() == (not by_time)


def first_marks(by_time):
    """One by one, every episode begun without a seed but the first."""
    envs = VectorEnvironment([make() for make in makers(Walk, by_time)], seed=4)
    for env in envs.envs:
        env.reset = functools.partial(lambda reset, **_: reset(), env.reset)
    return collected(envs, 20)[0]


def test_workers_of_gymnasium_give_the_same():
    expected, _ = collected(VectorEnvironment([make() for make in makers(Walk)], seed=4), 12)
    envs = training_environments(AsyncVectorEnv(makers(Walk)), 3, seed=4)
    try:
        same(collected(envs, 12)[0], expected)
    finally:
        envs.close()


@pytest.mark.parametrize("num_steps", [1, 4, 10])
@pytest.mark.parametrize("by_time", [True, False])
@pytest.mark.parametrize("twice", [True, False])
def test_dead_steps_are_neither_stored_nor_counted(by_time, num_steps, twice):
    times = 40 // num_steps
    vector = Numbered(by_time=by_time)
    vector.says_ends_twice = twice
    envs = training_environments(vector, None, seed=0)
    steps, episodes = collected(envs, num_steps, times)
    for index, length in enumerate((2, 3, 5)):
        count = np.arange(40) % length  # what a counting of its own would show, without a gap
        assert steps["obs"][:, index, 0].tolist() == count.tolist()
        assert steps["next_obs"][:, index, 0].tolist() == (count + 1).tolist()  # the true last one included
        assert steps["reward"][:, index].tolist() == (count + 1).tolist()
        assert steps["action"][:, index].tolist() == [int(one % 2 > 0.5) ^ 1 for one in count]
        assert steps["ended"][:, index].tolist() == (count + 1 == length).tolist()
        assert (steps["terminated"] == steps["ended"]).all() == (not by_time)
        mine = [one for one in episodes if one.env_index == index]
        assert {(one.return_, one.length) for one in mine} == {(length * (length + 1) / 2, length)}
        assert len(mine) >= 40 // length


def test_frames_and_phases_of_one_episode_with_dead_steps():
    shown = []

    def act(obs):
        shown.append(obs[0].tolist())
        return np.zeros((1, 2))

    envs = training_environments(Numbered((2,)), None, seed=0)
    collector = Collector(envs, GreedyQPolicy(), np.random.default_rng(0), frame_stack=2)
    lengths = [len(collector.collect(act, None)[0].ended) for _ in range(3)]
    assert lengths == [2, 2, 2]
    assert shown == [[0, 0], [0, 1], [2, 2], [0, 0], [0, 1], [2, 2], [0, 0], [0, 1]]  # the third is a dead step's


def test_vectors_without_autoreset_are_never_stepped_after_an_end():
    steps, _ = collected(training_environments(Numbered(mode=AutoresetMode.DISABLED), None, seed=0), 30)
    assert steps["obs"][:, 1, 0].tolist() == [0, 1, 2] * 10


def test_the_true_last_observation_of_the_same_step_is_asked_for():
    envs = training_environments(Numbered(mode=AutoresetMode.SAME_STEP), None, seed=0)
    with pytest.raises(EnvironmentMismatchError, match="final_obs"):
        collected(envs, 5)


def test_what_does_not_fit_is_refused():
    with pytest.raises(EnvironmentMismatchError, match="num_envs=2, but env is a vector environment of 3"):
        training_environments(Numbered(), 2, seed=0)
    with pytest.raises(EnvironmentMismatchError, match="autoreset_mode"):
        training_environments(Numbered(mode=None), None, seed=0)
    taxi = SyncVectorEnv([lambda: gymnasium.make("FrozenLake-v1")])
    with pytest.raises(EnvironmentMismatchError, match="FlattenObservation"):
        training_environments(taxi, None, seed=0)


def test_goals_of_a_vector():
    import note_rl.examples.environments  # noqa: F401 (registers it)

    make = functools.partial(gymnasium.make, "BitFlipping8-v0")
    alone = training_environments(make, 3, seed=2)
    for mode in MODES[::2]:
        envs = training_environments(SyncVectorEnv([make] * 3, autoreset_mode=mode), None, seed=2)
        alone = training_environments(make, 3, seed=2)
        for step in range(20):
            for mine, theirs in zip(envs.step(np.full(3, step % 8)), alone.step(np.full(3, step % 8)), strict=True):
                np.testing.assert_array_equal(mine, theirs)
            np.testing.assert_array_equal(envs.achieved_goal, alone.achieved_goal)
        assert envs.goal_layout.goal_size == 8


def test_episodes_of_a_seeded_vector_are_brought_back():
    def make():
        factories = [functools.partial(gymnasium.make, "CartPole-v1")] * 3
        return training_environments(SyncVectorEnv(factories), None, seed=3)

    rng = np.random.default_rng(0)
    envs, alone = make(), VectorEnvironment([gymnasium.make("CartPole-v1") for _ in range(3)], seed=3)
    for _ in range(57):
        envs.step(rng.integers(2, size=3))
    state = {name: values.copy() for name, values in envs.get_state().items()}
    other = make()
    assert other.set_state(state)
    assert alone.set_state(state)  # and the other way round: one kind of state
    assert make().set_state(alone.get_state())
    for action in rng.integers(2, size=(40, 3)):
        for mine, theirs, third in zip(envs.step(action), other.step(action), alone.step(action), strict=True):
            np.testing.assert_array_equal(mine, theirs)
            np.testing.assert_array_equal(mine, third)
    with pytest.raises(CheckpointError, match="num_envs"):
        training_environments(SyncVectorEnv(makers(Counting)[:2]), None, seed=3).set_state(state)


def test_other_vectors_say_that_they_cannot_be_brought_back():
    envs = training_environments(Numbered(), None, seed=0)
    envs.step(np.zeros(3, int))
    assert not envs.set_state(envs.get_state())
    assert envs.obs.tolist() == [[0], [0], [0]]


class OwnVector(VectorEnv[Any, Any, Any]):
    """A custom one: whole numbers first, rewards [E, 1], and keeps what it shows."""

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012
    num_envs = 2
    single_observation_space = spaces.Box(-1, 1, (1,), np.float32)
    single_action_space = spaces.Discrete(2)
    observation_space = spaces.Box(-1, 1, (2, 1), np.float32)
    action_space = spaces.MultiDiscrete([2, 2])
    rewards: Any = np.array([[1.0], [2.0]])

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.now = np.zeros((2, 1), np.int64)
        return self.now, {}

    def step(self, actions: Any) -> Any:
        self.now = self.now + 0.25
        return self.now, self.rewards, np.zeros(2, bool), np.zeros(2, bool), {}


def test_a_custom_vector_environment_is_read_by_its_spaces_too() -> None:
    envs = foreign_environments(OwnVector(), 0)
    assert envs.obs.dtype == np.float32
    assert envs.step(np.zeros(2, np.int64))[1].tolist() == [1.0, 2.0]
    assert envs.obs.tolist() == [[0.25], [0.25]]
    envs.env.rewards = np.ones(3)
    with pytest.raises(EnvironmentMismatchError, match=r"the rewards of the shape \[3\]: give one for each of its 2"):
        envs.step(np.zeros(2, np.int64))


class SameArray(Plain):
    """Shows every observation in the same array."""

    length = 3

    def __init__(self) -> None:
        super().__init__()
        self.array = np.zeros(3, np.float32)

    def shown(self) -> Any:
        self.array[:] = self.t / 10
        return self.array


class SameGoal(SameArray):
    """Shows what is achieved, and a goal, in the same arrays each time."""

    def __init__(self) -> None:
        super().__init__()
        parts = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = spaces.Dict(dict.fromkeys(parts, self.observation_space))

    def shown(self) -> Any:
        return dict.fromkeys(self.observation_space, super().shown())

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return np.ones(len(achieved), np.float32)


class Home(Plain):
    """Ends where it began, in an array of its own each time."""

    length = 3

    def shown(self) -> Any:
        return np.full(3, self.t % 3 / 10, np.float32)


@pytest.mark.parametrize("env", [SameArray, SameGoal])
@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_a_last_observation_that_the_next_episode_has_overwritten_is_refused(kind: Any, env: Any) -> None:
    goals = goal_layout(flat_observations(env()))
    envs = foreign_environments(kind([env] * 2, autoreset_mode=AutoresetMode.SAME_STEP), 0, goals)
    try:
        for _ in range(2):
            envs.step(np.zeros(2, np.int64))
        with pytest.raises(EnvironmentMismatchError, match="shows all observations in one array"):
            envs.step(np.zeros(2, np.int64))
    finally:
        envs.close()


def test_an_episode_may_end_where_it_began() -> None:
    envs = foreign_environments(SyncVectorEnv([Home] * 2, autoreset_mode=AutoresetMode.SAME_STEP), 0)
    ends = [envs.step(np.zeros(2, np.int64))[4].tolist() for _ in range(6)]
    assert ends == [[False] * 2, [False] * 2, [True] * 2] * 2


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_in_other_modes_it_is_read_in_time(mode: AutoresetMode) -> None:
    envs = foreign_environments(SyncVectorEnv([SameArray] * 2, autoreset_mode=mode), 0)
    for t in (0.1, 0.2, 0.3, 0.1):
        _, _, next_obs, *_ = envs.step(np.zeros(2, np.int64))
        assert next_obs[:, 0].tolist() == [np.float32(t)] * 2
