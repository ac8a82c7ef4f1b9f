from collections import Counter

import numpy as np

from note_rl.replay.buffer import Parts, ReplayBuffer
from note_rl.replay.episodes import EpisodeIndex
from note_rl.replay.trajectories import TripletReader
from note_rl.types import Steps
from tests.note_rl.replay.story import part, random_story, steps, stored_in_pieces

RNG = np.random.default_rng


def parts():
    episodes = EpisodeIndex()
    return Parts(reader=TripletReader(episodes), episodes=episodes, chained=True)


def test_triplets_are_two_long_steps_of_one_episode():
    rng = RNG(0)
    story = random_story(rng, 80, 3)
    buffer = stored_in_pieces(story, 120, parts(), rng)
    sample = buffer.sample((30, 16), 0.9, np.zeros(30, bool), rng)
    assert sample.obs.shape == sample.next_obs.shape == (30, 16, 2, 2)
    assert sample.reward.shape == sample.discount.shape == sample.action.shape == (30, 16, 2)
    for place in np.ndindex(30, 16):
        (t, e), (middle, same) = (divmod(int(number), 3) for number in sample.action[place])
        assert same == e
        assert t < middle
        lengths = sample.extras["num_steps"][place].astype(int)
        assert middle - t == lengths[0]
        for half, (begin, length) in enumerate(((t, lengths[0]), (middle, lengths[1]))):
            last = begin + length - 1
            assert begin * 3 + e >= 240 - 120  # stored
            assert not story.ended[begin:last, e].any()
            expected = sum(0.9**k * story.reward[begin + k, e] for k in range(length))
            np.testing.assert_allclose(sample.reward[(*place, half)], expected, rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(sample.obs[(*place, half)], story.obs[begin, e])
            np.testing.assert_array_equal(sample.next_obs[(*place, half)], story.next_obs[last, e])
            assert sample.terminated[(*place, half)] == story.terminated[last, e]
            goes_on = 0.0 if story.terminated[last, e] else 0.9**length
            np.testing.assert_allclose(sample.discount[(*place, half)], goes_on, rtol=1e-6)


def test_all_triplets_of_an_episode_are_equally_likely():
    buffer = ReplayBuffer(4, parts())
    buffer.add(steps(0, 4))  # five states: ten triplets
    sample = buffer.sample((100, 200), 1.0, np.zeros(100, bool), RNG(0))
    first, middle = sample.action[..., 0], sample.action[..., 1]
    count = Counter(zip(first.ravel(), middle.ravel(), sample.extras["num_steps"][..., 1].ravel(), strict=True))
    assert len(count) == 10
    np.testing.assert_allclose(np.array(list(count.values())) / 20_000, 0.1, atol=0.01)


def test_short_episodes_are_skipped():
    buffer = ReplayBuffer(50, parts())
    buffer.add(steps(0, 40, ended=tuple(range(37))))  # 37 of one step, one of three
    sample = buffer.sample((10, 20), 1.0, np.zeros(10, bool), RNG(0))
    assert sample.action.min() == 37
    only_short = ReplayBuffer(50, parts())
    only_short.add(steps(0, 10, ended=tuple(range(10))))
    assert not only_short.parts.reader.possible(only_short.ring)
    assert buffer.parts.reader.possible(buffer.ring)


def test_images_are_stacked_in_triplets_too():
    rng = RNG(1)
    story = random_story(rng, 20, 2)
    frames = rng.integers(255, size=(21, 2, 3, 3)).astype(np.uint8)
    images = Steps(frames[:-1], story.action, story.reward, frames[1:], story.terminated, story.ended)
    episodes = EpisodeIndex()
    buffer = ReplayBuffer(40, Parts(reader=TripletReader(episodes), episodes=episodes, frame_stack=2, chained=True))
    for first in range(0, 20, 4):
        buffer.add(part(images, first, first + 4))
    sample = buffer.sample((5, 8), 1.0, np.zeros(5, bool), rng)
    assert sample.obs.shape == (5, 8, 2, 3, 3, 2)
    for place in np.ndindex(5, 8, 2):
        t, e = divmod(int(sample.action[place]), 2)
        np.testing.assert_array_equal(sample.obs[place][..., 1], frames[t, e])
