from typing import Any

import gymnasium
import numpy as np
import pytest

from note_rl.collect.evaluation import Greedy, evaluate, random_policy_returns
from note_rl.errors import EnvironmentMismatchError, SettingsError
from note_rl.policy import EpsGreedyQPolicy, NoisyPolicy, SoftmaxPolicy, SquashedGaussianPolicy
from note_rl.policy.noise import GaussianWhiteNoiseProcess
from tests.note_rl.environments.odd_environments import Plain, Spoiled
from tests.note_rl.environments.ways import first
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting


class Echo(gymnasium.Env):
    """The reward is the action, for three steps."""

    def __init__(self):
        self.observation_space = gymnasium.spaces.Box(0, 10, (1,), np.float32)
        self.action_space = gymnasium.spaces.Box(-2.0, 6.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.full(1, self.steps, np.float32), float(action[0]), self.steps == 3, False, {}


class Fees(Echo):
    """Three steps: twice a fee of 0.1, then a reward of 1; 0.8 in all, which is no sum in single precision."""

    def __init__(self):
        super().__init__()
        self.action_space = gymnasium.spaces.Discrete(2)

    def step(self, action):
        self.steps += 1
        over = self.steps == 3
        return np.full(1, self.steps, np.float32), 1.0 if over else -0.1, over, False, {}


def vector_of_fees():
    return gymnasium.vector.SyncVectorEnv([Fees] * 2)


@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize("env", [Fees, vector_of_fees])
def test_returns_are_sums_of_the_rewards_as_they_came(framework, env):
    agent = framework.agents.DQN(hidden_size=4, env=env)
    agent.set(policy=EpsGreedyQPolicy(0.5), train_freq=6, batch=512, criterion=-0.1 - 0.1 + 1.0, trial_count=2, seed=0)
    optimizer = framework.optimizers.adam(agent.param, learning_rate=0.001)
    result = agent.train(optimizer=optimizer, total_steps=60, p=0)
    assert set(result.returns) == {-0.1 - 0.1 + 1.0}
    assert result.stop_reason == "criterion"
    assert agent.evaluate(3).returns.tolist() == [-0.1 - 0.1 + 1.0] * 3


def acting(act, policy, frame_stack=1):
    return lambda space: Greedy(act, policy, space, frame_stack)


@pytest.mark.parametrize("policy", [None, NoisyPolicy(GaussianWhiteNoiseProcess(), num_random_steps=100)])
def test_no_noise_and_no_random_steps(policy):
    result = evaluate(acting(lambda obs: np.full((len(obs), 1), 1.5), policy), Echo, 3, seed=0)
    assert result.returns.tolist() == [4.5] * 3
    assert result.lengths.tolist() == [3] * 3


def test_a_squashed_gaussian_plays_its_centre():
    result = evaluate(acting(lambda obs: np.tile([0.5, 3.0], (len(obs), 1)), SquashedGaussianPolicy()), Echo, 2, seed=0)
    np.testing.assert_allclose(result.returns, 3 * (2.0 + 4.0 * np.tanh(0.5)), rtol=1e-6)


def test_frames_are_stacked_anew_in_each_episode():
    def act(obs):
        return obs[:, :1] + obs[:, -1:]  # the oldest frame plus the newest

    result = evaluate(acting(act, None, frame_stack=2), Echo, 12, seed=0)
    assert result.returns.tolist() == [0 + 0 + 0 + 1 + 1 + 2] * 12


def test_a_policy_that_does_not_fit_is_refused():
    with pytest.raises(EnvironmentMismatchError, match="SoftmaxPolicy"):
        evaluate(acting(lambda obs: obs, SoftmaxPolicy()), Echo, 1, seed=0)


def test_exactly_the_given_number_of_episodes_counts():
    assert len(evaluate(acting(lambda obs: np.zeros((len(obs), 2)), None), Counting, 13, seed=0).returns) == 13
    with pytest.raises(SettingsError, match="num_episodes must be at least 1"):
        evaluate(acting(lambda obs: obs, None), Counting, 0, seed=0)


def test_acting_at_random():
    first, second = (random_policy_returns(Echo, 200, seed=1) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert first.mean() == pytest.approx(3 * 2.0, abs=1.0)  # uniform in [-2, 6]
    assert random_policy_returns(Counting, 3, seed=1).tolist() == [6.0, 6.0, 6.0]


def test_an_evaluation_refuses_them_too() -> None:
    with pytest.raises(EnvironmentMismatchError, match="an observation of Spoiled holds nan"):
        evaluate(first, Spoiled, 2, seed=0)

    class NoSum(Plain):
        def reward(self) -> Any:
            return np.inf if self.t == 3 else 1.0

    with pytest.raises(EnvironmentMismatchError, match="NoSum gave None, nan or infinity as a reward"):
        evaluate(first, NoSum, 2, seed=0)
