"""Readers against naive ones that walk through the story step by step."""

import numpy as np
import pytest

from note_rl.replay.buffer import Parts, ReplayBuffer
from note_rl.replay.episodes import EpisodeIndex
from note_rl.replay.readers import NStep, one_step
from note_rl.types import Steps
from tests.note_rl.replay.story import number_of, part, random_story, steps, stored_in_pieces

RNG = np.random.default_rng


def naive_n_step(story, t, e, n, gamma):
    """Reward, next observation, terminated and discount of n steps from step t of environment e."""
    reward, factor = 0.0, 1.0
    for k in range(t, min(t + n, len(story.ended))):
        reward += factor * story.reward[k, e]
        factor *= gamma
        if story.ended[k, e]:
            break
    return reward, story.next_obs[k, e], story.terminated[k, e], 0.0 if story.terminated[k, e] else factor


@pytest.mark.parametrize(("num_envs", "capacity"), [(1, 40), (3, 50), (4, 500)])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_n_steps_agree_with_walking_through_the_story(num_envs, capacity, n):
    rng = RNG(n * 100 + num_envs)
    story = random_story(rng, 60, num_envs)
    buffer = stored_in_pieces(story, capacity, Parts(reader=NStep(n) if n > 1 else one_step, chained=True), rng)
    slots = buffer.ring.slots(np.arange(len(buffer)))
    read = buffer.parts.reader(buffer.ring, slots, 0.9, rng)
    for age, (t, e) in enumerate(number_of(story, capacity, len(buffer))):
        reward, next_obs, terminated, discount = naive_n_step(story, t, e, n, 0.9)
        np.testing.assert_allclose(read.reward[age], reward, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(read.next_obs[age], next_obs)
        np.testing.assert_array_equal(read.obs[age], story.obs[t, e])
        assert read.terminated[age] == terminated
        np.testing.assert_allclose(read.discount[age], discount, rtol=1e-6)


def test_n_steps_by_hand():
    buffer = ReplayBuffer(10, Parts(reader=NStep(3), chained=True))
    taken = steps(0, 6)  # rewards 0 1 2 3 4 5
    ended = np.array([False, False, False, True, False, False])[:, None]
    buffer.add(Steps(taken.obs, taken.action, taken.reward, taken.next_obs, ended & False, ended))  # a time limit
    sample = buffer.gather(np.array([[0, 1, 2, 3, 4, 5]]), 0.5, np.zeros(1, bool), RNG(0))
    assert sample.reward[0].tolist() == [0 + 0.5 + 0.5, 1 + 1 + 0.75, 2 + 1.5, 3, 4 + 2.5, 5]
    assert sample.next_obs[0, :, 0].tolist() == [2.5, 3.5, 3.5, 3.5, 5.5, 5.5]
    assert sample.discount[0].tolist() == [0.125, 0.125, 0.25, 0.5, 0.25, 0.5]
    assert sample.terminated[0].tolist() == [0.0] * 6


def test_n_steps_do_not_go_on_where_the_task_ends_within_an_episode():
    """As it does with a lost life."""
    buffer = ReplayBuffer(10, Parts(reader=NStep(3), chained=True))
    taken = steps(0, 4)  # rewards 0 1 2 3
    lost = np.array([False, True, False, False])[:, None]
    buffer.add(Steps(taken.obs, taken.action, taken.reward, taken.next_obs, lost, lost & False))
    sample = buffer.gather(np.array([[0, 1, 2, 3]]), 0.5, np.zeros(1, bool), RNG(0))
    assert sample.reward[0].tolist() == [0 + 0.5, 1, 2 + 1.5, 3]
    assert sample.discount[0].tolist() == [0, 0, 0.25, 0.5]
    assert sample.next_obs[0, :, 0].tolist() == [1.5, 1.5, 3.5, 3.5]


def test_n_steps_of_several_agents_have_a_reward_each():
    rng = RNG(0)
    one, two = random_story(rng, 30, 2), random_story(rng, 30, 2)
    both = Steps(
        obs=np.stack([one.obs, two.obs], axis=2),
        action=np.stack([one.action, two.action], axis=2),
        reward=np.stack([one.reward, two.reward], axis=2),
        next_obs=np.stack([one.next_obs, two.next_obs], axis=2),
        terminated=np.stack([one.terminated, one.terminated & two.ended], axis=2),
        ended=one.ended,
    )
    buffer = ReplayBuffer(100, Parts(reader=NStep(3), chained=True))
    buffer.add(both)
    sample = buffer.sample((4, 16), 0.9, np.zeros(4, bool), rng)
    assert sample.reward.shape == sample.discount.shape == sample.terminated.shape == (4, 16, 2)
    for place in np.ndindex(4, 16):
        t, e = divmod(int(sample.slots[place]), 2)
        for agent, story in enumerate((one, two)):
            own = Steps(story.obs, story.action, story.reward, story.next_obs, both.terminated[..., agent], one.ended)
            reward, next_obs, _, discount = naive_n_step(own, t, e, 3, 0.9)
            np.testing.assert_allclose(sample.reward[(*place, agent)], reward, rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(sample.next_obs[(*place, agent)], next_obs)
            np.testing.assert_allclose(sample.discount[(*place, agent)], discount, rtol=1e-6)


def test_n_steps_do_not_go_on_over_an_interruption():
    buffer = ReplayBuffer(10, Parts(reader=NStep(5), chained=True))
    buffer.add(steps(0, 2))
    buffer.interrupt()
    buffer.add(steps(2, 2))
    sample = buffer.gather(np.array([[0, 1, 2]]), 1.0, np.zeros(1, bool), RNG(0))
    assert sample.reward.tolist() == [[1.0, 1.0, 5.0]]
    assert sample.next_obs[0, :, 0].tolist() == [1.5, 1.5, 3.5]


def naive_place(story, t, e, first):
    """Steps before and after step t of environment e in its episode, of those stored (from number `first` on)."""
    begin = t
    while begin > 0 and not story.ended[begin - 1, e]:
        begin -= 1
    stored = t
    while stored > begin and (stored - 1) * story.ended.shape[1] + e >= first:
        stored -= 1
    end = t
    while not story.ended[end, e] and end + 1 < len(story.ended):
        end += 1
    return t - begin, t - stored, end - t


@pytest.mark.parametrize(("num_envs", "capacity"), [(1, 40), (3, 50), (4, 500), (5, 7)])
def test_the_place_in_an_episode_is_known_without_walking(num_envs, capacity):
    rng = RNG(num_envs)
    story = random_story(rng, 80, num_envs, end_probability=0.1)
    episodes = EpisodeIndex()
    buffer = stored_in_pieces(story, capacity, Parts(episodes=episodes), rng)
    slots = buffer.ring.slots(np.arange(len(buffer)))
    first = story.ended.size - len(buffer)
    expected = [naive_place(story, t, e, first) for t, e in number_of(story, capacity, len(buffer))]
    found = (
        episodes.since_start(slots),
        episodes.stored_before(slots, buffer.ring),
        episodes.until_end(slots, buffer.ring),
    )
    np.testing.assert_array_equal(np.stack(found, axis=1), expected)


def test_an_endless_episode_beside_very_short_ones_keeps_its_place():
    episodes = EpisodeIndex()
    buffer = ReplayBuffer(10, Parts(episodes=episodes))
    for number in range(200):
        one = steps(2 * number, 1, num_envs=2)
        ended = np.array([[False, True]])
        buffer.add(Steps(one.obs, one.action, one.reward, one.next_obs, ended, ended))
        slots = buffer.ring.slots(np.arange(len(buffer)))
        later = episodes.until_end(slots, buffer.ring)
        assert (later[1::2] == 0).all()
        stored = np.arange(len(later) // 2)[::-1]
        assert (later[::2] <= stored).all()  # never past what is stored, whatever the number it was given
        assert (later[::2] >= 0).all()
        if number < 10:
            np.testing.assert_array_equal(later[::2], stored)


def test_another_number_of_environments_forgets_a_story_that_is_read_on(caplog):
    buffer = ReplayBuffer(20, Parts(reader=NStep(2), chained=True, episodes=EpisodeIndex()))
    buffer.add(steps(0, 3, num_envs=2))
    buffer.add(steps(6, 3))
    assert len(buffer) == 3
    assert "forgotten" in caplog.text
    uniform = ReplayBuffer(20)
    uniform.add(steps(0, 3, num_envs=2))
    uniform.add(steps(6, 3))
    assert len(uniform) == 9


def test_state_round_trip_of_episodes():
    rng = RNG(3)
    story = random_story(rng, 40, 2)
    one, other = (ReplayBuffer(30, Parts(episodes=EpisodeIndex())) for _ in range(2))
    one.add(part(story, 0, 25))
    other.set_state({name: values.copy() for name, values in one.get_state().items()})
    for buffer in (one, other):
        buffer.add(part(story, 25, 40))
    slots = np.arange(30)
    np.testing.assert_array_equal(
        one.parts.episodes.until_end(slots, one.ring), other.parts.episodes.until_end(slots, other.ring)
    )
