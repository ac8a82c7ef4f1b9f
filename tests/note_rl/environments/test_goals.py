"""A goal stands at the end of what an agent sees."""

import gymnasium
import numpy as np

from note_rl.environments import VectorEnvironment, flat_observations
from note_rl.environments.goals import goal_layout


def test_in_training_the_goal_stands_at_the_end():
    envs = VectorEnvironment(
        [flat_observations(gymnasium.make("note_rl.examples.environments:BitFlipping8-v0")) for _ in range(2)], seed=0
    )
    assert envs.obs.shape == (2, 16)
    goal = envs.obs[:, 8:].copy()
    obs, _, next_obs, _, _ = envs.step(np.array([0, 3]))
    assert (obs[0, 0] != next_obs[0, 0], obs[1, 3] != next_obs[1, 3]) == (True, True)
    np.testing.assert_array_equal(next_obs[:, :8], envs.achieved_goal)
    np.testing.assert_array_equal(next_obs[:, 8:], goal)


def test_rewards_of_goals_are_those_of_the_outermost_wrapper_that_tells_them():
    class Doubled(gymnasium.RewardWrapper):
        def reward(self, reward):
            return 2.0 * reward

        def compute_reward(self, achieved, desired, info):
            return 2.0 * self.env.unwrapped.compute_reward(achieved, desired, info)

    plain = gymnasium.make("note_rl.examples.environments:BitFlipping8-v0")
    bits = np.zeros((1, 8)), np.ones((1, 8))
    (reward,) = goal_layout(flat_observations(plain)).compute_reward(*bits, {})
    (doubled,) = goal_layout(flat_observations(gymnasium.wrappers.TimeLimit(Doubled(plain), 5))).compute_reward(
        *bits, {}
    )
    assert (reward, doubled) == (-1.0, -2.0)
