import numpy as np
import pytest

from note_rl.replay.min_tree import MinTree
from note_rl.replay.ring import Ring
from note_rl.replay.samplers import PrioritizedSampler
from note_rl.settings.replay_choices import Priority
from tests.note_rl.replay.story import steps


@pytest.mark.parametrize("size", [16, 4096, 16 * 4097, 16**2 * 4097])
def test_the_lowest_are_those_of_a_sort(size):
    rng = np.random.default_rng(size)
    numbers = rng.random(size).astype(np.float32)
    numbers[rng.random(size) < 0.3] = 0.0  # nothing there
    tree = MinTree(numbers)
    for count in (1, 7, 200):
        live = np.flatnonzero(numbers)
        count = min(count, len(live))
        expected = live[np.argsort(numbers[live])[:count]]
        assert sorted(tree.lowest(count).tolist()) == sorted(expected.tolist())
        some = np.concatenate([expected, rng.integers(size, size=100)])  # taken out and others put in
        numbers[expected] = 0.0
        numbers[some[len(expected) :]] = rng.random(100).astype(np.float32)
        tree.changed(some)


def test_equal_numbers_are_counted_out():
    numbers = np.full(16 * 5000, 2.0, np.float32)
    numbers[::2] = 0.0
    found = MinTree(numbers).lowest(37)
    assert len(set(found.tolist())) == 37
    assert (found % 2 == 1).all()


def test_trimming_again_and_again_keeps_what_a_sort_would():
    """Stored, updated, dropped, trimmed: the same transitions stay as if all were sorted each time."""
    rng = np.random.default_rng(0)
    capacity, keep = 70_000, 300
    ring, sampler = Ring(capacity), PrioritizedSampler(Priority(alpha=1.0, initial_td=1.0, epsilon=1e-9))
    expected = np.zeros(capacity, np.float32)
    for first in range(0, 100_000, 5_000):
        slots = ring.add(steps(first, 5_000))
        sampler.added(slots, ring)
        error = rng.random(5_000).astype(np.float32) + 0.1
        sampler.update(slots, error)
        expected[slots] = sampler.scores[slots]
        gone = ring.drop_oldest(10)
        sampler.dropped(gone)
        expected[gone] = 0.0
        sampler.keep_highest(keep)
        expected[np.argsort(expected)[:-keep]] = 0.0
        np.testing.assert_array_equal(sampler.scores, expected)
        assert sampler.num_live == np.count_nonzero(expected)
