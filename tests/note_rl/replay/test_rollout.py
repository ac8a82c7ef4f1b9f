from dataclasses import replace

import numpy as np
import pytest

from note_rl.replay.frame_ring import FrameRing
from note_rl.replay.rollout import Rollout, RolloutScores
from note_rl.settings.replay_choices import RolloutPriority
from note_rl.types import Steps
from tests.note_rl.replay.story import steps


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


@pytest.mark.parametrize(("at_once", "sizes"), [(1024, [8]), (3, [6, 2])])
def test_the_values_before_and_after_each_step_are_asked_for_together(monkeypatch, at_once, sizes):
    monkeypatch.setattr("note_rl.replay.rollout._STACKS_AT_ONCE", at_once)
    frames = FrameRing(4, num_frames=2)
    taken = steps(0, 4)  # of which frame t is t, and the last one 3.5
    frames.add(taken)
    asked = []

    def value(obs):
        asked.append(len(obs))
        return 10.0 * obs[:, -1].astype(float)  # of the newest frame

    rollout = Rollout(taken, 0.5, frames)
    rollout.add_advantages(value, gae_lambda=0.0, standardised=False)
    assert asked == sizes
    sample = rollout.gather(np.arange(4)[None], np.zeros(1, bool))
    np.testing.assert_allclose(sample.extras["value_old"], [[0.0, 10.0, 20.0, 30.0]])
    # reward + .5 * V(next frame) - V(frame): 0 + 5 - 0, 1 + 10 - 10, 2 + 15 - 20, 3 + 17.5 - 30
    np.testing.assert_allclose(sample.extras["advantage"], [[5.0, 1.0, -3.0, -9.5]])


def test_the_future_of_a_task_that_is_over_counts_for_nothing():
    taken = replace(steps(0, 3), terminated=np.array([[False], [True], [False]]), ended=np.ones((3, 1), bool))
    sample = Rollout(taken, gamma=0.5).gather(np.array([[0, 1, 2]]), np.zeros(1, bool))
    assert sample.discount.tolist() == [[0.5, 0.0, 0.5]]  # the last one ended by a limit of time


def test_another_reward_goes_into_the_advantages():
    rollout = Rollout(steps(0, 2), gamma=0.5)
    rollout.replace_reward(lambda obs, action, next_obs: 10.0 * action + obs[:, 0] + next_obs[:, 0])
    rollout.add_advantages(lambda obs: 0.0 * obs[:, 0], gae_lambda=0.0, standardised=False)
    sample = rollout.gather(np.array([[0, 1]]), np.zeros(1, bool))
    np.testing.assert_allclose(sample.reward, [[0.5, 12.5]])
    np.testing.assert_allclose(sample.extras["advantage"], [[0.5, 12.5]])


def test_advantages_of_each_minibatch_have_mean_0_and_deviation_1_if_asked_for():
    """Rewards are the advantages here; of 1 and 3 the sample deviation is sqrt(2)."""
    rollout = Rollout(steps(0, 5), gamma=0.5)
    rollout.replace_reward(lambda obs, action, next_obs: np.array([1.0, 3.0, 5.0, 5.0, 9.0]))
    rollout.add_advantages(lambda obs: 0.0 * obs[:, 0], gae_lambda=0.0, standardised="minibatch")
    no_sync = np.zeros(2, bool)
    found = rollout.gather(np.array([[0, 1], [2, 4]]), no_sync).extras["advantage"]
    np.testing.assert_allclose(found, np.array([[-1, 1], [-1, 1]]) / np.sqrt(2), rtol=1e-6)
    np.testing.assert_allclose(rollout.gather(np.array([[2, 3]]), no_sync[:1]).extras["advantage"], [[0.0, 0.0]])
    single = rollout.gather(np.array([[0], [4]]), no_sync).extras["advantage"]
    np.testing.assert_allclose(single, [[1.0], [9.0]])


def test_frames_are_read_as_stacks_over_the_beginning_of_a_rollout():
    frames = FrameRing(4, num_frames=3)
    for first in (0, 4):
        taken = steps(first, 4)
        frames.add(taken)
    sample = Rollout(taken, 0.9, frames).gather(np.array([[0, 1, 3]]), np.zeros(1, bool))
    assert sample.obs.tolist() == [[[2, 3, 4], [3, 4, 5], [5, 6, 7]]]
    assert sample.next_obs.tolist() == [[[3, 4, 5], [4, 5, 6], [6, 7, 7.5]]]


def test_scores_by_hand():
    scores = RolloutScores(RolloutPriority(lambda_=0.25, initial_td=4.0, initial_ratio=3.0, epsilon=1e-9), 3)
    np.testing.assert_allclose(scores.scores, 0.25 * 4.0 + 0.75 * 2.0)
    scores.update(np.array([0, 2]), np.array([-2.0, 1.0]), np.array([0.5, 1.0]))
    np.testing.assert_allclose(scores.scores, [0.25 * 2.0 + 0.75 * 0.5, 2.5, 0.25], rtol=1e-6)
    scores.update(np.array([0]), np.array([0.0]), None)
    np.testing.assert_allclose(scores.scores[0], 0.75 * 0.5, rtol=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_minibatches_are_drawn_in_proportion_to_the_power_of_the_score(alpha):
    scores = RolloutScores(RolloutPriority(lambda_=1.0, alpha=alpha), 4)
    scores.update(np.arange(4), np.array([0.0, 1.0, 2.0, 5.0]), None)
    drawn = scores.draw((200, 400), np.random.default_rng(0))
    expected = np.array([1e-6, 1.0, 2.0, 5.0]) ** alpha
    np.testing.assert_allclose(
        np.bincount(drawn.ravel(), minlength=4) / drawn.size, expected / expected.sum(), atol=3e-3
    )


def test_a_window_keeps_the_highest_scores():
    scores = RolloutScores(RolloutPriority(lambda_=1.0), 5)
    scores.update(np.arange(5), np.array([1.0, 5.0, 2.0, 4.0, 3.0]), None)
    scores.keep_highest(2)
    assert set(scores.draw((50, 4), np.random.default_rng(0)).ravel().tolist()) == {1, 3}
