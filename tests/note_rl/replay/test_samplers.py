import numpy as np
import pytest

from note_rl.errors import DivergedError
from note_rl.replay.frame_ring import FrameRing
from note_rl.replay.ring import Ring
from note_rl.replay.samplers import PrioritizedSampler, UniformSampler
from note_rl.settings.replay_choices import Priority
from tests.note_rl.replay.story import steps


def prioritized(td_error, **options):
    """A ring of as many transitions as there are errors, and its sampler."""
    ring, sampler = Ring(len(td_error)), PrioritizedSampler(Priority(**options))
    sampler.added(ring.add(steps(0, len(td_error))), ring)
    sampler.update(np.arange(len(td_error)), np.asarray(td_error))
    return ring, sampler


def test_uniform_sampling_reaches_every_slot_equally():
    ring = Ring(20)
    ring.add(steps(0, 25))
    slots, weights = UniformSampler().draw((100, 400), ring, np.random.default_rng(0))
    assert weights is None
    np.testing.assert_allclose(np.bincount(slots.ravel(), minlength=20) / slots.size, 1 / 20, atol=0.005)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.7, 1.0])
def test_frequencies_are_proportional_to_the_power_of_the_error(alpha):
    error = np.array([0.1, -0.5, 1.0, 2.0, -8.0])
    ring, sampler = prioritized(error, alpha=alpha)
    slots, _ = sampler.draw((400, 250), ring, np.random.default_rng(0))
    expected = np.abs(error) ** alpha / (np.abs(error) ** alpha).sum()
    np.testing.assert_allclose(np.bincount(slots.ravel(), minlength=5) / slots.size, expected, atol=2e-3)


@pytest.mark.parametrize(
    ("progress", "expected"),
    [(1.0, [0.25, 1 / 3, 0.5, 1.0]), (0.0, np.power([0.25, 1 / 3, 0.5, 1.0], 0.4))],
)
def test_importance_weights_by_hand(progress, expected):
    ring, sampler = prioritized([4.0, 3.0, 2.0, 1.0], alpha=1.0, beta=0.4, epsilon=1e-12)
    sampler.progress = progress
    slots, weights = sampler.draw((1, 1000), ring, np.random.default_rng(0))  # P = .4, .3, .2, .1
    np.testing.assert_allclose(weights, np.asarray(expected)[slots], rtol=1e-6)


def test_importance_weights_are_relative_to_the_largest_of_their_own_minibatch():
    error = np.array([8.0, 4.0, 2.0, 1.0, 1.0, 0.5])
    ring, sampler = prioritized(error, alpha=1.0, beta=0.5, epsilon=1e-12)
    slots, weights = sampler.draw((40, 3), ring, np.random.default_rng(0))
    raw = (6 * error / error.sum()) ** -0.5
    for row, got in zip(slots, weights, strict=True):
        np.testing.assert_allclose(got, raw[row] / raw[row].max(), rtol=1e-6)
    assert len({int(row[np.argmin(error[row])]) for row in slots}) > 1  # the largest is not the same in all of them


def test_beta_goes_to_one_with_training():
    _, sampler = prioritized([1.0], beta=0.4)
    betas = []
    for sampler.progress in (0.0, 0.5, 1.0):
        betas.append(sampler.beta)
    np.testing.assert_allclose(betas, [0.4, 0.7, 1.0])


def test_new_transitions_get_the_initial_error_or_the_largest_seen():
    ring, sampler = Ring(8), PrioritizedSampler(Priority(alpha=1.0, initial_td=7.0, epsilon=1e-9))
    sampler.added(ring.add(steps(0, 2)), ring)
    np.testing.assert_allclose(sampler.scores[:2], 7.0)
    sampler.update(np.array([0]), np.array([-20.0]))
    sampler.added(ring.add(steps(2, 1)), ring)
    sampler.update(np.array([0]), np.array([1.0]))
    sampler.added(ring.add(steps(3, 1)), ring)
    np.testing.assert_allclose(sampler.scores[:4], [1.0, 7.0, 20.0, 20.0])
    assert sampler.num_live == 4


def test_overwritten_and_dropped_transitions_are_not_drawn():
    ring, sampler = Ring(5), PrioritizedSampler(Priority())
    for first in range(0, 14, 2):
        sampler.added(ring.add(steps(first, 2)), ring)
    sampler.dropped(ring.drop_oldest(2))
    assert sampler.num_live == len(ring) == 3
    slots, weights = sampler.draw((50, 4), ring, np.random.default_rng(0))
    assert set(ring.column("reward", slots).ravel().tolist()) == {11, 12, 13}
    np.testing.assert_allclose(weights, 1.0)


def test_frames_kept_to_look_back_at_are_not_drawn():
    ring, sampler = FrameRing(4, num_frames=3), PrioritizedSampler(Priority())
    for first in range(0, 30, 2):
        sampler.added(ring.add(steps(first, 1, num_envs=2)), ring)
        assert sampler.num_live == len(ring) == np.count_nonzero(sampler.scores)
    slots, _ = sampler.draw((50, 4), ring, np.random.default_rng(0))
    assert set(ring.column("reward", slots).ravel().tolist()) == {26, 27, 28, 29}


def test_keeping_the_highest_gives_up_the_others_for_good():
    ring, sampler = prioritized([5.0, 1.0, 4.0, 2.0, 3.0])
    sampler.keep_highest(3)
    sampler.update(np.arange(5), np.full(5, 9.0))  # too late for those given up
    slots, _ = sampler.draw((50, 4), ring, np.random.default_rng(0))
    assert set(slots.ravel().tolist()) == {0, 2, 4}
    assert sampler.num_live == 3
    sampler.keep_highest(10)
    assert sampler.num_live == 3


def test_another_exponent_keeps_the_errors():
    error = np.array([0.5, 1.0, 4.0])
    _, sampler = prioritized(error, alpha=0.7)
    sampler.dropped(np.array([1]))
    sampler.set_alpha(0.4)
    np.testing.assert_allclose(sampler.scores, np.array([0.5, 0.0, 4.0]) ** 0.4, rtol=1e-5)


def test_the_last_error_of_a_transition_stays():
    _, sampler = prioritized([1.0, 1.0], alpha=1.0)
    sampler.update(np.array([0, 1, 0]), np.array([5.0, 6.0, 7.0]))
    np.testing.assert_allclose(sampler.scores, [7.0, 6.0], rtol=1e-5)


def test_an_error_that_is_not_finite_is_refused():
    _, sampler = prioritized([1.0, 1.0])
    with pytest.raises(DivergedError, match="not finite"):
        sampler.update(np.array([0]), np.array([np.nan]))


def test_state_round_trip_draws_the_same():
    ring, sampler = prioritized(np.random.default_rng(1).exponential(size=300))
    sampler.progress = 0.3
    sampler.dropped(ring.drop_oldest(7))
    other = PrioritizedSampler(Priority())
    other.set_state(sampler.get_state(), ring)
    one, two = (s.draw((5, 64), ring, np.random.default_rng(2)) for s in (sampler, other))
    np.testing.assert_array_equal(one, two)
    assert other.num_live == 293


def test_a_pool_stored_without_priorities_starts_with_equal_ones():
    ring = Ring(10)
    ring.add(steps(0, 6))
    sampler = PrioritizedSampler(Priority(alpha=1.0))
    sampler.set_state({}, ring)
    np.testing.assert_allclose(sampler.scores, [7.0] * 6 + [0.0] * 4, rtol=1e-6)
