"""Where a step cannot be recorded the eager way takes it, as if nothing had been tried."""

import ctypes
import logging

import numpy as np
import pytest

from tests.note_rl.learners.step_graph.recorded_agents import Custom, assert_same_state, learner_of, minibatches


def test_a_loss_that_changes_its_argument_learns_from_the_true_rewards():
    def loss(agent, s, r):
        r.mul_(0.5)
        return (s @ agent.w - r).square()

    samples = [minibatches(), minibatches()]
    learners = [learner_of(Custom(loss), jit) for jit in (False, "auto")]
    for learner, sample in zip(learners, samples, strict=True):
        learner.update(sample, {})
    assert_same_state(*learners, rtol=0)
    np.testing.assert_array_equal(samples[1].reward, 0.5 * minibatches().reward)
    np.testing.assert_array_equal(samples[0].reward, samples[1].reward)


def counting(agent, s, r):
    agent.count += 1
    return agent.count * (s @ agent.w - r).square()


def through_numpy(agent, s, r):
    scale = float(r.square().sum().numpy())  # frozen by a recording, which shows on other minibatches only
    return scale * (s @ agent.w - r).square()


def differently(agent, s, r):
    scale = ctypes.c_float.from_address(r.data_ptr()).value  # past all that tells of reading
    return scale * (s @ agent.w - r).square()


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        (lambda agent, s, r: (s @ agent.w - r).square() * r.abs().max().item(), "get value out of a tracing tensor"),
        (
            lambda agent, s, r: (s @ agent.w).abs() if float(agent.w.detach().sum()) > 0 else s @ agent.w,
            "get value out",
        ),
        (counting, "sets self.count"),
        (through_numpy, "reads numbers out of a tensor, by .numpy()"),
        (differently, "other numbers"),
    ],
)
def test_what_cannot_be_recorded_runs_eagerly_after_one_warning(loss, reason, caplog):
    learners = [learner_of(Custom(loss), jit) for jit in (False, "auto")]
    with caplog.at_level(logging.WARNING):
        for seed in range(2):
            losses = [one.update(minibatches(seed=seed), {}).loss for one in learners]
            np.testing.assert_array_equal(*losses)
    assert len(caplog.records) == 1
    assert reason in caplog.text
    assert_same_state(*learners, rtol=0)
