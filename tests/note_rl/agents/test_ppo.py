"""PPO's loss against NumPy where actions are numbers, and where another policy has chosen, in both frameworks."""

import logging

import numpy as np
import pytest

from note_rl.learners.base import first_minibatch
from note_rl.policy import EpsGreedyQPolicy, GaussianPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.types import Sample
from tests.note_rl.agents.continuous import make, ready, sample
from tests.note_rl.frameworks import frameworks

pytestmark = pytest.mark.parametrize("framework", frameworks())


def ppo_sample(agent, seed=0, ratio=1.0):
    """Actions of the agent's own policy, recorded as having been `ratio` times less likely."""
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


def weighed_sample(framework, chosen, ratio=1.0):
    """One state of two actions, of which `chosen` were chosen by eps-greedy with eps = 0.5, so that mu is 3/4, 1/4."""
    seed_everything(0)
    agent = framework.agents.PPO(4, (8,), 2, env="CartPole-v1", clip=0.2, value_coef=0.0, entropy_coef=0.0)
    obs = np.tile(np.float32([0.1, 0.2, -0.3, 0.4]), (len(chosen), 1))
    pi = agent.learner.act(obs)[0].astype(np.float64)
    best = int(pi.argmax())
    action = np.where(np.array(chosen) == "best", best, 1 - best)
    log_mu, importance = EpsGreedyQPolicy(0.5).likelihoods(agent.learner.act(obs), action)
    mu = np.where(action == best, 0.75, 0.25)
    np.testing.assert_allclose(np.exp(log_mu), mu, rtol=1e-6)
    nothing = np.zeros((1, len(action)), np.float32)
    extras = {
        "advantage": np.where(action == best, 2.0, -1.0)[None].astype(np.float32),
        "return_": nothing,
        "value_old": nothing,
        "log_prob_old": np.log(pi[action] / ratio)[None].astype(np.float32),
        "importance_ratio": importance[None].astype(np.float32),
    }
    batch = Sample(obs[None], action[None], nothing, obs[None], nothing, nothing + 0.9, np.zeros(1, bool), extras)
    return agent, batch, pi[best]


def test_the_surrogate_of_eps_greedy_steps_is_an_expectation_over_the_learned_policy(framework):
    """Of four steps as mu would choose them; its gradient is that of the expectation, too."""
    agent, batch, pi_best = weighed_sample(framework, ["best", "best", "best", "other"])
    update = ready(agent, framework.optimizers.sgd(agent.param, 0.0)).update(batch, {})
    assert update.loss[0, 0] == pytest.approx(-(pi_best * 2.0 + (1 - pi_best) * -1.0), rel=1e-5)
    np.testing.assert_allclose(update.ratio[0], np.ones(4), rtol=1e-5)  # of what is learned: nothing has moved
    found = agent.learner._measurements.gradients_of(first_minibatch(batch))[1][0]
    one_each = Sample(
        *(getattr(batch, name)[:, 2:] for name in ("obs", "action", "reward", "next_obs", "terminated", "discount")),
        batch.sync,
        {
            **{name: values[:, 2:] for name, values in batch.extras.items()},
            "importance_ratio": 2.0 * np.float32([[pi_best, 1.0 - pi_best]]),  # a mean of two is half their sum
        },
    )
    expected = agent.learner._measurements.gradients_of(first_minibatch(one_each))[1][0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("ratio", [1.5, 0.5])
def test_what_is_clipped_is_the_ratio_to_the_learned_policy(framework, ratio):
    agent, batch, pi_best = weighed_sample(framework, ["best", "other"], ratio)
    update = ready(agent, framework.optimizers.sgd(agent.param, 0.0)).update(batch, {})
    clipped = min(max(ratio, 0.8), 1.2)
    terms = [
        pi_best / 0.75 * min(ratio * 2.0, clipped * 2.0),
        (1 - pi_best) / 0.25 * min(ratio * -1.0, clipped * -1.0),
    ]
    assert update.loss[0, 0] == pytest.approx(-np.mean(terms), rel=1e-4)
    np.testing.assert_allclose(update.ratio[0], [ratio, ratio], rtol=1e-4)
    weights = np.array([pi_best / 0.75, (1 - pi_best) / 0.25])
    kl = np.mean(weights * (ratio - 1 - np.log(ratio)))
    assert float(update.reported["approx_kl"][0]) == pytest.approx(kl, rel=1e-3)


@pytest.mark.slow_in_keras  # weights are made before any framework
def test_eps_greedy_is_weighed_from_the_first_rollout_on_and_that_is_said(framework, caplog):
    seen = []

    class Watched(framework.agents.PPO):
        batch_attributes = framework.agents.PPO.batch_attributes  # as the loss that it calls

        def __call__(self, s, a, next_s, r, d):
            seen.append(self.importance_ratio)
            return super().__call__(s, a, next_s, r, d)

    Watched.__name__ = f"Watched{framework.package}"  # said once of each
    agent = Watched(4, (8,), 2, env="CartPole-v1")
    agent.set(policy=EpsGreedyQPolicy(0.5), PPO=True, rollout_steps=32, num_epochs=1, batch=32, seed=0)
    with caplog.at_level(logging.WARNING):
        result = agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-3), total_steps=64, p=0)
    assert result.num_gradient_steps == 2
    assert seen
    assert not any(one is None for one in seen)
    (said,) = [one.getMessage() for one in caplog.records if "weighed" in one.getMessage()]
    assert said.startswith(f"{Watched.__name__} learns probabilities, and EpsGreedyQPolicy chooses by others")
    agent.set(policy=SoftmaxPolicy())
    seen.clear()
    agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-3), total_steps=96, p=0)
    assert seen
    assert all(one is None for one in seen)


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
