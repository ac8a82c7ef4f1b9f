"""Tasks whose reward says nothing before the goal is reached: learned with hindsight, and not without."""

import pytest

from note_rl.policy import EpsGreedyQPolicy
from note_rl.policy.noise import GaussianWhiteNoiseProcess
from note_rl.seeding import seed_everything
from tests.note_rl.frameworks import Framework, frameworks

PYTORCH = Framework("pytorch")
BITS, POINT = (f"note_rl.examples.environments:{name}-v0" for name in ("BitFlipping", "PointReach"))


def flips_bits(framework, total_steps, seed=0, **flags):
    """Mean return of 50 episodes with 15 bits, by a DQN: about -6.7 if all are solved, -15 if none is."""
    agents = framework.agents  # imported before the seed is set
    seed_everything(seed)
    agent = agents.DQN(env=BITS, hidden_size=(128,), gamma=0.98, tau=0.05)
    agent.set(
        policy=EpsGreedyQPolicy(0.2),
        pool_size=100_000,
        batch=128,
        train_freq=40,
        num_updates=40,
        update_batches=1,
        learning_starts=500,
        num_envs=4,
        seed=seed,
        **flags,
    )
    agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-3), total_steps=total_steps, p=0)
    return agent.evaluate(50).mean


def reaches_points(framework, total_steps, seed=0, **flags):
    """Mean return of 50 episodes, by a DDPG: about -3 at best, -50 if no goal is reached."""
    agents = framework.agents
    seed_everything(seed)
    agent = agents.DDPG(env=POINT, hidden_size=(64, 64), gamma=0.98, tau=0.05)
    agent.set(
        noise=GaussianWhiteNoiseProcess(sigma=0.3),
        pool_size=100_000,
        batch=128,
        train_freq=50,
        num_updates=50,
        update_batches=1,
        learning_starts=500,
        num_envs=2,
        seed=seed,
        **flags,
    )
    optimizers = [framework.optimizers.adam(group, 1e-3) for group in agent.param]
    agent.train(optimizer=optimizers, total_steps=total_steps, p=0)
    return agent.evaluate(50).mean


@pytest.mark.slow  # what hindsight makes of episodes: replay/test_hindsight.py
def test_with_hindsight_fifteen_bits_are_solved():
    assert flips_bits(PYTORCH, 6000, HER=True) >= -8.0


@pytest.mark.slow
def test_without_hindsight_they_are_not():
    assert flips_bits(PYTORCH, 2000) <= -14.5


@pytest.mark.slow
def test_with_hindsight_points_are_reached():
    assert reaches_points(PYTORCH, 2500, HER=True) >= -6.0


@pytest.mark.slow
@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize(
    "flags", [{"HER": True}, {"HER": "final"}, {"HER": "episode"}, {"HER": True, "PR": True}], ids=str
)
def test_every_strategy_solves_fifteen_bits_on_two_of_three_seeds(framework, flags):
    assert sorted(flips_bits(framework, 10_000, seed, **flags) for seed in range(3))[1] >= -7.5


@pytest.mark.slow
@pytest.mark.parametrize("framework", frameworks())
def test_without_hindsight_they_are_not_solved_on_any_of_three_seeds(framework):
    assert max(flips_bits(framework, 10_000, seed) for seed in range(3)) <= -14.5


@pytest.mark.slow
@pytest.mark.parametrize("framework", frameworks())
def test_points_are_reached_on_two_of_three_seeds_and_not_without_hindsight(framework):
    assert sorted(reaches_points(framework, 5000, seed, HER=True) for seed in range(3))[1] >= -5.0
    assert sorted(reaches_points(framework, 5000, seed) for seed in range(3))[1] <= -15.0
