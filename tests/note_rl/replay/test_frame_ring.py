import numpy as np
import pytest

from note_rl.environments.frames import FrameStack, stacked_shape
from note_rl.replay.buffer import Parts, ReplayBuffer
from note_rl.replay.frame_ring import FrameRing
from note_rl.replay.readers import NStep, one_step
from note_rl.replay.samplers import PrioritizedSampler
from note_rl.settings.replay_choices import Priority
from note_rl.types import Steps
from tests.note_rl.replay.story import part, stored_in_pieces

RNG = np.random.default_rng


def film(rng, num_steps, num_envs, shape=(2, 3), end_probability=0.15):
    """Random frames; where an episode ends, what was seen last is not what is seen first afterwards."""
    obs = rng.integers(255, size=(num_steps, num_envs, *shape)).astype(np.uint8)
    ended = rng.random((num_steps, num_envs)) < end_probability
    fresh = rng.integers(255, size=obs.shape).astype(np.uint8)
    following = np.concatenate([obs[1:], fresh[-1:]])
    next_obs = np.where(ended.reshape(*ended.shape, *(1 for _ in shape)), fresh, following)
    number = np.arange(ended.size).reshape(ended.shape)
    return Steps(obs, number, number.astype(np.float32), next_obs, ended & False, ended)


def naive_stack(story, t, e, num_frames, following):
    """The stack at step t, or that after it, read step by step."""
    frames = [story.next_obs[t, e]] if following else []
    while len(frames) < num_frames:
        frames.insert(0, story.obs[t, e])
        if t > 0 and not story.ended[t - 1, e]:
            t -= 1
    if story.obs.ndim == 4:
        return np.stack(frames, axis=-1)
    return np.concatenate(frames, axis=-1)


@pytest.mark.parametrize(("num_envs", "capacity"), [(1, 30), (3, 50), (2, 400), (4, 9)])
@pytest.mark.parametrize("num_frames", [1, 2, 4])
@pytest.mark.parametrize("shape", [(2, 3), (2, 2, 3), (5,)])
def test_stacks_agree_with_walking_through_the_story(num_envs, capacity, num_frames, shape):
    rng = RNG(num_frames + num_envs)
    story = film(rng, 70, num_envs, shape)
    ring, first = FrameRing(capacity, num_frames), 0
    while first < 70:
        last = min(first + int(rng.integers(1, 9)), 70)
        ring.add(part(story, first, last))
        first = last
        slots = ring.slots(np.arange(len(ring)))
        numbers = ring.column("action", slots)
        obs, next_obs = ring.obs(slots), ring.next_obs(slots)
        stored = part(story, 0, last)
        for age, number in enumerate(numbers):
            t, e = divmod(int(number), num_envs)
            if num_frames == 1:
                expected = stored.obs[t, e], stored.next_obs[t, e]
            else:
                expected = tuple(naive_stack(stored, t, e, num_frames, following) for following in (False, True))
            np.testing.assert_array_equal(obs[age], expected[0])
            np.testing.assert_array_equal(next_obs[age], expected[1])
    assert obs.shape[1:] == stacked_shape(shape, num_frames)


def test_stacks_are_those_that_were_acted_upon():
    story = film(RNG(0), 40, 2)
    shown, stack = [], FrameStack(3)
    starts = np.ones(2, bool)
    for t in range(40):
        shown.append(stack.show(story.obs[t], starts))
        starts = story.ended[t]
    ring = FrameRing(60, 3)
    ring.add(story)
    slots = ring.slots(np.arange(60))
    np.testing.assert_array_equal(ring.obs(slots), np.stack(shown).reshape(80, 2, 3, 3)[20:])


def test_each_frame_is_stored_once():
    ring = FrameRing(1000, 4)
    rng = RNG(0)
    for _ in range(30):
        ring.add(film(rng, 100, 1, (84, 84), end_probability=0.01))
    assert ring.nbytes / 1000 < 84 * 84 * 1.06 + 40


def test_images_are_recognised_by_their_type():
    rng = RNG(0)
    buffer = ReplayBuffer(30)
    buffer.add(film(rng, 10, 1, (8, 8)))
    assert isinstance(buffer.ring, FrameRing)
    restored = ReplayBuffer(30)
    restored.set_state(buffer.get_state())
    slots = np.arange(10)
    np.testing.assert_array_equal(restored.ring.next_obs(slots), buffer.ring.next_obs(slots))


def test_an_interruption_keeps_what_was_seen_last():
    rng = RNG(0)
    story = film(rng, 6, 2, end_probability=0.3)
    ring = FrameRing(12, 2)
    ring.add(story)
    before = ring.next_obs(ring.newest())
    ring.interrupt()
    np.testing.assert_array_equal(ring.next_obs(ring.newest()), before)
    later = film(rng, 5, 2, end_probability=0.3)
    for t in range(5):
        slots = ring.newest()
        ring.add(part(later, t, t + 1))
        if t == 0:
            np.testing.assert_array_equal(ring.next_obs(slots), before)
            first = ring.obs(ring.newest())
            np.testing.assert_array_equal(first[..., 0], first[..., 1])  # a new episode begins


@pytest.mark.parametrize("stored", [3, 40])
def test_state_round_trip_goes_on_in_the_same_place(stored):
    story = film(RNG(5), 60, 2)
    one, other = (FrameRing(30, 3) for _ in range(2))
    one.add(part(story, 0, stored))
    one.drop_oldest(2)
    other.set_state({name: values.copy() for name, values in one.get_state().items()})
    for ring in (one, other):
        for first in range(stored, 60, 3):
            ring.add(part(story, first, first + 3))
    slots = one.slots(np.arange(30))
    np.testing.assert_array_equal(other.slots(np.arange(30)), slots)
    np.testing.assert_array_equal(one.obs(slots), other.obs(slots))
    np.testing.assert_array_equal(one.next_obs(slots), other.next_obs(slots))


@pytest.mark.parametrize("num_frames", [1, 4])
def test_state_round_trip_before_any_episode_has_ended(num_frames):
    """In files of former versions, the last frames of no episode at all had no shape."""
    story = film(RNG(5), 60, 2, end_probability=0.0)
    one, other, former = (FrameRing(30, num_frames) for _ in range(3))
    one.add(part(story, 0, 5))
    state = {name: values.copy() for name, values in one.get_state().items()}
    assert state["frames/final"].shape == (0, 2, 3)
    other.set_state(state)
    former.set_state({**state, "frames/final": np.zeros(0)})
    later = film(RNG(6), 40, 2)
    for ring in (one, other, former):
        ring.add(later)
    slots = one.slots(np.arange(30))
    for ring in (other, former):
        np.testing.assert_array_equal(ring.obs(slots), one.obs(slots))
        np.testing.assert_array_equal(ring.next_obs(slots), one.next_obs(slots))


@pytest.mark.parametrize("priority", [None, Priority()])
@pytest.mark.parametrize("n", [1, 3])
def test_stacks_with_n_steps_and_priorities(n, priority):
    rng = RNG(7)
    story = film(rng, 50, 3)
    sampler = None if priority is None else PrioritizedSampler(priority)
    reader = one_step if n == 1 else NStep(n)
    buffer = stored_in_pieces(story, 60, Parts(sampler=sampler, reader=reader, frame_stack=2, chained=True), rng)
    sample = buffer.sample((10, 16), 0.9, np.zeros(10, bool), rng)
    for place in np.ndindex(10, 16):
        t, e = divmod(int(sample.action[place]), 3)
        assert t * 3 + e >= 150 - 60
        last = t
        while last < t + n - 1 and not story.ended[last, e] and last + 1 < 50:
            last += 1
        np.testing.assert_array_equal(sample.obs[place], naive_stack(story, t, e, 2, False))
        np.testing.assert_array_equal(sample.next_obs[place], naive_stack(story, last, e, 2, True))
