import numpy as np
import pytest

from note_rl.errors import CheckpointError
from note_rl.replay.buffer import ReplayBuffer
from note_rl.replay.ring import Ring
from note_rl.replay.rollout import Rollout
from note_rl.replay.samplers import UniformSampler
from note_rl.types import Steps


def steps(first, num_steps, num_envs=1, ended=()):
    """Steps whose reward is their number, counted over time and environments; obs = number, next_obs = number + 0.5."""
    number = np.arange(first, first + num_steps * num_envs, dtype=np.float32).reshape(num_steps, num_envs)
    over = np.isin(number, ended)
    obs = number[..., None]
    return Steps(obs, number.astype(np.int64), number, obs + 0.5, over, over)


@pytest.mark.parametrize("chunks", [[3, 3, 3], [7, 1], [10], [1] * 12, [23, 2]])
def test_ring_holds_the_newest_whatever_the_pieces(chunks):
    ring, first = Ring(5), 0
    for chunk in chunks:
        slots = ring.add(steps(first, chunk))
        first += chunk
        assert len(slots) == min(chunk, 5)
    stored = ring.read(np.arange(len(ring)))
    assert sorted(stored["reward"].tolist()) == list(range(max(first - 5, 0), first))
    np.testing.assert_array_equal(stored["next_obs"], stored["obs"] + 0.5)
    np.testing.assert_array_equal(stored["action"], stored["reward"])


def test_successor_lies_as_many_slots_on_as_there_are_environments():
    ring = Ring(12)
    ring.add(steps(0, 4, num_envs=3))
    assert ring.read(np.array([1, 4]))["reward"].tolist() == [1, 4]


def test_state_round_trip_goes_on_in_the_same_place():
    ring, other = Ring(5), Ring(5)
    ring.add(steps(0, 7))
    other.set_state({name: values.copy() for name, values in ring.get_state().items()})
    for one in (ring, other):
        one.add(steps(7, 2))
    everything = np.arange(5)
    for name, values in ring.read(everything).items():
        np.testing.assert_array_equal(values, other.read(everything)[name])
    with pytest.raises(CheckpointError, match="capacity 5"):
        Ring(6).set_state(ring.get_state())


def test_a_cartpole_transition_costs_at_most_48_bytes():
    ring = Ring(1000)
    obs = np.zeros((1, 1, 4), np.float32)
    no = np.zeros((1, 1), bool)
    ring.add(Steps(obs, np.zeros((1, 1), np.int64), np.zeros((1, 1), np.float32), obs, no, no))
    assert sum(values.nbytes for values in ring._fields.values()) / 1000 <= 48


def test_sample_reads_what_was_stored_and_discounts_only_what_goes_on():
    buffer = ReplayBuffer(100)
    buffer.add(steps(0, 20, ended=(3, 11)))
    sample = buffer.sample((30, 8), 0.9, np.zeros(30, bool), np.random.default_rng(0))
    assert sample.obs.shape == (30, 8, 1)
    np.testing.assert_array_equal(sample.obs[..., 0], sample.reward)
    over = np.isin(sample.reward, (3, 11))
    assert over.any()
    np.testing.assert_array_equal(sample.terminated, over)
    np.testing.assert_allclose(sample.discount, np.where(over, 0.0, 0.9), rtol=1e-6)


def test_a_time_limit_keeps_its_discount():
    ended = steps(0, 3)
    cut = Steps(ended.obs, ended.action, ended.reward, ended.next_obs, ended.terminated, np.ones((3, 1), bool))
    buffer = ReplayBuffer(10)
    buffer.add(cut)
    sample = buffer.gather(np.array([[0, 1, 2]]), 0.5, np.zeros(1, bool))
    assert sample.discount.tolist() == [[0.5, 0.5, 0.5]]


def test_uniform_sampling_reaches_every_slot_equally():
    slots, weights = UniformSampler().draw((100, 400), 20, np.random.default_rng(0))
    assert weights is None
    np.testing.assert_allclose(np.bincount(slots.ravel(), minlength=20) / slots.size, 1 / 20, atol=0.005)


def test_rollout_epochs_read_each_transition_once():
    taken = steps(0, 6, num_envs=2)
    sample = Rollout(taken, gamma=1.0).sample(num_epochs=3, batch_size=4, rng=np.random.default_rng(0))
    assert sample.reward.shape == (9, 4)
    for epoch in range(3):
        assert sorted(sample.reward[epoch * 3 : epoch * 3 + 3].ravel().tolist()) == list(range(12))
    assert not np.array_equal(sample.reward[:3], sample.reward[3:6])
    assert sample.sync.tolist() == [False] * 8 + [True]


def test_rollout_leaves_out_a_different_rest_each_epoch():
    sample = Rollout(steps(0, 10), gamma=1.0).sample(20, 4, np.random.default_rng(0))
    assert sample.reward.shape == (40, 4)
    assert len(set(sample.reward.ravel().tolist())) == 10


def test_rollout_advantages_use_the_value_of_the_true_last_observation():
    taken = steps(0, 2)
    cut = Steps(taken.obs, taken.action, taken.reward, taken.next_obs, taken.terminated, np.ones((2, 1), bool))
    rollout = Rollout(cut, gamma=0.5)
    rollout.add_advantages(lambda obs: 10.0 * obs[:, 0], gae_lambda=1.0, standardised=False)
    sample = rollout.sample(1, 2, np.random.default_rng(0))
    order = sample.reward[0].astype(int)
    # r + gamma * V(next_obs) - V(obs): 0 + .5*5 - 0 and 1 + .5*15 - 10
    np.testing.assert_allclose(sample.extras["advantage"][0], np.array([2.5, -1.5])[order])
    np.testing.assert_allclose(sample.extras["return_"][0], np.array([2.5, 8.5])[order])
    np.testing.assert_allclose(sample.extras["value_old"][0], np.array([0.0, 10.0])[order])
