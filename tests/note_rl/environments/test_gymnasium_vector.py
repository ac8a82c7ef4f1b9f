"""Vector environments of Gymnasium and of the user give what environments stepped one by one give."""

import functools

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from note_rl.collect.collector import Collector
from note_rl.environments import VectorEnvironment, training_environments
from note_rl.errors import CheckpointError, EnvironmentMismatchError
from note_rl.policy import GreedyQPolicy
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


def test_vectors_that_are_told_are_never_stepped_after_an_end():
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
