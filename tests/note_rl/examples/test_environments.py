import gymnasium
import numpy as np

import note_rl.examples.environments as goal_environments


def test_bits_flip_one_by_one_until_they_match():
    env = goal_environments.BitFlipping(6)
    obs, _ = env.reset(seed=3)
    different = np.flatnonzero(obs["observation"] != obs["desired_goal"])
    assert len(different)
    before = obs["observation"].copy()
    for number, bit in enumerate(different):
        obs, reward, terminated, truncated, _ = env.step(int(bit))
        assert np.flatnonzero(obs["achieved_goal"] != before).tolist() == different[: number + 1].tolist()
        last = number == len(different) - 1
        assert (reward, terminated, truncated) == (0.0 if last else -1.0, last, False)


def test_the_point_moves_as_fast_as_it_can_up_to_the_edge():
    env = goal_environments.PointReach(speed=0.5)
    obs, _ = env.reset(seed=0)
    start = obs["observation"]
    obs, *_ = env.step(np.array([0.2, -9.0]))
    np.testing.assert_allclose(obs["observation"], np.clip(start + np.array([0.1, -0.5]), -1.0, 1.0), rtol=1e-6)
    for _ in range(5):
        obs, *_ = env.step(np.ones(2))
    assert obs["achieved_goal"].tolist() == [1.0, 1.0]


def test_reward_and_end_of_many_pairs_at_once():
    env = goal_environments.PointReach(reach=0.5)
    achieved, desired = np.array([[0.0, 0.0], [0.3, 0.3], [1.0, 0.0]]), np.zeros((3, 2))
    assert env.compute_reward(achieved, desired, {}).tolist() == [0.0, 0.0, -1.0]
    assert env.compute_terminated(achieved, desired, {}).tolist() == [True, True, False]
    assert env.compute_reward(achieved[2], desired[2], {}) == -1.0


def test_they_are_registered_with_a_time_limit():
    for name, limit in (("BitFlipping-v0", 15), ("BitFlipping8-v0", 8), ("PointReach-v0", 50)):
        env = gymnasium.make(name)
        assert env.spec.max_episode_steps == limit
        env.close()
