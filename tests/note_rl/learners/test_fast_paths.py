"""Whole runs with and without what makes them fast: the same seed ends at the same parameters, but for rounding."""

import gymnasium
import numpy as np
import pytest

from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.settings import ReplaySettings, RolloutSettings, Settings
from tests.note_rl.frameworks import frameworks

pytestmark = pytest.mark.parametrize("framework", frameworks())

ALGORITHMS = {"DQN": lambda: EpsGreedyQPolicy(0.2), "PPO": SoftmaxPolicy}


def experience(algorithm):
    if algorithm == "PPO":
        return RolloutSettings(num_steps=16, batch_size=16, num_epochs=4)
    return ReplaySettings(capacity=500, batch_size=16, learning_starts=64, train_freq=16, gradient_steps=16)


def one_by_one():
    return gymnasium.make("CartPole-v1")


def trained(framework, algorithm, fast):
    """Parameters before and after 640 steps, and returns.

    Fast are CartPole's own vector, layers evaluated in NumPy, and update blocks that are compiled or recorded.
    """
    base = getattr(framework.agents, algorithm)
    seed_everything(5)
    make = base if fast else type(f"Plain{algorithm}", (base,), {"acting_layers": lambda self: None})
    agent = make(hidden_size=(16,), env="CartPole-v1" if fast else one_by_one)
    agent.settings = Settings(experience=experience(algorithm), policy=ALGORITHMS[algorithm](), num_envs=4, seed=5)
    optimizer = framework.optimizers.adam(agent.param, 3e-4)
    before = framework.parameters(agent)
    result = agent.train(optimizer=optimizer, total_steps=640, jit_compile="auto" if fast else False, p=0)
    assert agent.learner.actor.is_mirrored() is fast
    return before, framework.parameters(agent), result.returns


@pytest.mark.xla
@pytest.mark.slow_in_keras
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_fast_and_plain_runs_end_at_the_same_parameters(framework, algorithm, monkeypatch):
    monkeypatch.setattr("note_rl.learners.pytorch.step_graph.choice._WORTH_RECORDING", 300)
    (before, fast, returns), (_, plain, others) = (trained(framework, algorithm, fast) for fast in (True, False))
    assert returns == others
    assert max(np.abs(now - then).max() for now, then in zip(fast, before, strict=True)) > 1e-2
    for one, other in zip(fast, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
