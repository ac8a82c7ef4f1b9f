"""Several policies as one: for each environment, and for each agent."""

import numpy as np
import pytest
from gymnasium import spaces

from note_rl.errors import SettingsError
from note_rl.policy import (
    EpsGreedyQPolicy,
    NoisyPolicy,
    PolicyPerAgent,
    PolicyPerEnvironment,
    SoftmaxPolicy,
    exploration,
)
from note_rl.policy.noise import GaussianWhiteNoiseProcess
from tests.note_rl.policy.bounds import N, rng


def joint_box(low, high):
    return spaces.Box(np.array(low, np.float32), np.array(high, np.float32))


def test_one_policy_per_environment():
    policy = exploration([EpsGreedyQPolicy(0.0), EpsGreedyQPolicy(1.0)], None)
    assert isinstance(policy, PolicyPerEnvironment)
    policy.bind(spaces.Discrete(3), 2)
    generator = rng()
    chosen = np.stack([policy.select(np.array([[0.0, 1.0, 0.0]] * 2), generator) for _ in range(2000)])
    assert (chosen[:, 0] == 1).all()
    np.testing.assert_allclose(np.bincount(chosen[:, 1]) / 2000, np.full(3, 1 / 3), atol=0.05)
    assert policy.greedy(np.eye(3)).tolist() == [0, 1, 2]  # evaluation steps another number of environments
    assert policy.log_prob(np.eye(3)[:2], np.array([0, 1])) is None
    with pytest.raises(SettingsError, match=r"2 policies .* for 3 environments"):
        policy.bind(spaces.Discrete(3), 3)


def test_one_policy_per_agent_of_a_joint_space():
    policy = exploration([EpsGreedyQPolicy(0.0), SoftmaxPolicy()], None, per_agent=True)
    assert isinstance(policy, PolicyPerAgent)
    policy.bind(spaces.MultiDiscrete([2, 2]), 4)
    scores = np.tile(np.array([[0.0, 1.0], [1.0, 0.0]]), (4, 1, 1))  # [E, n, A]
    assert policy.select(scores, rng()).tolist() == [[1, 0]] * 4
    noisy = exploration(None, [GaussianWhiteNoiseProcess(sigma=0.0), GaussianWhiteNoiseProcess()], per_agent=True)
    noisy.bind(joint_box([[-1, -1], [-5, -5]], [[1, 1], [5, 5]]), 4)
    chosen = noisy.select(np.full((4, 2, 2), 3.0), rng())
    assert (chosen[:, 0] == 1.0).all()  # clipped to the bounds of the first agent
    assert (chosen[:, 1] > 1.0).any()
    with pytest.raises(SettingsError, match=r"2 policies .* for 3 agents"):
        policy.bind(spaces.MultiDiscrete([2, 2, 2]), 4)


def test_one_noise_for_all_agents_of_a_joint_space():
    policy = NoisyPolicy(GaussianWhiteNoiseProcess(sigma=1.0))
    policy.bind(joint_box([[-1], [-5]], [[1], [5]]), N)
    chosen = policy.select(np.zeros((N, 2, 1)), rng())
    assert chosen[:, 0].max() == 1.0
    assert chosen[:, 1].std() == pytest.approx(1.0, abs=0.02)
