"""Agents of both frameworks in environments that do in one respect what few others do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from note_rl.policy import EpsGreedyQPolicy, NoisyPolicy, Policy, SquashedGaussianPolicy
from note_rl.policy.noise import GaussianWhiteNoiseProcess
from note_rl.training.checkpoint import read_checkpoint
from tests.note_rl.environments.odd_environments import InPlace, OneFixed, Plain, SingleNumber, WholeActions
from tests.note_rl.frameworks import frameworks

POLICIES: dict[str, Callable[[], Policy]] = {
    "DQN": lambda: EpsGreedyQPolicy(0.5),
    "DDPG": lambda: NoisyPolicy(GaussianWhiteNoiseProcess(sigma=0.5), relative=True),
    "TD3": lambda: NoisyPolicy(GaussianWhiteNoiseProcess(sigma=0.5), relative=True),
    "SAC": SquashedGaussianPolicy,
}
pytestmark = pytest.mark.parametrize("framework", frameworks())


def trained(framework: Any, name: str, make: Callable[[], Plain]) -> Any:
    """After 60 steps, of which 40 are learned from."""
    agent = getattr(framework.agents, name)(env=make, hidden_size=(8,))
    agent.set(policy=POLICIES[name](), pool_size=100, batch=16, train_freq=20, update_batches=1, seed=0)
    adam = framework.optimizers.adam
    optimizer = adam(agent.param, 1e-3) if name == "DQN" else [adam(group, 1e-3) for group in agent.param]
    result = agent.train(optimizer=optimizer, total_steps=60, jit_compile=False)
    assert np.isfinite(result.losses[-1])
    assert all(np.isfinite(parameter).all() for parameter in framework.parameters(agent))
    return agent


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("name", ["TD3", "SAC"])
def test_a_number_with_equal_bounds_is_no_reason_to_diverge(framework: Any, name: str) -> None:
    agent = trained(framework, name, OneFixed)
    action, _ = agent.predict(np.zeros(3, np.float32))
    assert action[0] == 0.0
    assert abs(action[1]) <= 1.0


def test_observations_of_a_single_number(framework: Any) -> None:
    agent = trained(framework, "DQN", SingleNumber)
    assert agent.evaluate(2).returns.tolist() == [10.0, 10.0]
    one, _ = agent.predict(np.float32(0.3))
    several, _ = agent.predict(np.float32([0.3, 0.3]))
    assert several.tolist() == [int(one)] * 2


def test_whole_numbers_reach_the_environment_and_predict(framework: Any) -> None:
    agent = trained(framework, "DDPG", WholeActions)
    returns = agent.evaluate(2).returns  # of ten whole numbers from -2 to 10, and -1,000 for what is none
    assert np.all(np.mod(returns, 1) == 0)
    assert returns.min() >= -20.0
    action, _ = agent.predict(np.zeros(3, np.float32))
    assert agent.env().action_space.contains(action)


def test_what_is_learned_from_is_what_was_chosen(framework: Any, tmp_path: Path) -> None:
    agent = trained(framework, "DDPG", InPlace)
    agent.save(tmp_path / "agent.safetensors", save_data=True)
    arrays, _ = read_checkpoint(tmp_path / "agent.safetensors")
    stored = [values for name, values in arrays.items() if name.endswith("/action")]
    assert len(stored) == 1
    assert 0.0 < np.abs(stored[0]).max() <= 1.0
