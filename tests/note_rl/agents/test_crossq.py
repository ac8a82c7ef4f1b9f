"""CrossQ: its losses against NumPy, what its statistics follow, and what it refuses, in both frameworks."""

from functools import partial

import numpy as np
import pytest

from note_rl.errors import SettingsError
from tests.note_rl.agents.continuous import CENTRE, SCALE, Target, columns, losses, make, ready, sample
from tests.note_rl.frameworks import frameworks

pytestmark = pytest.mark.parametrize("framework", frameworks())
EPSILON = 1e-3


class Perceptron:
    """The same network in NumPy: normalisations and dense layers in turn, the last one linear."""

    def __init__(self, framework, network):
        self.norms, self.dense = [], []
        of_torch = framework.package == "pytorch"
        norm = ("running_mean", "running_var", "weight", "bias")
        if not of_torch:
            norm = ("moving_mean", "moving_variance", "gamma", "beta")
        for layer in (*network.trunk, *network.head) if of_torch else (*network.trunk.layers, *network.head.layers):
            if hasattr(layer, norm[0]):
                self.norms.append([framework.array(getattr(layer, name)) for name in norm])
            elif hasattr(layer, "weight"):
                self.dense.append((framework.array(layer.weight).T, framework.array(layer.bias)))
            elif hasattr(layer, "kernel"):
                self.dense.append((framework.array(layer.kernel), framework.array(layer.bias)))

    def __call__(self, x, training=False):
        for index, ((kernel, bias), norm) in enumerate(zip(self.dense, self.norms, strict=True)):
            mean, variance, scale, offset = norm
            if training:
                mean, variance = x.mean(0), x.var(0)
                norm[:2] = 0.99 * norm[0] + 0.01 * mean, 0.99 * norm[1] + 0.01 * variance
            x = ((x - mean) / np.sqrt(variance + EPSILON) * scale + offset) @ kernel + bias
            if index < len(self.dense) - 1:
                x = np.maximum(x, 0)
        return x


def small(framework, **options):
    return make(framework, "CrossQ", critic_hidden_size=(8,), **options)


def moved(framework, **options):
    """An agent whose running statistics are not those of the beginning."""
    agent = small(framework, **options)
    learner = ready(agent, [framework.optimizers.sgd(group, 0.01) for group in agent.param])
    learner.update(sample(agent, 2, sync=True), {})
    return agent


def joined(s, a):
    return np.concatenate([s, (a - CENTRE) / SCALE], axis=1)


def squashed(mean_and_log_std, noise):
    mean, log_std = np.split(mean_and_log_std, 2, axis=1)
    u = mean + np.exp(log_std) * noise
    log_normal = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi)
    return CENTRE + SCALE * np.tanh(u), (log_normal - np.log(1 - np.tanh(u) ** 2)).sum(1)


def temporal_differences(actor, critics, batch):
    """Of each critic [B], with alpha = 0.3; the running statistics of the critics follow."""
    s, a, r, next_s, discount = columns(batch)
    next_a, next_log_prob = squashed(actor(next_s), batch.extras["next_noise"][0])
    both = np.concatenate([joined(s, a), joined(next_s, next_a)])
    halves = [np.split(critic(both, training=True)[:, 0], 2) for critic in critics]  # statistics of both together
    target = r + discount * (np.minimum(halves[0][1], halves[1][1]) - 0.3 * next_log_prob)
    return [q - target for q, _ in halves]


def test_crossq_losses(framework):
    agent = moved(framework, alpha=0.3)
    actor = Perceptron(framework, agent.actor)
    critics = [Perceptron(framework, critic.net) for critic in agent.critics()]
    assert np.abs(actor.norms[0][0]).max() > 1e-3
    batch = sample(agent, seed=9, sync=True)
    errors = temporal_differences(actor, critics, batch)
    s = batch.obs[0]
    new_a, log_prob = squashed(actor(s, training=True), batch.extras["noise"][0])
    new_q = np.minimum(*(critic(joined(s, new_a))[:, 0] for critic in critics))  # by what they have become
    expected = [(0.3 * log_prob - new_q).mean(), (errors[0] ** 2 + errors[1] ** 2).mean()]
    update = losses(framework, agent, batch)
    np.testing.assert_allclose(update.loss[0], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(update.td_error[0], np.abs(errors).mean(0), rtol=1e-4, atol=1e-5)
    for network, copy in (
        (agent.actor, actor),
        *((c.net, copy) for c, copy in zip(agent.critics(), critics, strict=True)),
    ):
        for mine, theirs in zip(Perceptron(framework, network).norms, copy.norms, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)


def test_targets_have_no_gradient(framework):
    """A last bias b of a critic is in both halves; d(q - target)^2/db = 2 (q - target) if the target is a constant."""
    agent = moved(framework, alpha=0.3)
    actor, *critics = (Perceptron(framework, one) for one in (agent.actor, *(critic.net for critic in agent.critics())))
    batch = sample(agent, seed=9)
    assert batch.discount.max() > 0.5
    errors = temporal_differences(actor, critics, batch)
    ready(agent, [framework.optimizers.sgd(group, 0.1) for group in agent.param]).update(batch, {})
    for critic, former, error in zip(agent.critics(), critics, errors, strict=True):
        bias = Perceptron(framework, critic.net).dense[-1][1]
        np.testing.assert_allclose(bias, former.dense[-1][1] - 0.1 * 2 * error.mean(), rtol=1e-4, atol=1e-5)


def test_it_acts_in_numpy_by_running_statistics_that_acting_leaves_alone(framework):
    agent = moved(framework)
    before = agent.learner.get_state()
    obs = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    answers = agent.learner.act(obs)
    assert agent.learner.actor.is_mirrored()
    np.testing.assert_allclose(answers, agent.learner._framework_act(obs), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(answers, Perceptron(framework, agent.actor)(obs), rtol=1e-4, atol=1e-5)
    for name, values in agent.learner.get_state().items():
        np.testing.assert_array_equal(values, before[name])
    ready(agent, [framework.optimizers.sgd(group, 0.01) for group in agent.param]).update(sample(agent, 3), {})
    np.testing.assert_allclose(agent.learner.act(obs), agent.learner._framework_act(obs), rtol=1e-4, atol=1e-5)
    assert agent.learner.actor.is_mirrored()


def test_actor_and_alpha_wait(framework):
    agent = small(framework)
    assert not any(name.startswith("target_critic") for name in vars(agent))
    learner = ready(agent, [framework.optimizers.sgd(group, 0.1) for group in agent.param])
    before = [[framework.array(one) for one in group] for group in agent.param]

    def have_moved():
        return [
            any((framework.array(one) != former).any() for one, former in zip(group, formers, strict=True))
            for group, formers in zip(agent.param, before, strict=True)
        ]

    learner.update(sample(agent, 2), {})
    assert have_moved() == [False, True, False]
    learner.update(sample(agent, 1, sync=True), {})
    assert have_moved() == [True, True, True]
    assert list(small(framework, alpha=0.1).groups_at_sync) == [0]


def test_networks_that_do_not_normalise_are_refused(framework):
    layered = framework.module("shared/layered").layered_network
    plain = partial(layered, layers=[{"dense": 8}])
    for options in ({"network": plain}, {"critic_network": plain}):
        with pytest.raises(SettingsError, match=r"this one \(LayeredNetwork\) does not: .*norm: batch_renorm"):
            framework.agents.CrossQ(env=Target, **options)
    normalised = partial(layered, layers=[{"norm": "batch_renorm"}, {"dense": 8}])
    assert framework.agents.CrossQ(env=Target, network=normalised, critic_network=normalised).param


def test_a_network_of_the_user_s_own_is_not_replaced(framework):
    """It is below `MLP`, but may do something else."""

    class Own(framework.module("shared/networks").MLP):
        pass

    for agent, options in (("CrossQ", {}), ("SAC", {"critic_dropout": 0.1})):
        with pytest.raises(SettingsError, match="Own"):
            getattr(framework.agents, agent)(env=Target, network=Own, **options)


def test_what_it_does_without_is_no_setting(framework):
    for name in ("tau", "gsde", "critic_dropout"):
        with pytest.raises(SettingsError, match=name):
            framework.agents.CrossQ(env=Target, **{name: 0.1})
