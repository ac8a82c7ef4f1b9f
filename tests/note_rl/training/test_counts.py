"""Counts of an agent: returns, losses and steps of its life."""

import numpy as np
import pytest

from tests.note_rl.small_dqn import BOTH, ONCE, QUIET, dqn, train


@pytest.mark.slow_in_keras
@BOTH
def test_history_of_a_life_and_of_a_restored_one(framework, tmp_path):
    agent = dqn(framework)
    assert (agent.reward_list, agent.loss_list, agent.total_episode, agent.time) == ([], [], 0, 0.0)
    losses = [train(framework, agent, 3), agent.train(episodes=2, **QUIET)]
    expected = [one for result in losses for one in result.losses]
    agent.save(tmp_path / "life")
    other = dqn(framework)
    other.restore(tmp_path / "life")
    for one in (agent, other):
        assert one.reward_list == one.history.returns == [15.0] * 5
        assert one.history.losses == pytest.approx(expected, nan_ok=True)
        assert one.loss_list == pytest.approx(expected, nan_ok=True)  # here each phase is an episode
        assert (one.total_episode, one.step_counter, one.batch_counter) == (5, 25, agent.num_gradient_steps)
        assert one.batch == 4
    assert 0.0 < losses[0].seconds < agent.time <= losses[0].seconds + losses[1].seconds
    assert other.time == agent.time
    other.train(optimizer=framework.optimizers.adam(other.param, 1e-2), episodes=1, **QUIET)
    assert (len(other.loss_list), other.total_episode) == (6, 6)
    assert other.time > agent.time


@ONCE
def test_losses_of_episodes_are_means_of_their_phases(framework, tmp_path):
    """Episodes of 5 steps, phases of 2 or 12: those that end in the same phase share its loss."""
    for train_freq, shares in [(2, [[0, 1, 2], [3, 4], [5, 6, 7], [8, 9]]), (12, [[0], [0], [1], [1]])]:
        agent = dqn(framework, train_freq=train_freq)
        result = agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-2), total_steps=24, **QUIET)
        expected = [np.nanmean([result.losses[phase] for phase in phases]) for phases in shares]
        assert agent.loss_list == pytest.approx(expected)
        assert len(agent.history.losses) == 24 // train_freq
    agent = dqn(framework, train_freq=2)  # restored in the middle of an episode
    result = agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-2), total_steps=8, **QUIET)
    agent.save(tmp_path / "half")
    other = dqn(framework, train_freq=2)
    other.restore(tmp_path / "half")
    rest = other.train(optimizer=framework.optimizers.adam(other.param, 1e-2), total_steps=10, **QUIET)
    assert other.loss_list[1] == pytest.approx(np.mean([result.losses[3], rest.losses[0]]))


@ONCE
def test_an_agent_may_have_attributes_of_these_names(framework):
    agent = dqn(framework)
    agent.time, agent.history, agent.batch = "noon", ["mine"], 3
    train(framework, agent)
    assert (agent.time, agent.history, agent.batch) == ("noon", ["mine"], 3)
    assert len(agent.reward_list) == 3
