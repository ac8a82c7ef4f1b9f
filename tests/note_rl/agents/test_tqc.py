"""TQC: its losses worked out by hand and against NumPy, and what it refuses, in both frameworks."""

import math

import numpy as np
import pytest

from note_rl.errors import SettingsError
from note_rl.settings import GSDE
from note_rl.types import Sample
from tests.note_rl.agents.continuous import CENTRE, SCALE, Target, columns, losses, make, perceptron, ready, sample
from tests.note_rl.agents.test_sac import squashed
from tests.note_rl.agents.test_sac_discrete import give
from tests.note_rl.frameworks import frameworks

pytestmark = pytest.mark.parametrize("framework", frameworks())
ALPHA = 1 / math.log(2 * math.pi)


def by_hand(framework):
    """An agent of 2 critics with 3 quantiles each, one of which is dropped; its networks give the same for all inputs.

    Means and log deviations are 0. Without noise, two normal numbers of that kind have the log-density -log(2 pi), and
    tanh has the slope 1 there: -alpha log pi = 1.
    """
    agent = make(framework, "TQC", alpha=ALPHA, num_quantiles=3, num_dropped_per_critic=1)
    give(framework, agent.actor, [0.0, 0.0, 0.0, 0.0])
    outputs = {"critic_1": [1, 2, 4], "critic_2": [2, 2, 2]}
    targets = {"target_critic_1": [7, 1, 4], "target_critic_2": [2, 3, 10]}
    for name, numbers in {**outputs, **targets}.items():
        give(framework, getattr(agent, name).net, [float(number) for number in numbers])
    return agent


def step(discount=0.5):
    """A gradient step of two equal samples with r = 1/2."""
    zeros = np.zeros((1, 2, 2), np.float32)
    return Sample(
        **{"obs": zeros + 1, "action": zeros + 0.5, "next_obs": zeros + 1, "reward": np.full((1, 2), 0.5, np.float32)},
        terminated=np.zeros((1, 2), np.float32),
        discount=np.full((1, 2), discount, np.float32),
        sync=np.zeros(1, np.bool_),
        extras={"noise": zeros, "next_noise": zeros},
    )


def test_losses_by_hand(framework):
    """Of 1, 2, 3, 4, 7, 10 the largest two are dropped: targets 1/2 + 1/2 (z + 1) are 1.5, 2, 2.5, 3.

    Huber losses of critic 1, whose quantiles stand for tau = 1/6, 1/2, 5/6, are
        1: 0.125, 0.5, 1, 1.5 (from below): mean 0.78125, times 1/6
        2: 0.125 (from above), 0, 0.125, 0.5: mean 0.1875, times 1/2
        4: 2, 1.5, 1, 0.5 (from above): mean 1.25, times 1 - 5/6
    and of critic 2, thrice 2: those of the 2 above, with weights 5/6 and 1/6, 1/2 and 1/2, 1/6 and 5/6.
    """
    first = (0.78125 / 6 + 0.1875 / 2 + 1.25 / 6) / 3
    second = ((5 * 0.125 + 0.625) / 24 + 0.75 / 8 + (0.125 + 5 * 0.625) / 24) / 3
    update = losses(framework, by_hand(framework), step())
    # actor: alpha log pi minus the mean of 1, 2, 4, 2, 2, 2
    np.testing.assert_allclose(update.loss[0], [-1 - 13 / 6, first + second], rtol=1e-5)
    # errors of the means: 2.25 - 7/3 and 2.25 - 2
    np.testing.assert_allclose(update.td_error[0], [(1 / 12 + 1 / 4) / 2] * 2, rtol=1e-5)


def test_where_an_episode_has_ended_the_reward_is_the_target(framework):
    # 1/2 from 1, 2 and 4: Huber losses 0.125, 1 and 3 from above; from 2: 1
    first = (0.125 * 5 / 6 + 1 / 2 + 3 / 6) / 3
    second = (5 / 6 + 1 / 2 + 1 / 6) / 3
    update = losses(framework, by_hand(framework), step(discount=0.0))
    np.testing.assert_allclose(update.loss[0], [-1 - 13 / 6, first + second], rtol=1e-5)


def test_quantiles_move_along_the_gradient_by_hand(framework):
    """Mean slopes of the Huber losses: (0.5 + 1 + 1 + 1) / 4 / 6, (-0.5 + 0 + 0.5 + 1) / 4 / 2, and -1 / 6."""
    agent = by_hand(framework)
    ready(agent, [framework.optimizers.sgd(group, rate) for group, rate in zip(agent.param, (0.0, 0.3), strict=True)])
    agent.learner.update(step(), {})
    bias = agent.critic_1.net.dense_layers()[-1][1]
    np.testing.assert_allclose(bias, [1 + 0.1 * 3.5 / 24, 2 + 0.1 / 8, 4 - 0.1 / 6], rtol=1e-5)


def quantiles(critic, s, a):
    return perceptron(critic.net.dense_layers(), np.concatenate([s, (a - CENTRE) / SCALE], axis=1))  # [B, M]


def quantile_loss(found, target):
    """Of one sample and one critic, in loops."""
    total = 0.0
    for index, quantile in enumerate(found):
        tau = (index + 0.5) / len(found)
        for wanted in target:
            u = wanted - quantile
            huber = 0.5 * u**2 if abs(u) <= 1 else abs(u) - 0.5
            total += abs(tau - (u < 0)) * huber
    return total / (len(found) * len(target))


@pytest.mark.parametrize("dropped", [0, 2])
def test_losses_against_numpy(framework, dropped):
    agent = make(framework, "TQC", alpha=0.3, num_critics=3, num_quantiles=5, num_dropped_per_critic=dropped)
    batch = sample(agent)
    s, a, r, next_s, discount = columns(batch)
    next_a, next_log_prob = squashed(agent, next_s, batch.extras["next_noise"][0])
    pooled = np.concatenate([quantiles(critic, next_s, next_a) for critic in agent.target_critics()], axis=1)
    kept = np.sort(pooled, axis=1)[:, : 15 - 3 * dropped]
    target = r[:, None] + discount[:, None] * (kept - 0.3 * next_log_prob[:, None])
    found = [quantiles(critic, s, a) for critic in agent.critics()]
    critic_loss = [sum(quantile_loss(one[row], target[row]) for one in found) for row in range(len(s))]
    new_a, log_prob = squashed(agent, s, batch.extras["noise"][0])
    new_q = np.concatenate([quantiles(critic, s, new_a) for critic in agent.critics()], axis=1).mean(1)
    update = losses(framework, agent, batch)
    np.testing.assert_allclose(update.loss[0], [(0.3 * log_prob - new_q).mean(), np.mean(critic_loss)], rtol=1e-4)
    errors = [np.abs(target.mean(1) - one.mean(1)) for one in found]
    np.testing.assert_allclose(update.td_error[0], np.mean(errors, axis=0), rtol=1e-4, atol=1e-6)
    assert len(agent.param[1]) == 3 * 4


def test_alpha_is_learned_as_by_sac(framework):
    agent = make(framework, "TQC", target_entropy=50.0)
    batch = sample(agent)
    _, log_prob = squashed(agent, batch.obs[0], batch.extras["noise"][0])
    ready(agent, framework.optimizers.sgd(agent.param, 0.01)).update(batch, {})
    assert framework.array(agent.log_alpha)[0] == pytest.approx(0.01 * (log_prob.mean() + 50.0), rel=1e-4)


def test_parts_of_sac_go_with_it(framework):
    """Deviations that depend on the state are learned, critics drop units, and are normalised."""
    options = {"gsde": GSDE(), "critic_dropout": 0.5, "critic_layer_norm": True, "num_quantiles": 4}
    agent = make(framework, "TQC", **options)
    assert len(agent.param[1]) == 2 * 6  # two dense layers, a scale and an offset
    batch = sample(agent)
    first, again = (losses(framework, agent, batch).loss[0][1] for _ in range(2))
    assert abs(first - again) > 1e-4
    before = framework.array(agent.log_std)
    ready(agent, [framework.optimizers.sgd(group, 0.1) for group in agent.param]).update(batch, {})
    assert np.abs(framework.array(agent.log_std) - before).max() > 1e-5


def test_settings_that_cannot_be_are_refused(framework):
    kind = framework.agents.TQC
    with pytest.raises(SettingsError, match="num_dropped_per_critic must be below num_quantiles, 5, got 5"):
        kind(env=Target, num_quantiles=5, num_dropped_per_critic=5)
    with pytest.raises(SettingsError, match="num_target_critics"):
        kind(env=Target, num_target_critics=2)
