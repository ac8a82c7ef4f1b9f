"""Learning from a rollout: minibatches, target updates, windows and priorities."""

import numpy as np
import pytest

from note_rl.replay.experience import AgentView, Clock
from note_rl.settings import RolloutPriority
from note_rl.settings.demonstrations import Demonstrations
from tests.note_rl.replay.experience.experiences import learned, rollout, update_with
from tests.note_rl.replay.story import steps


def test_rollout_is_forgotten_after_training():
    experience = rollout(num_steps=4, batch_size=2, num_epochs=2)
    assert experience.phase_length(8, remaining=1) == 4
    experience.store(steps(0, 4))
    (sample,) = experience.update_blocks(Clock())
    assert sample.reward.shape == (4, 2)
    assert "advantage" not in sample.extras
    with pytest.raises(AssertionError):
        list(experience.update_blocks(Clock()))


def test_the_learned_reward_of_a_rollout_goes_into_its_advantages():
    view = AgentView(reward=learned, value=lambda obs: 0.0 * obs[:, 0], standardise_advantage=False)
    experts = Demonstrations(np.zeros((2, 1), np.float32), np.zeros(2, np.int64))
    experience = rollout(view, num_steps=4, batch_size=4, num_epochs=1, learned_reward=True, expert=experts)
    experience.store(steps(0, 4, ended=(0, 1, 2, 3)))
    (sample,) = experience.update_blocks(Clock())
    np.testing.assert_allclose(sample.extras["advantage"], 111.0 * sample.action + 5.0)
    assert sample.extras["expert_obs"].shape == (1, 4, 1)


def test_a_rollout_updates_targets_at_an_interval_of_gradient_steps_if_one_is_given():
    experience = rollout(num_steps=8, batch_size=2, num_epochs=2, target_update_interval=3)
    experience.store(steps(0, 8))
    (sample,) = experience.update_blocks(Clock(num_gradient_steps=1))
    assert np.flatnonzero(sample.sync).tolist() == [1, 4, 7]


def test_a_rollout_of_large_observations_comes_in_several_blocks_of_the_same_minibatches(monkeypatch):
    def blocks():
        experience = rollout(num_steps=8, batch_size=2, num_epochs=2, target_update_interval=3)
        experience.store(steps(0, 8))
        return list(experience.update_blocks(Clock(num_gradient_steps=1)))

    (whole,) = blocks()
    per_transition = whole.obs[0, 0].nbytes + whole.next_obs[0, 0].nbytes
    monkeypatch.setattr("note_rl.replay.experience.rollout_experience.MAX_BLOCK_BYTES", 3 * 2 * per_transition)
    several = blocks()
    assert len(several) == 3
    assert max(one.num_gradient_steps for one in several) == 3
    for name in ("obs", "reward", "sync"):
        np.testing.assert_array_equal(np.concatenate([getattr(one, name) for one in several]), getattr(whole, name))


def kept_by_a_window(window, **settings):
    """The update blocks as drawn, and the scores in the end, from which the window takes the highest."""
    priority = RolloutPriority(lambda_=1.0, alpha=1.0, initial_td=1.0)
    experience = rollout(num_steps=64, batch_size=8, num_epochs=3, priority=priority, window=window, **settings)
    experience.store(steps(0, 64))
    error = np.random.default_rng(1).permutation(64) + 1.0
    known = np.ones(64)
    drawn = []
    for sample in experience.update_blocks(Clock()):
        td_error = error[sample.slots]
        experience.feedback(sample, update_with(sample, td_error))
        drawn.append(sample)
        known[sample.slots] = td_error
    return drawn, known


@pytest.mark.parametrize("window", [20, lambda: 20, lambda p: 20])
def test_a_window_leaves_the_highest_scores_to_the_epochs_that_follow(window):
    drawn, _ = kept_by_a_window(window)
    assert [sample.num_gradient_steps for sample in drawn] == [8, 8, 8]
    assert [int(sample.sync.sum()) for sample in drawn] == [0, 0, 1]  # targets still wait for the end
    error = np.random.default_rng(1).permutation(64) + 1.0
    known = np.ones(64)
    known[drawn[0].slots] = error[drawn[0].slots]
    kept = set(np.argsort(known)[-20:].tolist())
    assert len(set(drawn[0].slots.ravel().tolist())) > 30
    for sample in drawn[1:]:
        assert set(sample.slots.ravel().tolist()) <= kept
    assert set(np.concatenate([sample.slots.ravel() for sample in drawn[1:]]).tolist()) == kept


def test_a_window_is_applied_at_every_target_update():
    drawn, _ = kept_by_a_window(16, target_update_interval=5)
    assert [sample.num_gradient_steps for sample in drawn] == [5, 5, 5, 5, 4]
    error = np.random.default_rng(1).permutation(64) + 1.0
    known, live = np.ones(64), np.arange(64)
    for number, sample in enumerate(drawn):
        assert set(sample.slots.ravel().tolist()) <= set(live.tolist())
        assert sample.sync.tolist() == [False] * 4 + [True] if number < 4 else not sample.sync.any()
        known[sample.slots] = error[sample.slots]
        live = live[np.argsort(known[live], kind="stable")[-16:]] if number == 0 else live
    assert len(live) == 16


def test_a_window_keeps_a_minibatch_at_least():
    drawn, _ = kept_by_a_window(1)
    assert len(set(drawn[-1].slots.ravel().tolist())) == 8


def test_without_a_window_every_epoch_draws_from_the_whole_rollout():
    drawn, _ = kept_by_a_window(None)
    assert len(set(np.concatenate([sample.slots.ravel() for sample in drawn[1:]]).tolist())) > 20


def test_the_ratio_reaches_the_scores_of_a_rollout():
    """With lambda 0 only the ratio counts: transition 5 is the one whose probability has changed."""
    priority = RolloutPriority(lambda_=0.0, alpha=1.0, initial_ratio=2.0)
    experience = rollout(num_steps=16, batch_size=16, num_epochs=32, priority=priority)
    experience.store(steps(0, 16))
    for sample in experience.update_blocks(Clock()):
        ratio = np.where(sample.slots == 5, 3.0, 1.0)
        experience.feedback(sample, update_with(sample, np.full(sample.slots.shape, 4.0), ratio))
    assert (sample.slots == 5).mean() > 0.99


def test_prioritized_minibatches_follow_the_scores_within_a_rollout():
    priority = RolloutPriority(lambda_=1.0, alpha=1.0)
    experience = rollout(num_steps=16, batch_size=8, num_epochs=8, priority=priority)
    experience.store(steps(0, 16))
    lengths, last = [], None
    for sample in experience.update_blocks(Clock()):
        lengths.append(sample.num_gradient_steps)
        experience.feedback(sample, update_with(sample, np.where(sample.action == 3, 50.0, 1e-6), np.ones((8, 8))))
        last = sample
    assert lengths == [8, 8]
    assert (last.action == 3).mean() > 0.95
    with pytest.raises(AssertionError):
        next(experience.update_blocks(Clock()))
