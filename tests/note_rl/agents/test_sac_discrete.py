"""SAC for discrete actions: its losses worked out by hand, and the entropy that it aims at, in both frameworks."""

import math

import numpy as np
import pytest

from note_rl.errors import SettingsError
from note_rl.policy import SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.types import ACTION_MASK, NEXT_ACTION_MASK, Sample
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting

pytestmark = pytest.mark.parametrize("framework", frameworks())


def made(framework, **options):
    seed_everything(0)
    return framework.agents.SACDiscrete(state_dim=3, hidden_size=(4,), action_dim=2, **options)


def give(framework, network, outputs):
    """Has a network give the same outputs for all observations."""
    last = network.output_layer
    if framework.package == "pytorch":
        import torch

        with torch.no_grad():
            last.weight.zero_()
            last.bias.copy_(torch.tensor(outputs))
    else:
        last.kernel.assign(np.zeros(last.kernel.shape, np.float32))
        last.bias.assign(outputs)


def by_hand(framework, **options):
    """An agent with pi = (0.8, 0.2), Q = (1, 3) and (2, 2), in targets (10, 20) and (12, 16)."""
    agent = made(framework, **options)
    give(framework, agent.actor, [math.log(0.8), math.log(0.2)])
    for name, outputs in (("1", [1.0, 3.0]), ("2", [2.0, 2.0])):
        give(framework, getattr(agent, f"critic_{name}"), outputs)
    for name, outputs in (("1", [10.0, 20.0]), ("2", [12.0, 16.0])):
        give(framework, getattr(agent, f"target_critic_{name}"), outputs)
    return agent


def step(action=1, discount=0.9, **masks):
    """One gradient step of two equal samples with r = 1."""
    return Sample(
        obs=np.ones((1, 2, 3), np.float32),
        action=np.full((1, 2), action),
        reward=np.ones((1, 2), np.float32),
        next_obs=np.ones((1, 2, 3), np.float32),
        terminated=np.zeros((1, 2), np.float32),
        discount=np.full((1, 2), discount, np.float32),
        sync=np.zeros(1, np.bool_),
        extras={name: np.tile(np.array(values, np.float32), (1, 2, 1)) for name, values in masks.items()},
    )


def taken(framework, agent, batch, rate=0.0):
    agent.learner.prepare([framework.optimizers.sgd(group, rate) for group in agent.param], None, (), False)
    return agent.learner.update(batch, {})


def test_losses_by_hand(framework):
    update = taken(framework, by_hand(framework, initial_alpha=0.5), step())
    # V(s') = 0.8 (10 - 0.5 log 0.8) + 0.2 (16 - 0.5 log 0.2) = 11.45020; target = 1 + 0.9 V = 11.30518
    # critics: (3 - 11.30518)^2 + (2 - 11.30518)^2; actor: 0.8 (0.5 log 0.8 - 1) + 0.2 (0.5 log 0.2 - 2)
    # alpha: log 0.5 (H - 0.3 log 2), H = 0.50040
    np.testing.assert_allclose(update.loss[0], [-1.4502012, 155.5624284, -0.2027166], rtol=1e-5)
    np.testing.assert_allclose(update.td_error[0], [8.8051811, 8.8051811], rtol=1e-5)
    fixed = taken(framework, by_hand(framework, alpha=0.5), step())
    np.testing.assert_allclose(fixed.loss[0], [-1.4502012, 155.5624284], rtol=1e-5)
    moved = by_hand(framework, alpha=0.2)
    moved.alpha = 0.5
    np.testing.assert_allclose(taken(framework, moved, step()).loss[0], fixed.loss[0], rtol=1e-6)
    # where the episode has ended: target = 1
    ended = taken(framework, by_hand(framework, alpha=0.5), step(discount=0.0))
    np.testing.assert_allclose(ended.loss[0], [-1.4502012, 2.0**2 + 1.0**2], rtol=1e-5)


def test_actions_that_are_not_allowed_count_for_nothing(framework):
    """In s' the second action alone is allowed, in s the first: both policies are sure, and no entropy is wanted."""
    masks = {ACTION_MASK: [1.0, 0.0], NEXT_ACTION_MASK: [0.0, 1.0]}
    update = taken(framework, by_hand(framework, initial_alpha=0.5), step(action=0, **masks))
    # V(s') = 16, target = 1 + 0.9 * 16 = 15.4; critics: (1 - 15.4)^2 + (2 - 15.4)^2; actor: -1
    np.testing.assert_allclose(update.loss[0], [-1.0, 14.4**2 + 13.4**2, 0.0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("ratio", "sign"), [(0.3, -1.0), (0.98, 1.0)])
def test_alpha_falls_where_the_policy_is_more_random_than_wanted(framework, ratio, sign):
    """H = 0.50040 is 0.72 of log 2; log alpha moves against its gradient, H - ratio * log 2."""
    agent = by_hand(framework, target_entropy_ratio=ratio)
    taken(framework, agent, step(), rate=0.1)
    moved = framework.array(agent.log_alpha)[0]
    assert moved == pytest.approx(0.1 * (ratio * math.log(2) - 0.5004024), rel=1e-4)
    assert np.sign(moved) == sign


def test_the_actors_loss_never_trains_a_critic(framework):
    agent = by_hand(framework)
    agent.learner.prepare(
        [framework.optimizers.sgd(g, rate) for g, rate in zip(agent.param, (0.5, 0.0, 0.0), strict=True)],
        None,
        (),
        False,
    )
    before = [framework.array(one) for one in agent.param[1]]
    actor = [framework.array(one) for one in agent.param[0]]
    agent.learner.update(step(), {})
    for one, former in zip(agent.param[1], before, strict=True):
        np.testing.assert_array_equal(framework.array(one), former)
    assert any((framework.array(one) != former).any() for one, former in zip(agent.param[0], actor, strict=True))


def test_it_acts_in_numpy_by_probabilities(framework):
    agent = made(framework)
    obs = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    answers = agent.learner.act(obs)
    assert agent.learner.actor.is_mirrored()
    np.testing.assert_allclose(answers, agent.learner._framework_act(obs), rtol=1e-5)
    np.testing.assert_allclose(answers.sum(1), 1.0, rtol=1e-5)
    assert isinstance(agent.default_policy(), SoftmaxPolicy)


def test_bad_ratios_are_refused(framework):
    with pytest.raises(SettingsError, match=r"target_entropy_ratio must lie between 0 and 1, got 1\.5"):
        framework.agents.SACDiscrete(env=Counting, target_entropy_ratio=1.5)
