"""Agents with state-dependent exploration, in both frameworks: densities, losses and answers by hand, and refusals."""

import importlib
import math
from functools import partial

import numpy as np
import pytest
from gymnasium import spaces

from note_rl.errors import AgentContractError, EnvironmentMismatchError, SettingsError
from note_rl.policy import GaussianPolicy, GSDEPolicy, SquashedGSDEPolicy
from note_rl.seeding import seed_everything
from note_rl.settings import GSDE
from note_rl.types import Sample
from tests.note_rl.agents.continuous import Target, make, perceptron, ready, sample
from tests.note_rl.frameworks import frameworks

pytestmark = pytest.mark.parametrize("framework", frameworks())

LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)


def expln(x):
    return np.where(x > 0, np.log1p(np.maximum(x, 0)) + 1, np.exp(np.minimum(x, 0)))


def as_tensor(framework, values):
    if framework.package == "pytorch":
        import torch

        return torch.from_numpy(values)
    import tensorflow as tf

    return tf.constant(values)


def with_log_std(framework, agent, seed=0, low=-1.5, high=0.5):
    """Other deviations for each feature, some above 1."""
    shape = tuple(agent.log_std.shape)
    values = np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)
    if framework.package == "pytorch":
        import torch

        with torch.no_grad():
            agent.log_std.copy_(torch.from_numpy(values))
    else:
        agent.log_std.assign(values)
    agent.learner.actor.parameters_changed()
    return values


def means_and_features(agent, obs):
    """In NumPy, from the layers of the network."""
    *hidden, output = agent.actor.means.dense_layers()
    features = perceptron(hidden, obs)
    return perceptron([output], features), features


def by_hand(agent, log_std, obs, action, sigma=np.exp, clip_mean=None):
    """Log-density [B] and entropy [B] of actions."""
    mean, features = means_and_features(agent, obs)
    mean = mean if clip_mean is None else np.clip(mean, -clip_mean, clip_mean)
    deviation = np.sqrt(features**2 @ np.broadcast_to(sigma(log_std), (8, 2)) ** 2 + 1e-6)
    log_prob = -0.5 * ((action - mean) / deviation) ** 2 - np.log(deviation) - LOG_ROOT_2PI
    return log_prob.sum(1), (np.log(deviation) + LOG_ROOT_2PI + 0.5).sum(1)


def rollout_sample(agent, log_std, shift=0.0, **options):
    """A minibatch whose actions were `shift` more likely than the agent finds them now, as logarithms."""
    batch, rng = sample(agent), np.random.default_rng(5)
    shape = batch.reward.shape
    log_prob, entropy = by_hand(agent, log_std, batch.obs[0], batch.action[0], **options)
    extras = {name: rng.normal(size=shape).astype(np.float32) for name in ("advantage", "return_", "value_old")}
    extras["log_prob_old"] = (log_prob + shift)[None].astype(np.float32)
    columns = (batch.obs, batch.action, batch.reward, batch.next_obs, batch.terminated, batch.discount, batch.sync)
    return Sample(*columns, extras), log_prob, entropy


@pytest.mark.parametrize(
    ("settings", "shape", "options"),
    [
        pytest.param({}, (8, 2), {}, id="full"),
        pytest.param({"full_std": False}, (8, 1), {}, id="one for all numbers"),
        pytest.param({"use_expln": True}, (8, 2), {"sigma": expln}, id="expln"),
        pytest.param({"clip_mean": 0.005}, (8, 2), {"clip_mean": 0.005}, id="clipped means"),
    ],
)
def test_loss_of_a2c(framework, settings, shape, options):
    agent = make(framework, "A2C", gsde=GSDE(**settings), value_coef=0.7, entropy_coef=0.1, initial_log_std=-0.3)
    assert tuple(agent.log_std.shape) == shape
    np.testing.assert_allclose(framework.array(agent.log_std), np.full(shape, -0.3), rtol=1e-6)
    log_std = with_log_std(framework, agent)
    batch, log_prob, entropy = rollout_sample(agent, log_std, **options)
    learner = ready(agent, framework.optimizers.sgd(agent.param, 0.0))
    value = learner.value(batch.obs[0])
    error = (value - batch.extras["return_"][0]) ** 2
    expected = (-log_prob * batch.extras["advantage"][0] + 0.7 * error - 0.1 * entropy).mean()
    assert learner.update(batch, {}).loss[0, 0] == pytest.approx(expected, rel=1e-4)


def test_loss_of_ppo(framework):
    agent = make(framework, "PPO", gsde=GSDE(), clip=0.2, value_coef=0.7, entropy_coef=0.1)
    log_std = with_log_std(framework, agent)
    learner = ready(agent, framework.optimizers.sgd(agent.param, 0.0))
    for ratio in (1.0, 1.5, 0.5):
        batch, _, entropy = rollout_sample(agent, log_std, -math.log(ratio))
        advantage, value = batch.extras["advantage"][0], learner.value(batch.obs[0])
        surrogate = np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage)
        error = (value - batch.extras["return_"][0]) ** 2
        update = learner.update(batch, {})
        expected = (-surrogate + 0.7 * error - 0.1 * entropy).mean()
        assert update.loss[0, 0] == pytest.approx(expected, rel=1e-3), ratio
        np.testing.assert_allclose(update.ratio[0], np.full(6, ratio), rtol=1e-3)


def test_the_policy_says_the_density_that_the_loss_computes(framework):
    agent = make(framework, "PPO", gsde=GSDE())
    log_std = with_log_std(framework, agent)
    batch, log_prob, _ = rollout_sample(agent, log_std)
    policy = GSDEPolicy()
    policy.bind(agent.env().action_space, 6)
    found = policy.log_prob(agent.learner.act(batch.obs[0]), batch.action[0])
    np.testing.assert_allclose(found, log_prob, rtol=1e-4)


@pytest.mark.parametrize("settings", [{}, {"full_std": False, "use_expln": True, "clip_mean": 0.005}])
def test_what_acts_in_numpy_answers_as_the_framework(framework, settings):
    agent = make(framework, "A2C", gsde=GSDE(**settings))
    with_log_std(framework, agent)
    obs = sample(agent).obs[0]
    answers = agent.learner.act(obs)
    assert agent.learner.actor.is_mirrored()
    assert answers.shape == (6, 2 + 2 * 8)
    np.testing.assert_allclose(answers, framework.array(agent.action(as_tensor(framework, obs))), rtol=1e-5, atol=1e-6)
    mean, features = means_and_features(agent, obs)
    sigma = (expln if settings else np.exp)(framework.array(agent.log_std))
    np.testing.assert_allclose(answers[:, :2], np.clip(mean, -0.005, 0.005) if settings else mean, rtol=1e-4, atol=1e-6)
    expected = features[:, None, :] * np.broadcast_to(sigma, (8, 2)).T
    np.testing.assert_allclose(answers[:, 2:].reshape(6, 2, 8), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("learns", [False, True])
def test_features_learn_by_deviations_only_if_that_is_asked_for(framework, learns):
    """Where actions are the means, a density changes with deviations alone."""
    agent = make(framework, "A2C", gsde=GSDE(learn_features=learns), value_coef=0.0)
    batch = sample(agent)
    mean, _ = means_and_features(agent, batch.obs[0])
    extras = {name: np.ones((1, 6), np.float32) for name in ("advantage", "return_")}
    columns = (batch.obs, mean[None], batch.reward, batch.next_obs, batch.terminated, batch.discount, batch.sync)
    before = framework.parameters(agent)
    ready(agent, framework.optimizers.sgd(agent.param, 0.1)).update(Sample(*columns, extras), {})
    moved = [np.abs(now - then).max() for now, then in zip(framework.parameters(agent), before, strict=True)]
    kernel, deviations = moved[0], moved[4]
    assert before[4].shape == (8, 2)
    assert deviations > 1e-3
    assert bool(kernel > 1e-4) is learns


def layered(framework, **options):
    module = importlib.import_module(f"note_rl.agents.{framework.package}.layered")
    return partial(module.layered_network, **options)


def test_policy_and_value_with_one_trunk(framework):
    """The features are those of the last layer before the outputs, behind what is shared."""
    network = layered(framework, layers=[{"dense": 6}], head={"layers": [{"dense": 5}]}, shared=True)
    agent = make(framework, "A2C", gsde=GSDE(), network=network, entropy_coef=0.0, value_coef=0.5)
    assert tuple(agent.log_std.shape) == (5, 2)
    batch, rng = sample(agent), np.random.default_rng(0)
    policy = GSDEPolicy()
    policy.bind(agent.env().action_space, 6)
    extras = {name: rng.normal(size=(1, 6)).astype(np.float32) for name in ("advantage", "return_")}
    columns = (batch.obs, batch.action, batch.reward, batch.next_obs, batch.terminated, batch.discount, batch.sync)
    log_prob = policy.log_prob(agent.learner.act(batch.obs[0]), batch.action[0])
    learner = ready(agent, framework.optimizers.sgd(agent.param, 0.0))
    error = (learner.value(batch.obs[0]) - extras["return_"][0]) ** 2
    expected = (-log_prob * extras["advantage"][0] + 0.5 * error).mean()
    assert learner.update(Sample(*columns, extras), {}).loss[0, 0] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("behind", [False, True])
def test_features_behind_a_normalisation_are_not_computed_in_numpy(framework, behind):
    """NumPy merges it with the dense layer in front of it, whose outputs are other features."""
    layers = [{"norm": "batch"}, {"dense": 6}]
    network = layered(framework, layers=layers[::-1] if behind else layers)
    agent = make(framework, "A2C", gsde=GSDE(), network=network)
    assert (agent.acting_layers() is None) == behind


def test_as_stable_baselines3_has_it(framework):
    """Densities, entropies and deviations of its distribution, given the same means, features and log deviations."""
    torch = pytest.importorskip("torch")
    distributions = pytest.importorskip("stable_baselines3.common.distributions")
    agent = make(framework, "PPO", gsde=GSDE(use_expln=True))
    log_std = with_log_std(framework, agent)
    batch, log_prob, entropy = rollout_sample(agent, log_std, sigma=expln)
    mean, features = (torch.from_numpy(one) for one in means_and_features(agent, batch.obs[0]))
    theirs = distributions.StateDependentNoiseDistribution(2, use_expln=True)
    theirs.proba_distribution_net(8, latent_sde_dim=8)
    theirs.proba_distribution(mean, torch.from_numpy(log_std), features)
    np.testing.assert_allclose(log_prob, theirs.log_prob(torch.from_numpy(batch.action[0])).numpy(), rtol=1e-4)
    np.testing.assert_allclose(entropy, theirs.entropy().numpy(), rtol=1e-4)


def test_a_policy_that_does_not_fit_is_refused_before_a_step(framework):
    options = {"PPO": True, "rollout_steps": 8, "num_envs": 2}
    agent = make(framework, "A2C", gsde=GSDE())
    agent.set(policy=GaussianPolicy(), **options)
    optimizer = framework.optimizers.sgd(agent.param, 0.1)
    with pytest.raises(
        AgentContractError, match=r"A2C has gsde.*GaussianPolicy does not take: explore with GSDEPolicy"
    ):
        agent.train(optimizer=optimizer, total_steps=64)
    plain = make(framework, "A2C")
    plain.set(policy=GSDEPolicy(), **options)
    with pytest.raises(
        AgentContractError, match=r"GSDEPolicy takes means and pushes, which A2C does not give.*GSDE\(\)"
    ):
        plain.train(optimizer=framework.optimizers.sgd(plain.param, 0.1), total_steps=64)


@pytest.mark.parametrize(
    ("name", "policy", "settings", "reason"),
    [
        ("SAC", GSDEPolicy(), {"learning_starts": 8}, "GSDEPolicy does not squash actions.*SAC"),
        ("A2C", SquashedGSDEPolicy(), {"PPO": True, "rollout_steps": 8}, "SquashedGSDEPolicy squashes actions.*A2C"),
    ],
)
def test_the_policy_squashes_actions_where_the_agent_does(framework, name, policy, settings, reason):
    agent = make(framework, name, gsde=GSDE())
    agent.set(policy=policy, **settings)
    with pytest.raises(AgentContractError, match=f"{reason}.*GSDEPolicy, or SquashedGSDEPolicy for SAC"):
        agent.train(optimizer=framework.optimizers.sgd(agent.param, 0.1), total_steps=16)


def test_actions_to_choose_from_are_refused(framework):
    with pytest.raises(EnvironmentMismatchError, match="PPO chooses among actions: leave gsde out"):
        framework.agents.PPO(env="CartPole-v1", gsde=GSDE())


def test_a_network_that_hides_its_last_layer_is_refused(framework):
    def hiding(input_shape, num_outputs):
        if framework.package == "pytorch":
            from torch import nn

            return nn.Linear(2, num_outputs)
        import keras

        return keras.Sequential([keras.Input(input_shape), keras.layers.Dense(num_outputs)])

    with pytest.raises(SettingsError, match=r"last hidden layer of the policy's network.*(Linear|Sequential) does not"):
        make(framework, "PPO", gsde=GSDE(), network=hiding)


@pytest.mark.parametrize("name", ["BC", "GAIL"])
def test_agents_without_it_say_so(framework, name):
    with pytest.raises(SettingsError, match="gsde"):
        make(framework, name, gsde=GSDE())


@pytest.mark.parametrize("value", [True, {"full_std": True}, GSDE])
def test_another_kind_of_value_is_refused(framework, value):
    with pytest.raises(SettingsError, match=r"gsde must be a GSDE\(\)"):
        make(framework, "PPO", gsde=value)


def test_trpo_takes_a_step_within_its_bound(framework):
    agent = make(framework, "TRPO", gsde=GSDE(), critic_iterations=1, critic_batch_size=32, max_kl=0.01)
    agent.set(policy=GSDEPolicy(), rollout_steps=32, num_envs=2, seed=0)
    before = framework.array(agent.log_std)
    optimizer = [framework.optimizers.adam(group, 1e-3) for group in agent.param]
    agent.train(optimizer=optimizer, total_steps=64, jit_compile=False, p=0)
    assert 0.0 < agent.kl <= 0.01
    assert np.abs(framework.array(agent.log_std) - before).max() > 0.0


class Shaped(Target):
    """`Target` with actions of another shape."""

    def __init__(self, shape):
        super().__init__()
        flat = self.action_space
        self.action_space = spaces.Box(flat.low.reshape(shape), flat.high.reshape(shape))

    def step(self, action):
        assert action.shape == self.action_space.shape
        return super().step(action.ravel())


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("kind", ["PPO", "A2C", "TRPO", "SAC", "TQC"])
def test_the_shape_of_an_action_makes_no_difference(framework, kind):
    def trained(shape):
        seed_everything(0)
        agent = getattr(framework.agents, kind)(hidden_size=(4,), env=partial(Shaped, shape), gsde=GSDE())
        if kind in ("SAC", "TQC"):
            agent.set(policy=SquashedGSDEPolicy(hold=3, num_random_steps=8), batch=4, pool_size=64, seed=1)
        else:
            agent.set(policy=GSDEPolicy(hold=3), PPO=True, rollout_steps=8, batch=8, seed=1)
        groups = [framework.optimizers.sgd(group, 1e-2) for group in agent.param]
        agent.train(optimizer=groups if len(groups) > 1 else groups[0], total_steps=16, p=0, jit_compile=False)
        return framework.parameters(agent)

    for values, expected in zip(trained((1, 2)), trained((2,)), strict=True):
        np.testing.assert_array_equal(values, expected)
