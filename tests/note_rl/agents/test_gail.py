"""Imitation with a learned reward: the discriminator against NumPy, and the gate on CartPole, in both frameworks."""

import numpy as np
import pytest

from note_rl.examples.experts import cartpole_expert, record
from note_rl.policy import SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.settings import RolloutSettings, Settings
from note_rl.settings.demonstrations import Demonstrations
from note_rl.types import Sample
from tests.note_rl.frameworks import frameworks
from tests.note_rl.samples import ready, sample
from tests.note_rl.small_environments import Counting

both = pytest.mark.parametrize("framework", frameworks())


def imitator(framework, **options):
    seed_everything(0)
    return framework.agents.GAIL(hidden_size=(8,), discriminator_size=(6,), env=Counting, **options)


def imitation_batch(batch_size=16):
    batch = sample(1, batch_size, log_prob_old=1, advantage=1, return_=1, value_old=1)
    expert = sample(1, batch_size, seed=9)
    extras = {**batch.extras, "expert_obs": expert.obs, "expert_action": expert.action}
    columns = ("obs", "action", "reward", "next_obs", "terminated", "discount", "sync")
    return Sample(**{name: getattr(batch, name) for name in columns}, extras=extras)


def odds_and_slope(agent, obs, action):
    """Log-odds [B] of the discriminator and their squared gradient [B] by its inputs, by hand: one tanh layer."""
    (kernel, bias, _), (last, last_bias, _) = agent.discriminator.dense_layers()
    pair = np.concatenate([obs, np.eye(2, dtype=np.float32)[action]], axis=1)
    hidden = np.tanh(pair @ kernel + bias)
    slope = ((1 - hidden**2) * last[:, 0]) @ kernel.T
    return (hidden @ last + last_bias)[:, 0], np.square(slope).sum(1)


@both
def test_the_reward_is_the_log_odds_of_the_expert(framework):
    agent = imitator(framework)
    batch = imitation_batch()
    expected, _ = odds_and_slope(agent, batch.obs[0], batch.action[0])
    reward = agent.learner.reward(batch.obs[0], batch.action[0], batch.next_obs[0])
    np.testing.assert_allclose(reward, expected, rtol=1e-4, atol=1e-5)


@both
@pytest.mark.parametrize("penalty", [0.0, 2.0])
def test_the_discriminator_tells_apart_and_stays_smooth(framework, penalty):
    agent = imitator(framework, gradient_penalty=penalty)
    batch = imitation_batch()
    mine, my_slope = odds_and_slope(agent, batch.obs[0], batch.action[0])
    expert, expert_slope = odds_and_slope(agent, batch.extras["expert_obs"][0], batch.extras["expert_action"][0])
    expected = np.log1p(np.exp(-expert)) + np.log1p(np.exp(mine)) + 0.5 * penalty * (my_slope + expert_slope)
    optimizers = [framework.optimizers.sgd(group, 0.0) for group in agent.param]
    loss = ready(framework, agent, optimizers).update(batch, {}).loss
    assert loss.shape == (1, 2)
    assert loss[0, 1] == pytest.approx(expected.mean(), rel=1e-4)


@both
def test_neither_side_trains_the_other(framework):
    for rates, moves in (((0.1, 0.0), [True, False]), ((0.0, 0.1), [False, True])):
        agent = imitator(framework)
        before = [framework.array(group[0]) for group in agent.param]
        optimizers = [framework.optimizers.sgd(group, rate) for group, rate in zip(agent.param, rates, strict=True)]
        ready(framework, agent, optimizers).update(imitation_batch(), {})
        after = [framework.array(group[0]) for group in agent.param]
        assert [bool((now != then).any()) for now, then in zip(after, before, strict=True)] == moves


def test_what_an_expert_does_is_recorded_whole():
    demonstrations = record(lambda obs: int(obs[0]) % 2, lambda: Counting(5), num_episodes=3, seed=4)
    assert demonstrations.obs[:, 0].tolist() == [0, 1, 2, 3, 4] * 3  # what is seen before each action
    assert demonstrations.obs[:, 1].tolist() == [4] * 5 + [5] * 5 + [6] * 5  # seeds
    assert demonstrations.action.tolist() == [0, 1, 0, 1, 0] * 3
    assert demonstrations.action.dtype == np.int32


def test_the_cartpole_expert_is_one():
    assert len(cartpole_expert(4)) == 4 * 500


@both
@pytest.mark.parametrize(("learned", "said"), [(True, 1), (False, 0)])
def test_normalised_rewards_beside_a_learned_one_have_no_effect(framework, caplog, learned, said):
    agent = imitator(framework) if learned else framework.agents.PPO(hidden_size=(8,), env=Counting)
    expert = record(lambda obs: 0, lambda: Counting(5), num_episodes=3, seed=4) if learned else None
    experience = RolloutSettings(num_steps=8, batch_size=8, num_epochs=1, learned_reward=learned, expert=expert)
    agent.settings = Settings(experience=experience, policy=SoftmaxPolicy(), num_envs=1, seed=0, normalise_reward=True)
    agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-3), total_steps=8, p=0)
    assert sum("normalise_reward has no effect" in message for message in caplog.messages) == said


def trained_on(framework, expert, seed, total_steps):
    """Mean return of 20 episodes; the environment's reward is not among what the agent learns from."""
    seed_everything(seed)
    agent = framework.agents.GAIL(env="CartPole-v1", gamma=0.98, gae_lambda=0.9)
    experience = RolloutSettings(num_steps=64, batch_size=128, num_epochs=8, learned_reward=True, expert=expert)
    agent.settings = Settings(
        experience=experience, policy=SoftmaxPolicy(), num_envs=8, seed=seed, max_grad_norm=0.5, normalise_obs=True
    )
    agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-3), total_steps=total_steps, p=0)
    return agent.evaluate(20).mean


@both
@pytest.mark.xla
@pytest.mark.slow
def test_ten_episodes_of_an_expert_teach_to_balance(framework):
    assert trained_on(framework, cartpole_expert(10), seed=2, total_steps=24_000) >= 400


@both
@pytest.mark.xla
@pytest.mark.slow
def test_it_is_the_expert_who_teaches(framework):
    """Three seeds with the expert; and with somebody who acts at random, nothing of the kind is learned."""
    assert sorted(trained_on(framework, cartpole_expert(10), seed, 40_000) for seed in (1, 2, 3))[1] >= 400
    rng = np.random.default_rng(0)
    novice: Demonstrations = record(lambda obs: int(rng.integers(2)), "CartPole-v1", num_episodes=200)
    assert trained_on(framework, novice, seed=1, total_steps=40_000) < 200
