"""PPO's loss against NumPy where actions are numbers, in both frameworks."""

import numpy as np
import pytest

from note_rl.policy import GaussianPolicy
from note_rl.types import Sample
from tests.note_rl.agents.continuous import make, ready, sample
from tests.note_rl.frameworks import frameworks

pytestmark = [pytest.mark.parametrize("framework", frameworks()), pytest.mark.usefixtures("eager_updates")]


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
