"""Agents of both frameworks in worker processes: they act as the agent that trains does, whatever lies between."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from note_rl.errors import WorkerError
from note_rl.examples.coordination import CoordinationGame
from note_rl.learners.base import parameter_groups
from note_rl.policy import GreedyQPolicy, GSDEPolicy, NoisyPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.settings import GSDE, WorkerSettings
from tests.note_rl.collect.counting import CountingAgent, Watched, running_pool, settings
from tests.note_rl.frameworks import frameworks
from tests.note_rl.manuals.agents import dqn

BOTH = pytest.mark.parametrize("framework", frameworks())


def greedy(agent, processes=2, **options):
    agent.settings = replace(
        settings(WorkerSettings(processes=processes, overlapping=False), num_envs=3, policy=GreedyQPolicy()), **options
    )
    return agent


def check_that_workers_act_alike(agent, policy):
    """Collects, changes every parameter, collects again."""
    with running_pool(agent, policy) as (pool, act):
        for _ in range(2):
            steps, _ = pool.collect(act, 20)
            flat = steps.obs.reshape(-1, *steps.obs.shape[2:])
            expected = policy.greedy(act(flat)).reshape(steps.action.shape)
            np.testing.assert_array_equal(steps.action, expected)
            change(agent, until=lambda: not np.array_equal(policy.greedy(act(flat)), expected.reshape(-1)))  # noqa: B023


def change(agent, until):
    rng = np.random.default_rng(0)
    while not until():
        state = agent.learner.get_state()
        agent.learner.set_state({n: v if v.dtype != np.float32 else _like(v, rng) for n, v in state.items()})


def _like(values, rng):
    return rng.normal(size=values.shape).astype(np.float32)


@BOTH
def test_a_mirrored_agent_acts_alike_with_normalised_observations(framework):
    seed_everything(1)
    agent = greedy(framework.agents.DQN(hidden_size=(8,), env="CartPole-v1"), normalise_obs=True)
    agent.obs_normaliser.update(np.random.default_rng(0).normal(size=(5, 1, 4)))
    check_that_workers_act_alike(agent, GreedyQPolicy())


@pytest.mark.parametrize("framework", frameworks()[:1])
def test_workers_explore_by_the_noise_of_the_network(framework):
    """A mirror of layers alone would act greedily."""
    seed_everything(1)
    network = partial(framework.module("shared/networks").MLP, hidden_sizes=(8,), noisy_std=5.0)
    agent = greedy(framework.agents.DQN(network=network, env="CartPole-v1"))
    with running_pool(agent, GreedyQPolicy()) as (pool, act):
        steps, _ = pool.collect(act, 40)
        silent = act(steps.obs.reshape(-1, 4)).argmax(1).reshape(steps.action.shape)
    assert 0.1 < (steps.action != silent).mean() < 0.9


@pytest.mark.slow_in_keras
@BOTH
def test_an_agent_of_the_users_own_is_made_again_in_the_workers(framework):
    seed_everything(1)
    agent = greedy(dqn(framework.package)(4, 8, 2), processes=1)  # which imports the framework
    check_that_workers_act_alike(agent, GreedyQPolicy())


@pytest.mark.parametrize("framework", frameworks()[:1])
@pytest.mark.parametrize(  # several agents: test_an_agent_with_a_build_of_its_own_for_workers has build() in workers
    "kind", ["frames", "goals", pytest.param("several agents", marks=pytest.mark.slow), "epochs"]
)
def test_training_in_turn_without_exploration_is_the_same_as_in_one_process(framework, kind):
    agents = framework.agents  # imported before it is seeded

    def losses(**options):
        seed_everything(1)
        common = {"seed": 3, "num_envs": 3, "batch": 16}
        replay = {**common, "pool_size": 500, "train_freq": 30, "num_updates": 3}
        if kind == "frames":
            agent = agents.DQN(hidden_size=(8,), env="CartPole-v1", frame_stack=3)
            agent.set(policy=GreedyQPolicy(), frame_stack=3, **replay)
        elif kind == "goals":
            agent = agents.DDPG(hidden_size=(8,), env="note_rl.examples.environments:PointReach-v0")
            agent.set(policy=NoisyPolicy(), HER=True, **replay)
        elif kind == "several agents":
            agent = judging(agents.MADDPG)(hidden_size=(8,), env=CoordinationGame)
            agent.build()
            agent.set(policy=GreedyQPolicy(), MARL=True, **replay)
        else:
            agent = agents.PPO(hidden_size=(8,), env="CartPole-v1")
            agent.set(policy=Sure(), PPO=True, rollout_steps=20, num_epochs=2, normalise_obs=True, **common)
        optimizers = [framework.optimizers.adam(group, 1e-2) for group in parameter_groups(agent.param)]
        result = agent.train(
            optimizer=optimizers if len(optimizers) > 1 else optimizers[0],
            total_steps=240 if kind == "epochs" else 150,
            p=0,
            **options,
        )
        return result.losses, result.returns

    here = losses()
    there = losses(pool_network=True, processes=2, parallel_store_and_training=False)
    np.testing.assert_allclose(here[0], there[0], rtol=1e-4)
    np.testing.assert_allclose(here[1], there[1], rtol=1e-5)
    assert len(here[0]) >= 4


class Sure(SoftmaxPolicy):
    """The most probable action, with its probability."""

    def select(self, scores, rng):
        return self.greedy(scores)


def judging(kind):
    """An agent that changes rewards by a number that build() makes."""

    class Judging(kind):
        def build(self):
            self.factor = 3.0

        def reward_done_func_ma(self, rewards, dones):
            return np.asarray(rewards) * self.factor, dones

    return Judging


class Fickle(CountingAgent):
    """Has a parameter more when it is made than later."""

    def __init__(self, env):
        super().__init__(env, mirrored=False)
        self.further = np.zeros(3, np.float32)


def test_an_agent_that_comes_out_differently_in_workers_is_refused():
    agent = Fickle(Watched)
    agent.settings = settings(WorkerSettings(processes=2), rollout=3)
    agent.further = None
    with pytest.raises(WorkerError, match="has 'agent/further', which the one that trains does not have: define build"):
        agent.train(total_steps=24)


@pytest.mark.slow_in_keras
@BOTH
def test_state_dependent_noise_of_workers_is_as_wide_as_the_agent_says(framework):
    """Each worker has noise matrices of its own; the density of what it chose is that of the agent's answers."""
    seed_everything(1)
    agent = framework.agents.A2C(hidden_size=(8,), env="Pendulum-v1", gsde=GSDE(), initial_log_std=-1.0)
    policy = GSDEPolicy(hold=5)
    agent.settings = settings(WorkerSettings(processes=2, overlapping=False), num_envs=3, policy=policy)
    with running_pool(agent, policy) as (pool, act):
        for _ in range(2):
            steps, _ = pool.collect(act, 10)
            scores = act(steps.obs.reshape(-1, 3))
            expected = policy.log_prob(scores, steps.action.reshape(-1, 1)).reshape(10, 3)
            np.testing.assert_allclose(steps.log_prob, expected, rtol=1e-3, atol=1e-3)
            noise = steps.action[..., 0] - scores[:, 0].reshape(10, 3)
            assert len(np.unique(noise.round(6))) == 30
            numbers = agent.learner.get_state()
            agent.learner.set_state(
                {n: v + np.float32(0.1) if v.dtype == np.float32 else v for n, v in numbers.items()}
            )
