import numpy as np
import pytest

from note_rl.replay.sum_tree import SumTree

SIZES = [1, 7, 16, 17, 4096, 4097, 65_536, 70_001]


def filled(capacity, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 9, capacity).astype(np.float32)
    values[rng.integers(capacity)] = 3.0
    tree = SumTree(capacity)
    tree.fill(values)
    return tree, values


@pytest.mark.parametrize("capacity", SIZES)
def test_finds_the_slot_at_which_the_running_sum_passes(capacity):
    tree, values = filled(capacity)  # whole numbers: every sum is exact
    assert tree.total == values.sum(dtype=np.float64)
    mass = np.concatenate([np.arange(500) % tree.total, np.random.default_rng(1).random(500) * tree.total])
    running = np.cumsum(values, dtype=np.float64)
    expected = [int(np.argmax(running > one)) for one in mass]
    np.testing.assert_array_equal(tree.find(mass), expected)


@pytest.mark.parametrize("capacity", SIZES)
def test_setting_agrees_with_filling_bit_for_bit(capacity):
    rng = np.random.default_rng(2)
    tree, values = filled(capacity)
    for _ in range(20):
        slots = rng.integers(capacity, size=int(rng.integers(1, 100)))
        new = rng.random(len(slots)).astype(np.float32) * 1e3
        tree.set(slots, new)
        for slot, value in zip(slots, new, strict=True):  # the last one of a slot stays
            values[slot] = value
    np.testing.assert_array_equal(tree.values, values)
    rebuilt = SumTree(capacity)
    rebuilt.fill(values)
    assert all(np.array_equal(a, b) for a, b in zip(tree._levels, rebuilt._levels, strict=True))
    assert tree.total == rebuilt.total


def test_nothing_is_found_in_empty_slots_whatever_the_rounding():
    rng = np.random.default_rng(3)
    tree = SumTree(70_001)
    present = rng.choice(70_001, 300, replace=False)
    tree.set(present, (10.0 ** rng.uniform(-30, 6, 300)).astype(np.float32))
    edges = np.cumsum(tree.values, dtype=np.float64)
    mass = np.concatenate([edges, np.nextafter(edges, 0.0), rng.random(5000) * tree.total, [0.0, tree.total]])
    assert (tree.values[tree.find(mass)] > 0.0).all()


def test_it_takes_four_and_a_half_bytes_a_slot():
    assert SumTree(1_000_000).nbytes / 1_000_000 < 4.6
