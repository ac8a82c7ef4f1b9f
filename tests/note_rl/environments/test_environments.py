import sys

import gymnasium
import numpy as np
import pytest

from note_rl.environments import (
    EnvFactory,
    VectorEnvironment,
    as_factory,
    flat_observations,
    make_environments,
    num_discrete_actions,
)
from note_rl.errors import CheckpointError, EnvironmentMismatchError
from tests.note_rl.small_environments import Counting


@pytest.mark.parametrize("by_time", [True, False])
def test_the_last_observation_of_an_episode_is_kept_and_the_next_one_starts(by_time):
    envs = VectorEnvironment([Counting(length=2, by_time=by_time)], seed=1)
    first_mark = envs.obs[0, 1]
    rows = [envs.step(np.array([0])) for _ in range(3)]
    obs, reward, next_obs, terminated, ended = (np.stack(column)[:, 0] for column in zip(*rows, strict=True))
    assert obs[:, 0].tolist() == [0, 1, 0]  # the third step belongs to the next episode
    assert next_obs[:, 0].tolist() == [1, 2, 1]  # 2 is the true last observation, not the new start
    assert next_obs[1, 1] == first_mark
    assert reward.tolist() == [1, 2, 1]
    assert ended.tolist() == [False, True, False]
    assert terminated.tolist() == [False, not by_time, False]


def test_every_episode_has_a_seed_of_its_own():
    first, second = Counting(2), Counting(2)
    envs = VectorEnvironment([first, second], seed=5)
    for _ in range(6):
        envs.step(np.array([0, 1]))
    seeds = first.seeds + second.seeds
    assert len(set(seeds)) == len(seeds) == 8
    again = Counting(2)
    VectorEnvironment([again], seed=5)
    assert again.seeds[0] == first.seeds[0]


def test_state_brings_an_episode_back():
    envs = VectorEnvironment([gymnasium.make("CartPole-v1") for _ in range(2)], seed=3)
    rng = np.random.default_rng(0)
    for _ in range(57):
        envs.step(rng.integers(2, size=2))
    state = {name: values.copy() for name, values in envs.get_state().items()}
    actions = rng.integers(2, size=(40, 2))
    expected = [envs.step(action) for action in actions]
    other = VectorEnvironment([gymnasium.make("CartPole-v1") for _ in range(2)], seed=3)
    assert other.set_state(state)
    for action, rows in zip(actions, expected, strict=True):
        for got, wanted in zip(other.step(action), rows, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_state_of_another_number_of_environments_is_refused():
    state = VectorEnvironment([Counting()], seed=0).get_state()
    with pytest.raises(CheckpointError, match="num_envs"):
        VectorEnvironment([Counting(), Counting()], seed=0).set_state(state)


def test_an_environment_that_is_not_deterministic_is_noticed():
    class Noisy(Counting):
        def _observation(self):
            return np.random.default_rng().normal(size=2).astype(np.float32)

    envs = VectorEnvironment([Noisy(100)], seed=0)
    envs.step(np.array([0]))
    state = {name: values.copy() for name, values in envs.get_state().items()}
    other = Noisy(100)
    assert not VectorEnvironment([other], seed=0).set_state(state)
    assert other.step_number == 0, "it begins a new episode, as those who count returns and steps take for granted"


def test_actions_that_do_not_start_at_zero():
    env = Counting()
    env.action_space = gymnasium.spaces.Discrete(2, start=5)
    VectorEnvironment([env], seed=0).step(np.array([1]))
    assert env.actions == [6]


def test_observations_that_are_no_box_are_flattened():
    env = flat_observations(gymnasium.make("FrozenLake-v1", is_slippery=False))
    obs, _ = env.reset(seed=0)
    assert obs.shape == (16,)
    assert obs.sum() == 1


def test_64_bit_observations_are_stored_in_32():
    env = Counting()
    env.observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float64)
    env._observation = lambda: np.zeros(2)
    assert VectorEnvironment([env], seed=0).obs.dtype == np.float32


def test_factory_arguments_reach_the_environment():
    env = EnvFactory("CartPole-v1", {"sutton_barto_reward": True}, max_episode_steps=7)()
    env.reset(seed=0)
    assert env.step(0)[1] == 0.0
    assert env.spec.max_episode_steps == 7


def test_wrappers_are_applied_from_inside_to_outside():
    wrappers = [gymnasium.wrappers.FlattenObservation, gymnasium.wrappers.RecordEpisodeStatistics]
    env = EnvFactory("CartPole-v1", wrappers=wrappers)()
    assert isinstance(env, gymnasium.wrappers.RecordEpisodeStatistics)
    assert isinstance(env.env, gymnasium.wrappers.FlattenObservation)


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (EnvFactory("CartPole-v99"), "CartPole-v99"),
        (EnvFactory("no_such_module:Thing-v0"), "no module named 'no_such_module' on the Python path; start from"),
        (EnvFactory("CartPole-v1", {"no_such_argument": 1}), "no_such_argument"),
    ],
)
def test_what_cannot_be_made_is_explained(factory, message):
    with pytest.raises(EnvironmentMismatchError, match=message):
        factory()


def test_the_error_of_a_missing_package_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium_robotics", None)
    with pytest.raises(EnvironmentMismatchError, match=r"'gymnasium_robotics' .*; pip install 'note-rl\[robotics\]'"):
        EnvFactory("gymnasium_robotics:FetchReach-v4")()


def test_a_discrete_agent_on_a_continuous_environment_is_refused():
    with pytest.raises(EnvironmentMismatchError, match="Pendulum-v1 has the action space Box"):
        num_discrete_actions(gymnasium.make("Pendulum-v1"), "DQN")


def test_given_environments_are_used_themselves_and_copied_for_more():
    env = Counting()
    assert make_environments(env, None) == [env]
    assert make_environments([env, Counting()], None)[0] is env
    several = make_environments(env, 3)
    assert len(several) == 3
    assert env not in several
    with pytest.raises(EnvironmentMismatchError, match="list of 1"):
        make_environments([env], 2)


def test_a_factory_of_fresh_environments():
    made = gymnasium.make("CartPole-v1", max_episode_steps=9)
    assert as_factory(made)().spec.max_episode_steps == 9
    assert as_factory(made)() is not made
    with pytest.raises(EnvironmentMismatchError, match="int"):
        as_factory(3)
