"""Agents whose actions are numbers: their losses against NumPy, and that they learn, in both frameworks."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from note_rl.errors import EnvironmentMismatchError
from note_rl.policy import GaussianPolicy, NoisyPolicy, SquashedGaussianPolicy
from note_rl.policy.noise import GaussianWhiteNoiseProcess
from note_rl.seeding import seed_everything
from note_rl.settings import ReplaySettings, RolloutSettings, Settings
from note_rl.types import Sample
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting

pytestmark = [pytest.mark.parametrize("framework", frameworks()), pytest.mark.usefixtures("eager_updates")]

LOW, HIGH = np.array([-2.0, 0.0], np.float32), np.array([4.0, 1.0], np.float32)
CENTRE, SCALE = (LOW + HIGH) / 2, (HIGH - LOW) / 2


class Target(gymnasium.Env):
    """One step: the best action is a linear function of the observation, and being off costs the squared distance."""

    def __init__(self):
        self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = spaces.Box(LOW, HIGH)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.shown = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.shown, {}

    def step(self, action):
        wanted = CENTRE + 0.6 * SCALE * self.shown[::-1]
        reward = 1.0 - np.sum(((action - wanted) / SCALE) ** 2)
        return self.shown, float(reward), True, False, {}


def make(framework, name, seed=0, **options):
    seed_everything(seed)
    return getattr(framework.agents, name)(hidden_size=(8,), env=Target, **options)


def ready(agent, optimizer):
    """The agent's learner, not compiled: that would take longer than all there is to do."""
    agent.learner.prepare(optimizer, None, (), False)
    return agent.learner


def sample(agent, num_gradient_steps=1, batch_size=6, seed=0, sync=False):
    rng = np.random.default_rng(seed)
    shape = (num_gradient_steps, batch_size)
    terminated = (rng.random(shape) < 0.3).astype(np.float32)
    noise = {
        name: rng.standard_normal((*shape, *inner), np.float32)
        for name, inner in getattr(agent, "normal_inputs", {}).items()
    }
    return Sample(
        obs=rng.normal(size=(*shape, 2)).astype(np.float32),
        action=rng.uniform(LOW, HIGH, (*shape, 2)).astype(np.float32),
        reward=rng.normal(size=shape).astype(np.float32),
        next_obs=rng.normal(size=(*shape, 2)).astype(np.float32),
        terminated=terminated,
        discount=np.float32(0.9) * (1 - terminated),
        sync=np.full(num_gradient_steps, sync),
        extras=noise,
    )


def losses(framework, agent, batch):
    """Mean loss of each parameter group, nothing trained."""
    learner = ready(agent, [framework.optimizers.sgd(group, 0.0) for group in agent.param])
    return learner.update(batch, {})


def perceptron(layers, x):
    for kernel, bias, activation in layers:
        x = x @ kernel + bias
        if callable(activation):
            x = activation(x)
        x = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}.get(activation, lambda x: x)(x)
    return x


def actor(net, s):
    return perceptron(net.dense_layers(), s)


def q(net, s, a):
    return perceptron(net.net.dense_layers(), np.concatenate([s, (a - CENTRE) / SCALE], axis=1))[:, 0]


def columns(batch):
    return batch.obs[0], batch.action[0], batch.reward[0], batch.next_obs[0], batch.discount[0]


def test_an_actor_stays_within_the_bounds_and_acts_in_numpy(framework):
    agent = make(framework, "TD3")
    obs = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32) * 100
    actions = agent.learner.act(obs)
    assert agent.learner.actor.is_mirrored()
    assert (actions >= LOW).all()
    assert (actions <= HIGH).all()
    np.testing.assert_allclose(actions, agent.learner._framework_act(obs), rtol=1e-4, atol=1e-5)
    unscaled = perceptron(
        [(k, b, a if isinstance(a, str) else "linear") for k, b, a in agent.actor.dense_layers()], obs
    )
    np.testing.assert_allclose(actions, CENTRE + SCALE * np.tanh(unscaled), rtol=1e-4, atol=1e-5)


def test_ddpg_losses(framework):
    agent = make(framework, "DDPG")
    batch = sample(agent)
    s, a, r, next_s, discount = columns(batch)
    target = r + discount * q(agent.target_critic, next_s, actor(agent.target_actor, next_s))
    error = q(agent.critic, s, a) - target
    update = losses(framework, agent, batch)
    expected = [-q(agent.critic, s, actor(agent.actor, s)).mean(), (error**2).mean()]
    np.testing.assert_allclose(update.loss[0], expected, rtol=1e-4)
    np.testing.assert_allclose(np.abs(update.td_error[0]), np.abs(error), rtol=1e-4)


def test_td3_losses(framework):
    agent = make(framework, "TD3", target_noise=0.4, noise_clip=0.5)
    batch = sample(agent, sync=True)  # a step in which the actor learns, too
    s, a, r, next_s, discount = columns(batch)
    noise = np.clip(0.4 * batch.extras["next_noise"][0], -0.5, 0.5)
    assert (np.abs(noise) == 0.5).any()
    next_a = np.clip(actor(agent.target_actor, next_s) + noise * SCALE, LOW, HIGH)
    next_q = np.minimum(q(agent.target_critic_1, next_s, next_a), q(agent.target_critic_2, next_s, next_a))
    errors = [q(critic, s, a) - (r + discount * next_q) for critic in (agent.critic_1, agent.critic_2)]
    update = losses(framework, agent, batch)
    expected = [-q(agent.critic_1, s, actor(agent.actor, s)).mean(), (errors[0] ** 2 + errors[1] ** 2).mean()]
    np.testing.assert_allclose(update.loss[0], expected, rtol=1e-4)
    np.testing.assert_allclose(update.td_error[0], np.abs(errors).mean(0), rtol=1e-4)


def squashed(agent, s, noise):
    """Actions, and their log-density in [-1, 1]: that of the normal divided by the slope of tanh."""
    mean, log_std = np.split(perceptron(agent.actor.dense_layers(), s), 2, axis=1)
    u = mean + np.exp(log_std) * noise
    log_normal = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi)
    return CENTRE + SCALE * np.tanh(u), (log_normal - np.log(1 - np.tanh(u) ** 2)).sum(1)


@pytest.mark.parametrize("alpha", [None, 0.3])
def test_sac_losses(framework, alpha):
    agent = make(framework, "SAC", alpha=alpha)
    batch = sample(agent)
    s, a, r, next_s, discount = columns(batch)
    weight = 1.0 if alpha is None else alpha
    next_a, next_log_prob = squashed(agent, next_s, batch.extras["next_noise"][0])
    next_q = np.minimum(q(agent.target_critic_1, next_s, next_a), q(agent.target_critic_2, next_s, next_a))
    target = r + discount * (next_q - weight * next_log_prob)
    errors = [q(critic, s, a) - target for critic in (agent.critic_1, agent.critic_2)]
    new_a, log_prob = squashed(agent, s, batch.extras["noise"][0])
    new_q = np.minimum(q(agent.critic_1, s, new_a), q(agent.critic_2, s, new_a))
    expected = [(weight * log_prob - new_q).mean(), (errors[0] ** 2 + errors[1] ** 2).mean()]
    if alpha is None:
        expected.append(0.0)  # -log alpha * (...), and log alpha starts at 0
    np.testing.assert_allclose(losses(framework, agent, batch).loss[0], expected, rtol=1e-4, atol=1e-6)


def test_alpha_moves_towards_the_entropy_wanted(framework):
    # d loss / d log alpha = -(log pi + target): the entropy is below the target, so alpha must rise
    agent = make(framework, "SAC", target_entropy=50.0)
    batch = sample(agent)
    _, log_prob = squashed(agent, batch.obs[0], batch.extras["noise"][0])
    ready(agent, framework.optimizers.sgd(agent.param, 0.01)).update(batch, {})
    moved = framework.array(agent.log_alpha)[0]
    assert moved == pytest.approx(0.01 * (log_prob.mean() + 50.0), rel=1e-4)


@pytest.mark.parametrize("name", ["DDPG", "SAC"])
def test_the_actors_loss_never_trains_a_critic(framework, name):
    """With one optimizer or several: the critics move exactly as if the actor's loss were not there."""

    def moved(optimizer_of):
        agent = make(framework, name)
        ready(agent, optimizer_of(agent.param)).update(sample(agent, sync=True), {})
        critics = [agent.critic] if name == "DDPG" else [agent.critic_1, agent.critic_2]
        return [layer[0].copy() for critic in critics for layer in critic.net.dense_layers()]

    def several(*rates):
        return lambda groups: [framework.optimizers.sgd(g, rate) for g, rate in zip(groups, rates, strict=False)]

    without = moved(several(0.0, 0.1, 0.0))
    for with_actor in (moved(several(0.1, 0.1, 0.0)), moved(lambda groups: framework.optimizers.sgd(groups, 0.1))):
        for mine, expected in zip(with_actor, without, strict=True):
            np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-7)


def test_td3s_actor_waits_for_the_targets(framework):
    agent = make(framework, "TD3")
    learner = ready(agent, framework.optimizers.adam(agent.param, 0.01))
    before = agent.actor.dense_layers()[0][0].copy()
    learner.update(sample(agent, 3), {})
    np.testing.assert_array_equal(agent.actor.dense_layers()[0][0], before)
    learner.update(sample(agent, 3, sync=True), {})
    assert not np.allclose(agent.actor.dense_layers()[0][0], before)


@pytest.mark.parametrize("name", ["DDPG", "TD3", "SAC"])
def test_targets_follow_by_tau(framework, name):
    agent = make(framework, name, tau=0.25)
    online, target = (agent.critic, agent.target_critic) if name == "DDPG" else (agent.critic_2, agent.target_critic_2)
    before = target.net.dense_layers()[0][0].copy()
    np.testing.assert_array_equal(before, online.net.dense_layers()[0][0])
    ready(agent, framework.optimizers.sgd(agent.param, 0.1)).update(sample(agent, 1, sync=True), {})
    expected = 0.75 * before + 0.25 * online.net.dense_layers()[0][0]
    np.testing.assert_allclose(target.net.dense_layers()[0][0], expected, rtol=1e-5)


def ppo_sample(agent, seed=0, ratio=1.0):
    """Actions of the agent's own policy, told to have been `ratio` times less likely."""
    rng = np.random.default_rng(seed)
    batch = sample(agent, seed=seed)
    scores = agent.learner.act(batch.obs[0])
    action = GaussianPolicy().select(scores, rng)
    log_prob = GaussianPolicy().log_prob(scores, action)
    shape = batch.reward.shape
    extras = {name: rng.normal(size=shape).astype(np.float32) for name in ("advantage", "return_", "value_old")}
    extras["log_prob_old"] = (log_prob - np.log(ratio))[None].astype(np.float32)
    return Sample(
        obs=batch.obs,
        action=action[None],
        reward=batch.reward,
        next_obs=batch.next_obs,
        terminated=batch.terminated,
        discount=batch.discount,
        sync=batch.sync,
        extras=extras,
    )


def test_ppo_of_continuous_actions(framework):
    agent = make(framework, "PPO", clip=0.2, value_coef=0.7, entropy_coef=0.1, initial_log_std=-0.3)
    learner = ready(agent, framework.optimizers.sgd(agent.param, 0.0))  # which trains nothing
    for ratio in (1.0, 1.5, 0.5):
        batch = ppo_sample(agent, ratio=ratio)
        advantage, return_ = batch.extras["advantage"][0], batch.extras["return_"][0]
        surrogate = np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage)
        entropy = 2 * (-0.3 + 0.5 * np.log(2 * np.pi * np.e))  # of two independent normal numbers
        value = learner.value(batch.obs[0])
        expected = (-surrogate + 0.7 * (value - return_) ** 2).mean() - 0.1 * entropy
        update = learner.update(batch, {})
        assert update.loss[0, 0] == pytest.approx(expected, rel=1e-4), ratio
        np.testing.assert_allclose(update.ratio[0], np.full(6, ratio), rtol=1e-4)


def test_ppo_with_clipped_values(framework):
    agent = make(framework, "PPO", clip_value=0.1, value_coef=1.0)
    batch = ppo_sample(agent)
    advantage, return_, old = (batch.extras[name][0] for name in ("advantage", "return_", "value_old"))
    value = agent.learner.value(batch.obs[0])
    clipped = old + np.clip(value - old, -0.1, 0.1)
    error = np.maximum((value - return_) ** 2, (clipped - return_) ** 2)
    assert not np.allclose(error, (value - return_) ** 2)
    update = ready(agent, framework.optimizers.sgd(agent.param, 0.0)).update(batch, {})
    assert update.loss[0, 0] == pytest.approx((error - advantage).mean(), rel=1e-4)


def test_a_log_deviation_may_be_a_whole_number(framework):
    """As it is typed: agent.initial_log_std=-1."""
    agent = framework.agents.PPO(env="Pendulum-v1", hidden_size=4, initial_log_std=-1)
    policy = agent.learner.act(np.zeros((2, 3), np.float32))
    assert policy.dtype == np.float32
    np.testing.assert_array_equal(policy[:, 1], [-1.0, -1.0])


def test_a_learned_deviation_reaches_the_policy_and_the_mirror(framework):
    agent = make(framework, "PPO", initial_log_std=-0.5)
    obs = np.zeros((3, 2), np.float32)
    np.testing.assert_allclose(agent.learner.act(obs)[:, 2:], np.full((3, 2), -0.5))
    ready(agent, framework.optimizers.sgd(agent.param, 0.1)).update(ppo_sample(agent), {})
    scores = agent.learner.act(obs)
    assert agent.learner.actor.is_mirrored()
    assert not np.allclose(scores[:, 2:], -0.5)
    np.testing.assert_allclose(scores[0, 2:], framework.array(agent.log_std))
    np.testing.assert_allclose(scores, agent.learner._framework_act(obs), rtol=1e-4, atol=1e-6)


REPLAY = ReplaySettings(
    capacity=2000, batch_size=32, learning_starts=100, train_freq=20, gradient_steps=20, target_update_interval=2
)
CASES = {
    "DDPG": (REPLAY, lambda: NoisyPolicy(GaussianWhiteNoiseProcess(sigma=0.2), relative=True, num_random_steps=100), 1),
    "TD3": (REPLAY, lambda: NoisyPolicy(GaussianWhiteNoiseProcess(sigma=0.2), relative=True, num_random_steps=100), 1),
    "SAC": (REPLAY, lambda: SquashedGaussianPolicy(num_random_steps=100), 1),
    "PPO": (RolloutSettings(num_steps=32, batch_size=64, num_epochs=10), GaussianPolicy, 4),
}


@pytest.mark.xla
@pytest.mark.slow_in_keras("DDPG", "TD3", "SAC", "PPO")
@pytest.mark.parametrize("name", CASES)
def test_the_target_is_learned(framework, name):
    experience, policy, num_envs = CASES[name]
    seed_everything(1)
    agent = getattr(framework.agents, name)(hidden_size=(32,), env=Target, gamma=0.9)
    assert agent.evaluate(50).mean < 0.8  # untrained, it stays near the centre
    agent.settings = Settings(experience=experience, policy=policy(), num_envs=num_envs, seed=1)
    agent.train(
        optimizer=framework.optimizers.adam(agent.param, 5e-3), total_steps=4000 if name == "PPO" else 1000, p=0
    )
    assert agent.evaluate(50).mean > 0.95


def test_discrete_actions_are_refused(framework):
    for name in ("DDPG", "TD3", "SAC"):
        with pytest.raises(EnvironmentMismatchError, match=f"{name} chooses vectors of numbers, but Counting"):
            getattr(framework.agents, name)(env=Counting)


def test_actions_without_bounds_are_refused_but_by_ppo(framework):
    class Unbounded(Target):
        def __init__(self):
            super().__init__()
            self.action_space = spaces.Box(-np.inf, np.inf, (2,))

    framework.agents.PPO(env=Unbounded)
    for name in ("DDPG", "TD3", "SAC"):
        with pytest.raises(EnvironmentMismatchError, match=f"{name} needs actions with finite bounds"):
            getattr(framework.agents, name)(env=Unbounded)
