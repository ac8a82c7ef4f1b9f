"""Reported losses of groups that learn only in some steps: those of the steps in which they learned."""

import math

import numpy as np
import pytest

from note_rl.learners.base import parameter_groups
from note_rl.learners.reports import mean_losses
from note_rl.noise import GaussianWhiteNoiseProcess
from note_rl.seeding import seed_everything
from note_rl.training.callbacks import LambdaCallback
from note_rl.types import Update
from tests.note_rl.frameworks import frameworks
from tests.note_rl.samples import ready, sample

NAN = math.nan
REPLAY = {"learning_starts": 8, "train_freq": 1, "num_updates": 1}
in_both = pytest.mark.parametrize("framework", frameworks())


def delayed_actor(framework):
    """Its first group learns at a sync by 3 a b, its second in every step by 5 a b, where a = b = 1 at first."""

    class Agent(framework.base()):
        groups_at_sync = (0,)

        def __init__(self):
            super().__init__()
            self.first, self.second = framework.variable([1.0]), framework.variable([1.0])
            self.param = [[self.first], [self.second]]

        def action(self, s):
            return s

        def __call__(self, s, a, next_s, r, d):
            product = (self.first * self.second)[0]
            return [3.0 * product, 5.0 * product]

        def update_param(self):
            pass

    return Agent()


def by_hand(sync, a=1.0, b=1.0, rate=0.1):
    """Losses of plain gradient descent, [K, 2]."""
    told = []
    for synced in sync:
        told.append([3.0 * a * b if synced else NAN, 5.0 * a * b])
        a, b = (a - rate * 3.0 * b if synced else a), b - rate * 5.0 * a
    return np.array(told)


@in_both
@pytest.mark.parametrize("num_optimizers", [1, 2])
def test_losses_are_those_of_the_groups_that_learned(framework, num_optimizers):
    agent, sync, descent = delayed_actor(framework), [False, True, True, False], framework.optimizers.sgd
    optimizers = [descent(group, 0.1) for group in agent.param] if num_optimizers == 2 else descent(agent.param, 0.1)
    learner = ready(framework, agent, optimizers)
    expected = by_hand([*sync, False, False])
    first, waits = learner.update(sample(4, sync=sync), {}), learner.update(sample(2), {})
    np.testing.assert_allclose(first.loss, expected[:4], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(waits.loss, expected[4:], rtol=1e-5)
    assert mean_losses([first, waits]) == pytest.approx([np.nanmean(expected[:, 0]), expected[:, 1].mean()], rel=1e-5)
    assert mean_losses([waits]) == pytest.approx([NAN, expected[4:, 1].mean()], rel=1e-5, nan_ok=True)


@in_both
def test_a_single_loss_is_that_of_all_groups(framework):
    agent = delayed_actor(framework)
    several = type(agent).__call__
    type(agent).__call__ = lambda self, *minibatch: several(self, *minibatch)[1]
    update = ready(framework, agent).update(sample(1), {})
    assert update.loss.sum() == pytest.approx(5.0)
    assert framework.array(agent.first)[0] == framework.array(agent.second)[0] == pytest.approx(0.5)


@in_both
def test_a_loss_that_is_not_finite_counts_only_where_its_group_learns(framework):
    agent = delayed_actor(framework)
    several = type(agent).__call__
    type(agent).__call__ = lambda self, *minibatch: [several(self, *minibatch)[0] * NAN, several(self, *minibatch)[1]]
    learner = ready(framework, agent)
    assert not learner.update(sample(1), {}).diverged
    assert learner.update(sample(1, sync=True), {}).diverged


def test_phases_weigh_by_the_steps_in_which_a_group_learned():
    updates = [Update(np.array([[1.0, 2.0], [NAN, 4.0]], np.float32)), Update(np.array([[4.0, 6.0]], np.float32))]
    assert mean_losses(updates) == [2.5, 4.0]


@pytest.mark.slow_in_keras
@in_both
def test_what_a_phase_reports(framework):
    seed_everything(0)
    agent = framework.agents.TD3(hidden_size=(4,), env="Pendulum-v1")
    agent.set(seed=0, pool_size=100, batch=4, noise=GaussianWhiteNoiseProcess(sigma=0.1), **REPLAY)
    phases, steps, episodes = [], [], []
    watch = LambdaCallback(
        on_phase_end=lambda phase, logs: phases.append((logs["loss"], dict(agent.reported))),
        on_batch_end=lambda batch, logs: steps.append(logs["loss"]),
        on_episode_end=lambda episode, logs: episodes.append(logs["loss"]),
    )
    optimizers = [framework.optimizers.adam(group, 1e-3) for group in parameter_groups(agent.param)]
    result = agent.train(optimizer=optimizers, total_steps=204, callbacks=[watch], p=0, jit_compile=False)
    learned = [(loss, told) for loss, told in phases if "loss:1" in told]
    assert len(steps) == len(learned) > 100
    assert np.isfinite(steps).all()
    assert np.isfinite(episodes).all(), "that of the last phase that has one"
    for step, (loss, told) in zip(steps, learned, strict=True):
        if "loss:0" in told:
            assert loss == pytest.approx(told["loss:0"] + told["loss:1"])
        else:
            assert math.isnan(loss)
        assert step == pytest.approx(told.get("loss:0", 0.0) + told["loss:1"])
    assert sum("loss:0" in told for _, told in learned) == len(learned) // 2
    assert all(math.isfinite(value) for _, told in learned for value in told.values())
    np.testing.assert_array_equal(result.losses, [loss for loss, _ in phases])
