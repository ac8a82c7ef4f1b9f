"""Sequences of a pool: against a naive reading of a story, and how often is learned from them."""

import numpy as np
import pytest

from note_rl.errors import SettingsError
from note_rl.policy import SoftmaxPolicy
from note_rl.replay.experience import AgentView, Clock, SequenceExperience
from note_rl.settings import SequenceSettings, Settings, with_train_arguments
from note_rl.settings.set_arguments import settings_from_set
from note_rl.types import Update
from tests.note_rl.replay.story import part, random_story, steps

NUM_STEPS, NUM_ENVS = 4, 3


def made(num_envs=NUM_ENVS, seed=0, **settings):
    chosen = SequenceSettings(**{"num_steps": NUM_STEPS, "capacity": 50, **settings}).for_envs(num_envs)
    return SequenceExperience(chosen, AgentView(gamma=lambda: 0.9), np.random.default_rng(seed))


def blocks(experience, num_gradient_steps=0):
    """The update blocks of a phase, counted as training counts them."""
    clock = Clock(num_env_steps=10**6, num_gradient_steps=num_gradient_steps)
    for block in experience.update_blocks(clock):
        yield block
        clock.num_gradient_steps += block.num_gradient_steps


def check_read_as_it_happened(sample, story, oldest):
    """Each sequence is NUM_STEPS consecutive steps of one environment, none of them older than that number."""
    num_envs = story.ended.shape[1]
    for place in np.ndindex(sample.reward.shape[:2]):
        t, e = divmod(int(sample.action[place][0]), num_envs)
        assert t * num_envs + e >= oldest
        rows = (slice(t, t + NUM_STEPS), e)
        for name in ("obs", "action", "reward", "next_obs", "terminated"):
            np.testing.assert_array_equal(getattr(sample, name)[place], getattr(story, name)[rows], err_msg=name)
        np.testing.assert_array_equal(sample.extras["ended"][place], story.ended[rows])
        np.testing.assert_array_equal(sample.extras["achieved_goal"][place], story.extras["achieved_goal"][rows])
        np.testing.assert_allclose(sample.discount[place], np.where(story.terminated[rows], 0.0, 0.9), rtol=1e-6)


def test_sequences_are_read_as_they_happened_also_over_the_end_of_the_ring():
    story = random_story(np.random.default_rng(1), 40, NUM_ENVS)
    experience = made(batch_size=5)  # 50 slots: no multiple of 3 environments, nor of 4 steps
    for first in range(0, 40, NUM_STEPS):
        experience.store(part(story, first, first + NUM_STEPS))
        newest, *others = blocks(experience)
        stored = (first + NUM_STEPS) * NUM_ENVS
        assert newest.reward.shape == (1, NUM_ENVS, NUM_STEPS)
        np.testing.assert_array_equal(newest.reward[0], story.reward[first : first + NUM_STEPS].T)
        check_read_as_it_happened(newest, story, first * NUM_ENVS)
        for block in others:
            assert block.reward.shape[1:] == (5, NUM_STEPS)
            check_read_as_it_happened(block, story, stored - 50)


def test_every_sequence_of_the_pool_is_equally_likely():
    experience = made(num_envs=1, capacity=12, batch_size=100, replay_ratio=200.0)
    experience.store(steps(0, NUM_STEPS))
    experience.store(steps(NUM_STEPS, 12 - NUM_STEPS))
    beginnings = np.concatenate([block.action[..., 0].ravel() for block in list(blocks(experience))[1:]])
    values, counts = np.unique(beginnings, return_counts=True)
    assert values.tolist() == list(range(9))
    np.testing.assert_allclose(counts / len(beginnings), 1 / 9, atol=0.01)


@pytest.mark.parametrize("ratio", [0.0, 0.5, 4.0])
def test_the_number_of_gradient_steps_is_drawn_anew_each_time(ratio):
    experience = made(replay_ratio=ratio)
    experience.store(steps(0, NUM_STEPS, NUM_ENVS))
    counts = np.array([sum(block.num_gradient_steps for block in blocks(experience)) - 1 for _ in range(1000)])
    assert counts.min() == 0
    assert counts.mean() == pytest.approx(ratio, abs=4 * np.sqrt(ratio / 1000))
    assert counts.var() == pytest.approx(ratio, rel=0.25)  # as of a Poisson distribution


def test_update_blocks_have_few_lengths():
    experience = made(replay_ratio=6.0)
    experience.store(steps(0, NUM_STEPS, NUM_ENVS))
    assert {block.num_gradient_steps for _ in range(100) for block in blocks(experience)} <= {1, 2, 4, 8}


def test_the_pool_waits_for_its_first_steps_and_rollouts_do_not():
    experience = made(learning_starts=100, replay_ratio=50.0)
    experience.store(steps(0, NUM_STEPS, NUM_ENVS))
    (only,) = experience.update_blocks(Clock(num_env_steps=99))
    assert only.num_gradient_steps == 1
    assert len(list(experience.update_blocks(Clock(num_env_steps=100)))) > 1


def test_rollouts_that_were_taken_together_are_learned_from_one_by_one():
    experience = made(replay_ratio=0.0)
    experience.store(steps(0, 2 * NUM_STEPS, NUM_ENVS))
    (block,) = blocks(experience)
    assert block.reward.shape == (2, NUM_ENVS, NUM_STEPS)
    assert block.action[:, 0].tolist() == [[0, 3, 6, 9], [12, 15, 18, 21]]


def test_targets_of_sequences_are_updated_at_an_interval_of_gradient_steps():
    for interval, expected in ((None, [True] * 6), (3, [False, True, False, False, True, False])):
        experience = made(replay_ratio=100.0, target_update_interval=interval)
        experience.store(steps(0, NUM_STEPS, NUM_ENVS))
        sync = np.concatenate([block.sync for block in blocks(experience, num_gradient_steps=1)])
        assert sync[:6].tolist() == expected


def test_an_interrupted_episode_ends_there():
    experience = made(replay_ratio=0.0)
    experience.store(steps(0, NUM_STEPS, NUM_ENVS))
    experience.interrupt()
    (block,) = blocks(experience)
    assert block.extras["ended"][0].tolist() == [[0, 0, 0, 1]] * NUM_ENVS
    assert not block.terminated.any()


def test_images_are_stored_once_and_as_bytes():
    images = np.random.default_rng(0).integers(0, 255, (NUM_STEPS + 1, 1, 8, 8, 1), np.uint8)
    story = part(random_story(np.random.default_rng(0), NUM_STEPS, 1, end_probability=0.0), 0, NUM_STEPS)
    experience = made(num_envs=1, capacity=200, replay_ratio=0.0)
    experience.store(type(story)(images[:-1], story.action, story.reward, images[1:], story.terminated, story.ended))
    (block,) = blocks(experience)
    assert block.obs.dtype == block.next_obs.dtype == np.uint8
    np.testing.assert_array_equal(block.obs[0, 0], images[:-1, 0])
    np.testing.assert_array_equal(block.next_obs[0, 0], images[1:, 0])
    assert experience.buffer.ring.nbytes < 1.5 * 200 * 64


def test_frames_are_put_together_along_sequences():
    images = np.random.default_rng(0).integers(0, 255, (2 * NUM_STEPS + 1, 1, 8, 8, 1), np.uint8)
    story = part(random_story(np.random.default_rng(0), 2 * NUM_STEPS, 1, end_probability=0.0), 0, 2 * NUM_STEPS)
    ended = np.zeros((2 * NUM_STEPS, 1), np.bool_)
    ended[5] = True
    experience = made(num_envs=1, capacity=200, replay_ratio=0.0, frame_stack=2)
    experience.store(type(story)(images[:-1], story.action, story.reward, images[1:], ended, ended))
    (block,) = blocks(experience)
    earlier = [[0, 0], [0, 1], [1, 2], [2, 3]], [[3, 4], [4, 5], [6, 6], [6, 7]]  # step 6 begins an episode
    for sequence, pairs in zip(block.obs[:, 0], earlier, strict=True):
        for stack, (before, now) in zip(sequence, pairs, strict=True):
            np.testing.assert_array_equal(stack, np.concatenate([images[before, 0], images[now, 0]], axis=-1))
    last = block.next_obs[1, 0, 1]  # what was seen last in the first episode
    np.testing.assert_array_equal(last, np.concatenate([images[5, 0], images[6, 0]], axis=-1))


def test_a_pool_goes_on_elsewhere():
    story = random_story(np.random.default_rng(2), 20, NUM_ENVS)
    first, second = made(seed=5), made(seed=5)
    first.store(part(story, 0, 12))
    second.set_state(first.get_state())
    for experience in (first, second):
        experience.store(part(story, 12, 16))
    for one, other in zip(blocks(first), blocks(second), strict=True):
        np.testing.assert_array_equal(one.slots, other.slots)
        np.testing.assert_array_equal(one.obs, other.obs)
        np.testing.assert_array_equal(one.extras["ended"], other.extras["ended"])


def test_nothing_is_kept_of_updates():
    experience = made()
    experience.store(steps(0, NUM_STEPS, NUM_ENVS))
    before = experience.get_state()
    experience.feedback(next(blocks(experience)), Update(np.zeros((1, 1))))
    assert all(np.array_equal(values, before[name]) for name, values in experience.get_state().items())
    assert experience.priorities() is None


def test_settings_are_found_by_their_names_in_set():
    told = {"sequence_length": 7, "pool_size": 70, "batch": 3, "replay_ratio": 1.5, "learning_starts": 9}
    chosen = settings_from_set(policy=SoftmaxPolicy(), sequences=True, HER=False, update_batches=2, **told).experience
    assert chosen == SequenceSettings(
        num_steps=7, capacity=70, batch_size=3, replay_ratio=1.5, learning_starts=9, target_update_interval=2
    )
    assert settings_from_set(policy=SoftmaxPolicy(), sequences=True).experience == SequenceSettings()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sequences": True, "PPO": True}, "PPO=True and sequences=True are two ways of training"),
        ({"sequences": True, "PR": True}, "PR=True does not go with sequences=True"),
        ({"sequences": True, "HER": True}, "HER=.* does not go with sequences=True"),
        ({"sequences": True, "TRL": True}, "TRL=True does not go with sequences=True"),
        ({"sequences": True, "num_steps": 3}, "num_steps=3 does not go with sequences=True"),
        ({"sequences": True, "num_epochs": 3}, "num_epochs=3 does not go with sequences=True"),
        ({"sequences": True, "gae_lambda": 0.9}, "gae_lambda=0.9 does not go with sequences=True"),
        ({"sequences": True, "MARL": True}, "MARL and sequences cannot be combined"),
        ({"sequences": True, "replay_ratio": -1}, "replay_ratio must be .*at least 0, got -1"),
        ({"replay_ratio": 4}, "replay_ratio=4.* add sequences=True"),
        (
            {"sequences": True, "pool_size": 39, "num_envs": 2},
            r"pool_size/capacity=39 is less than one rollout \(20 steps of each of 2 environments\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(SettingsError, match=message):
        settings_from_set(policy=SoftmaxPolicy(), **arguments)


def test_windows_are_for_other_pools():
    with pytest.raises(SettingsError, match="window_size=10 does not go with sequences=True"):
        with_train_arguments(SequenceSettings(), window_size=10)
    assert with_train_arguments(SequenceSettings(), lambda p: 5) == SequenceSettings()


def test_the_pool_is_checked_where_the_number_of_environments_is_known():
    Settings(experience=SequenceSettings(capacity=40), policy=SoftmaxPolicy(), num_envs=2)
    with pytest.raises(SettingsError, match="3 environments"):
        Settings(experience=SequenceSettings(capacity=40), policy=SoftmaxPolicy(), num_envs=3)
