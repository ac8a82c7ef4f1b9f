import numpy as np
import pytest

from note_rl.errors import CheckpointError
from note_rl.replay.buffer import ReplayBuffer
from note_rl.replay.ring import Ring
from note_rl.replay.sum_tree import SumTree
from note_rl.types import Steps
from tests.note_rl.replay.story import steps


def everything(ring):
    """Rewards from the oldest to the newest."""
    return ring.column("reward", ring.slots(np.arange(len(ring)))).tolist()


@pytest.mark.parametrize("chunks", [[3, 3, 3], [7, 1], [10], [1] * 12, [23, 2]])
def test_ring_holds_the_newest_whatever_the_pieces(chunks):
    ring, first = Ring(5), 0
    for chunk in chunks:
        slots = ring.add(steps(first, chunk))
        first += chunk
        assert len(slots) == min(chunk, 5)
    assert everything(ring) == list(range(max(first - 5, 0), first))
    slots = np.arange(len(ring))
    np.testing.assert_array_equal(ring.next_obs(slots), ring.obs(slots) + 0.5)
    np.testing.assert_array_equal(ring.column("action", slots), ring.column("reward", slots))


def test_successor_lies_as_many_slots_on_as_there_are_environments():
    ring = Ring(12)
    ring.add(steps(0, 4, num_envs=3))
    ring.add(steps(12, 2, num_envs=3))
    slots = ring.slots(np.arange(len(ring) - 3))
    np.testing.assert_array_equal(ring.column("reward", ring.ahead(slots, 1)), ring.column("reward", slots) + 3)
    np.testing.assert_array_equal(ring.ages(slots), np.arange(9))


def test_dropping_the_oldest_moves_the_beginning_only():
    ring = Ring(5)
    ring.add(steps(0, 7))
    assert ring.column("reward", ring.drop_oldest(2)).tolist() == [2, 3]
    assert everything(ring) == [4, 5, 6]
    ring.add(steps(7, 1))
    assert everything(ring) == [4, 5, 6, 7]
    ring.add(steps(8, 3))
    assert everything(ring) == [6, 7, 8, 9, 10]
    assert len(ring.drop_oldest(99)) == 5
    assert len(ring) == 0
    ring.add(steps(20, 2))
    assert everything(ring) == [20, 21]


def test_an_interruption_ends_the_running_episodes_without_terminating_them():
    ring = Ring(8)
    ring.add(steps(0, 3, num_envs=2, ended=(2,)))
    ring.interrupt()
    assert ring.column("ended", np.arange(6)).tolist() == [False, False, True, False, True, True]
    assert ring.column("terminated", np.arange(6)).tolist() == [False, False, True, False, False, False]


@pytest.mark.parametrize("dropped", [0, 2])
@pytest.mark.parametrize("stored", [3, 7])
def test_state_round_trip_goes_on_in_the_same_place(stored, dropped):
    ring, other = Ring(5), Ring(5)
    ring.add(steps(0, stored))
    ring.drop_oldest(dropped)
    other.set_state({name: values.copy() for name, values in ring.get_state().items()})
    for more in (1, 3):
        for one in (ring, other):
            one.add(steps(7, more))
        assert everything(ring) == everything(other)
        np.testing.assert_array_equal(ring.slots(np.arange(len(ring))), other.slots(np.arange(len(other))))
    with pytest.raises(CheckpointError, match="capacity 5"):
        Ring(6).set_state(ring.get_state())


def test_a_cartpole_transition_costs_at_most_48_bytes():
    ring = Ring(1000)
    obs = np.zeros((1, 1, 4), np.float32)
    no = np.zeros((1, 1), bool)
    ring.add(Steps(obs, np.zeros((1, 1), np.int64), np.zeros((1, 1), np.float32), obs, no, no))
    assert ring.nbytes / 1000 + SumTree(1_000_000).nbytes / 1_000_000 <= 48  # priorities included


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
    sample = buffer.gather(np.array([[0, 1, 2]]), 0.5, np.zeros(1, bool), np.random.default_rng(0))
    assert sample.discount.tolist() == [[0.5, 0.5, 0.5]]
