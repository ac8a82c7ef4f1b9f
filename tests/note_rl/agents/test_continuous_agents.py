"""Agents whose actions are numbers: their common rules, and that they learn, in both frameworks."""

import numpy as np
import pytest
from gymnasium import spaces

from note_rl.errors import AgentContractError, EnvironmentMismatchError
from note_rl.policy import GaussianPolicy, NoisyPolicy, SquashedGaussianPolicy
from note_rl.policy.noise import GaussianWhiteNoiseProcess
from note_rl.seeding import seed_everything
from note_rl.settings import ReplaySettings, RolloutSettings, Settings
from tests.note_rl.agents.continuous import CENTRE, HIGH, LOW, SCALE, Target, make, perceptron, ready, sample
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting

pytestmark = pytest.mark.parametrize("framework", frameworks())


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


@pytest.mark.slow_in_keras("SAC", "CrossQ", "TQC")
@pytest.mark.parametrize("name", ["DDPG", "SAC", "CrossQ", "TQC"])
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


@pytest.mark.parametrize("name", ["DDPG", "TD3", "SAC"])
def test_targets_follow_by_tau(framework, name):
    agent = make(framework, name, tau=0.25)
    online, target = (agent.critic, agent.target_critic) if name == "DDPG" else (agent.critic_2, agent.target_critic_2)
    before = target.net.dense_layers()[0][0].copy()
    np.testing.assert_array_equal(before, online.net.dense_layers()[0][0])
    ready(agent, framework.optimizers.sgd(agent.param, 0.1)).update(sample(agent, 1, sync=True), {})
    expected = 0.75 * before + 0.25 * online.net.dense_layers()[0][0]
    np.testing.assert_allclose(target.net.dense_layers()[0][0], expected, rtol=1e-5)


REPLAY = ReplaySettings(
    capacity=2000, batch_size=32, learning_starts=100, train_freq=20, gradient_steps=20, target_update_interval=2
)


CASES = {
    "DDPG": (REPLAY, lambda: NoisyPolicy(GaussianWhiteNoiseProcess(sigma=0.2), relative=True, num_random_steps=100), 1),
    "TD3": (REPLAY, lambda: NoisyPolicy(GaussianWhiteNoiseProcess(sigma=0.2), relative=True, num_random_steps=100), 1),
    "SAC": (REPLAY, lambda: SquashedGaussianPolicy(num_random_steps=100), 1),
    "CrossQ": (REPLAY, lambda: SquashedGaussianPolicy(num_random_steps=100), 1),
    "TQC": (REPLAY, lambda: SquashedGaussianPolicy(num_random_steps=100), 1),
    "PPO": (RolloutSettings(num_steps=32, batch_size=64, num_epochs=10), GaussianPolicy, 4),
}


@pytest.mark.xla
@pytest.mark.slow_in_keras("DDPG", "TD3", "SAC", "CrossQ", "TQC", "PPO")
@pytest.mark.parametrize(  # losses of the others: test_td3.py, test_sac.py, test_ppo.py, learners/test_reports.py
    "name", ["DDPG", *(pytest.param(name, marks=pytest.mark.slow) for name in ("TD3", "SAC", "CrossQ", "TQC", "PPO"))]
)
def test_the_target_is_learned(framework, name):
    experience, policy, num_envs = CASES[name]
    seed_everything(1)
    agent = getattr(framework.agents, name)(hidden_size=(32,), env=Target, gamma=0.9)
    assert agent.evaluate(50).mean < 0.8  # untrained, it stays near the centre
    agent.settings = Settings(experience=experience, policy=policy(), num_envs=num_envs, seed=1)
    agent.train(optimizer=framework.optimizers.adam(agent.param, 5e-3), total_steps=4000 if name == "PPO" else 700, p=0)
    assert agent.evaluate(50).mean > 0.95


def test_discrete_actions_are_refused(framework):
    for name in ("DDPG", "TD3", "SAC", "CrossQ", "TQC"):
        with pytest.raises(EnvironmentMismatchError, match=f"{name} chooses vectors of numbers, but Counting"):
            getattr(framework.agents, name)(env=Counting)


def test_actions_without_bounds_are_refused_but_by_ppo(framework):
    class Unbounded(Target):
        def __init__(self):
            super().__init__()
            self.action_space = spaces.Box(-np.inf, np.inf, (2,))

    framework.agents.PPO(env=Unbounded)
    for name in ("DDPG", "TD3", "SAC", "CrossQ", "TQC"):
        with pytest.raises(EnvironmentMismatchError, match=f"{name} needs actions with finite bounds"):
            getattr(framework.agents, name)(env=Unbounded)


@pytest.mark.parametrize("name", ["SAC", "TQC", "CrossQ", "TD3"])
def test_a_policy_without_bounds_is_refused_for_actions_within_bounds(framework, name):
    """Their losses are those of squashed actions; the pool would hold others."""
    agent = make(framework, name)
    agent.set(policy=GaussianPolicy(), batch=4, pool_size=64)
    with pytest.raises(
        AgentContractError, match=f"GaussianPolicy draws actions without bounds, and {name} learns from"
    ):
        agent.train(optimizer=[framework.optimizers.sgd(group, 0.1) for group in agent.param], total_steps=8, p=0)
