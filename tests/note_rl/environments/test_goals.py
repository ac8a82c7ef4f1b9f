"""A goal stands at the end of what an agent sees."""

import gymnasium
import numpy as np

from note_rl.environments import VectorEnvironment, flat_observations


def test_in_training_the_goal_stands_at_the_end():
    envs = VectorEnvironment([flat_observations(gymnasium.make("BitFlipping8-v0")) for _ in range(2)], seed=0)
    assert envs.obs.shape == (2, 16)
    goal = envs.obs[:, 8:].copy()
    obs, _, next_obs, _, _ = envs.step(np.array([0, 3]))
    assert (obs[0, 0] != next_obs[0, 0], obs[1, 3] != next_obs[1, 3]) == (True, True)
    np.testing.assert_array_equal(next_obs[:, :8], envs.achieved_goal)
    np.testing.assert_array_equal(next_obs[:, 8:], goal)
