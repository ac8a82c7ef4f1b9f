"""Rollouts that are read in whole sequences, with the states of an agent that remembers a sum."""

import numpy as np
import pytest

from note_rl.errors import SettingsError
from note_rl.replay.whole_sequences import SequencedRollout
from note_rl.settings import RolloutSettings
from note_rl.types import EPISODE_START, STATE_BEFORE, Steps

T, E = 6, 2


def story():
    """Observation 10 * t + e; the state before a step is the sum of what was seen in its episode before."""
    obs = (10.0 * np.arange(T)[:, None] + np.arange(E))[..., None].astype(np.float32)
    ended = np.zeros((T, E), np.bool_)
    ended[1, 0] = ended[3, 1] = True
    terminated = ended.copy()
    terminated[3, 1] = False  # a time limit
    states, total = np.zeros((T, E, 1), np.float32), np.array([5.0, 0.0])  # the first had begun before
    for step in range(T):
        states[step, :, 0] = total
        total = np.where(ended[step], 0.0, total + obs[step, :, 0])
    next_obs = obs + 10.0
    next_obs[1, 0] = next_obs[3, 1] = 1000.0  # last observations
    zeros = np.zeros((T, E), np.float32)
    starts = np.concatenate([[[False, True]], ended[:-1]])
    extras = {STATE_BEFORE: states, EPISODE_START: starts}
    return Steps(obs, zeros.astype(np.int64), zeros, next_obs, terminated, ended, zeros, extras)


def value_from(obs, next_obs, before):
    """The value is what was seen in all, the state behind it the same."""
    total = before[:, 0] + obs[:, 0]
    return np.stack([total, total + next_obs[:, 0]])


def rollout(length=3):
    return SequencedRollout(story(), gamma=0.5, frames=None, length=length)


@pytest.mark.parametrize(("length", "batch_size"), [(3, 6), (3, 3), (2, 4), (6, 12), (1, 4)])
def test_minibatches_are_whole_sequences_of_one_environment(length, batch_size):
    sample = rollout(length).sample(2, batch_size, np.random.default_rng(0))
    assert sample.reward.shape == (2 * T * E // batch_size, batch_size)
    sequences = sample.obs.reshape(-1, length)
    np.testing.assert_array_equal(np.diff(sequences, axis=1), 10.0)  # the steps of one environment
    assert ((sequences[:, 0] // 10) % length == 0).all()
    for epoch in np.split(sample.obs.ravel(), 2):
        assert sorted(epoch) == sorted(story().obs.ravel())


def test_each_sequence_comes_with_the_state_before_it_and_with_its_episodes_beginnings():
    sample = rollout().sample(1, 6, np.random.default_rng(0))
    assert sample.extras["state_before"].shape == (2, 2, 1)
    states = {(0, 0): 5.0, (3, 0): 20.0, (0, 1): 0.0, (3, 1): 1.0 + 11.0 + 21.0}
    starts = {(0, 0): [0, 0, 1], (3, 0): [0, 0, 0], (0, 1): [1, 0, 0], (3, 1): [0, 1, 0]}
    first = sample.obs[..., 0].reshape(4, 3)[:, 0]
    places = [(int(number // 10), int(number % 10)) for number in first]
    assert sample.extras["state_before"].ravel().tolist() == [states[place] for place in places]
    assert sample.extras["episode_start"].reshape(4, 3).tolist() == [starts[place] for place in places]


def test_last_observations_are_valued_in_the_state_that_saw_their_episode():
    made = rollout()
    made.add_advantages(value_from, gae_lambda=0.0, standardised=False)
    order = np.argsort(made.sample(1, T * E, np.random.default_rng(0)).obs.ravel())
    advantage = made.sample(1, T * E, np.random.default_rng(0)).extras["advantage"].ravel()[order].reshape(T, E)
    # -V(s) + 0.5 * V(s'), of which each V is the sum of its episode so far
    sums = np.array([[5, 1], [15, 12], [20, 33], [50, 64], [90, 41], [140, 92]], float)
    following = np.array([[15, 12], [0, 33], [50, 64], [90, 64 + 1000], [140, 92], [200, 153]], float)
    np.testing.assert_allclose(advantage, 0.5 * following - sums)


@pytest.mark.parametrize(
    ("settings", "num_envs", "length"),
    [
        ({"num_steps": 32, "batch_size": 256}, 8, 32),
        ({"num_steps": 128, "batch_size": 64}, 1, 64),
        ({"num_steps": 5, "batch_size": "rollout"}, 8, 5),
        ({"num_steps": 32, "batch_size": 64, "sequence_length": 8}, 8, 8),
        ({"num_steps": 1, "batch_size": 8}, 8, 1),
    ],
)
def test_sequences_are_as_long_as_rollout_and_minibatch_allow(settings, num_envs, length):
    assert RolloutSettings(**settings).steps_of_sequence(num_envs) == length


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_steps": 32, "batch_size": 64, "sequence_length": 24}, "sequence_length=24.*32 steps.*64 transitions"),
        (
            {"num_steps": 32, "batch_size": 64, "sequence_length": 1},
            "sequence_length=1: .*of several steps; choose more",
        ),
        ({"num_steps": 5, "batch_size": 32}, "rollout of 5 steps.*minibatches of 32.*none in common.*make batch"),
    ],
)
def test_what_leaves_a_rest_is_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        RolloutSettings(**settings).steps_of_sequence(8)
