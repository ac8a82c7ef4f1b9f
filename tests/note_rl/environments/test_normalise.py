import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from note_rl.agents.pytorch import DQN
from note_rl.environments.normalise import ObservationNormaliser, RewardNormaliser, RunningMoments
from note_rl.policy import EpsGreedyQPolicy
from note_rl.training.callbacks import LambdaCallback
from note_rl.types import Steps
from tests.note_rl.small_environments import Counting


def steps(reward, ended, obs=None):
    reward = np.asarray(reward, np.float32)
    ended = np.asarray(ended, np.bool_)
    obs = np.zeros((*reward.shape, 1), np.float32) if obs is None else obs
    return Steps(obs, np.zeros(reward.shape), reward, obs, np.zeros_like(ended), ended)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=6), st.integers(0, 2**32 - 1), st.floats(0, 1e6))
def test_moments_of_parts_are_those_of_the_whole(sizes, seed, offset):
    samples = np.random.default_rng(seed).normal(size=(sum(sizes), 3)) + offset
    moments = RunningMoments((3,))
    for part in np.split(samples, np.cumsum(sizes)[:-1]):
        moments.update(part)
    assert moments.count == len(samples)
    if len(samples) >= 2:
        np.testing.assert_allclose(moments.mean, samples.mean(0), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(moments.std, samples.std(0), rtol=1e-6)
    else:
        np.testing.assert_array_equal(moments.std, np.ones(3))


def test_observations_get_mean_0_and_deviation_1():
    obs = np.random.default_rng(0).normal([5.0, -3.0], [2.0, 0.1], size=(100, 4, 2)).astype(np.float32)
    normaliser = ObservationNormaliser()
    np.testing.assert_array_equal(normaliser(obs), obs)  # nothing is known yet
    normaliser.update(obs[:50])
    normaliser.update(obs[50:])
    result = normaliser(obs)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result.mean((0, 1)), [0, 0], atol=1e-4)
    np.testing.assert_allclose(result.std((0, 1)), [1, 1], rtol=1e-4)
    assert normaliser(np.array([1e9, -1e9])).tolist() == [10.0, -10.0]


def test_bytes_stay_bytes_until_something_was_taken_in():
    """Networks divide bytes by 255, by their type."""
    obs = np.arange(6, dtype=np.uint8).reshape(1, 3, 2)
    assert ObservationNormaliser()(obs).dtype == np.uint8


def test_entries_that_are_kept_stay_as_they_are_also_when_read_back():
    normaliser, again = ObservationNormaliser(), ObservationNormaliser()
    normaliser.kept = np.array([True, False])
    normaliser.update(np.array([[[200.0, 1.0]], [[100.0, 5.0]]]))  # mean 3 and deviation 2 of the second
    again.set_state(normaliser.get_state())
    for one in (normaliser, again):
        np.testing.assert_array_equal(one(np.array([[255.0, 7.0], [0.0, -99.0]])), [[255.0, 2.0], [0.0, -10.0]])


def test_what_never_changes_is_only_shifted():
    normaliser = ObservationNormaliser()
    normaliser.update(np.full((10, 1, 1), 7.0))
    assert normaliser(np.array([[7.0], [8.0]])).ravel().tolist() == [0.0, 1.0]


def test_rewards_are_divided_by_the_deviation_of_the_discounted_return():
    reward = [[1.0, 0.0], [2.0, 0.0], [4.0, 8.0], [1.0, 0.0]]
    ended = [[False, False], [True, False], [False, False], [False, True]]
    # by hand with gamma 0.5: env 0: 1, 2.5 | 4, 3; env 1: 0, 0, 8, 4
    seen = np.array([1, 0, 2.5, 0, 4, 8, 3, 4])
    normaliser = RewardNormaliser()
    normaliser.update(steps(reward[:3], ended[:3]), 0.5)
    normaliser.update(steps(reward[3:], ended[3:]), 0.5)
    assert normaliser.moments.std == pytest.approx(seen.std())
    np.testing.assert_allclose(normaliser(np.array([seen.std(), -2.0])), [1.0, -2.0 / seen.std()], rtol=1e-6)
    assert normaliser._return.tolist() == [3.0, 0.0]  # the second episode is over


def test_state_brings_both_back():
    rng = np.random.default_rng(0)
    data = steps(rng.normal(size=(5, 2)), rng.random((5, 2)) < 0.3, rng.normal(size=(5, 2, 3)))
    reward, obs = RewardNormaliser(), ObservationNormaliser()
    other_reward, other_obs = RewardNormaliser(), ObservationNormaliser()
    other_obs.set_state(obs.get_state())
    assert other_obs.moments is None
    for _ in range(2):
        reward.update(data, 0.9)
        obs.update(data.obs)
        other_reward.set_state({name: array.copy() for name, array in reward.get_state().items()})
        other_obs.set_state({name: array.copy() for name, array in obs.get_state().items()})
    reward.update(data, 0.9)
    other_reward.update(data, 0.9)
    np.testing.assert_array_equal(reward(data.reward), other_reward(data.reward))
    np.testing.assert_array_equal(obs(data.obs), other_obs(data.obs))


def test_rewards_of_several_agents_have_a_return_each():
    reward = np.array([[[1.0, 2.0]], [[1.0, 2.0]]])  # [T, E, n]
    normaliser = RewardNormaliser()
    normaliser.update(steps(reward, [[False], [False]]), 1.0)
    assert normaliser.moments.std == pytest.approx(np.std([1, 2, 2, 4]))


def test_observations_are_normalised_by_what_was_collected():
    """The running moments are those of every observation acted on, none left out, once the phase is over."""
    agent = DQN(hidden_size=4, env=lambda: Counting(5))
    agent.set(policy=EpsGreedyQPolicy(0.1), batch=4, num_updates=1, train_freq=5, normalise_obs=True, seed=1)
    seen = []
    note = LambdaCallback(on_phase_end=lambda phase, logs: seen.append(agent.obs_normaliser.moments.count))
    agent.train(torch.optim.Adam(agent.param), total_steps=20, callbacks=[note], p=0)
    assert seen == [5, 10, 15, 20]
    moments = agent.obs_normaliser.moments
    stored = agent._trainer.experience.buffer.ring.obs(np.arange(20))
    np.testing.assert_allclose(moments.mean, stored.mean(axis=0), rtol=1e-6)
    shown = agent.obs_normaliser(stored)
    np.testing.assert_allclose(shown.mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(shown.std(axis=0), 1.0, rtol=1e-3)
