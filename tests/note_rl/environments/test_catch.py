"""The game of our own on an Atari-like screen: its rules, and a run in it that is resumed."""

import numpy as np
import pytest

from note_rl.agents.pytorch import DQN
from note_rl.agents.shared.torch.networks import CNN
from note_rl.environments import EnvFactory
from note_rl.environments.training_only import LifeLoss, SignOfReward
from note_rl.examples.catch import Catch
from note_rl.optimizers import pytorch as optimizers
from note_rl.policy import EpsGreedyQPolicy
from note_rl.seeding import seed_everything
from note_rl.settings import ReplaySettings, Settings
from tests.note_rl.frameworks import Framework

LEFT, STAY, RIGHT = 0, 1, 2


def cells(screen):
    """Where on the screen of 7x7 cells something is, by what it shows."""
    grid = screen[::12, ::12]
    np.testing.assert_array_equal(screen, grid.repeat(12, axis=0).repeat(12, axis=1))
    return {int(value): tuple(map(int, np.argwhere(grid == value)[0])) for value in np.unique(grid) if value}


def thrown(column, drift, **kwargs):
    env = Catch(**kwargs)
    env.reset(seed=0)
    env._ball, env._drift = (0, column), drift
    return env


def test_a_ball_bounces_off_the_wall_and_is_caught():
    env = thrown(column=5, drift=1)
    seen = [env.step(action) for action in (RIGHT, STAY, STAY, LEFT, LEFT, LEFT)]
    assert [cells(obs).get(255) for obs, *_ in seen] == [(1, 6), (2, 5), (3, 4), (4, 3), (5, 2), (6, 1)]
    assert [cells(obs).get(128) for obs, *_ in seen[:-1]] == [(6, 4), (6, 4), (6, 4), (6, 3), (6, 2)]
    assert [reward for _, reward, *_ in seen] == [0.0] * 5 + [1.0]
    assert seen[-1][2:] == (False, False, {"lives": 3})


def test_a_ball_that_is_missed_takes_a_life_and_the_last_one_the_game():
    env = thrown(column=0, drift=0, lives=2)
    for lives in (1, 0):
        env._ball, env._drift = (0, 0), 0
        last = [env.step(RIGHT) for _ in range(6)][-1]
        assert last[1:] == (0.0, lives == 0, False, {"lives": lives})


def test_ten_balls_are_a_game():
    env = thrown(column=3, drift=0)
    total = 0.0
    for ball in range(10):
        env._ball, env._drift = (0, 3), 0
        for _ in range(6):
            _, reward, terminated, _, _ = env.step(STAY)
            total += reward
        assert terminated == (ball == 9)
    assert total == 10.0


def made():
    seed_everything(0)
    factory = EnvFactory("note_rl.examples.catch:Catch-v0", training_wrappers=(LifeLoss, SignOfReward))
    agent = DQN(env=factory, network=lambda shape, outputs: CNN(shape, outputs, (8,)), frame_stack=2)
    experience = ReplaySettings(
        **{"capacity": 40, "batch_size": 4, "learning_starts": 8, "train_freq": 6, "gradient_steps": 1},
        **{"target_update_interval": 2, "frame_stack": 2, "num_steps": 3},
    )
    agent.settings = Settings(experience=experience, policy=EpsGreedyQPolicy(0.3), num_envs=2, seed=0)
    return agent, optimizers.adam(agent.param, 1e-2)


@pytest.mark.parametrize("steps", [24, 48])  # within the second life of the first game, and behind the end of one
def test_a_run_that_is_resumed_is_the_undisturbed_one(tmp_path, steps):
    framework = Framework("pytorch")
    straight, optimizer = made()
    straight.train(optimizer=optimizer, total_steps=steps, p=0)
    straight.save(tmp_path / "half")
    result = straight.train(total_steps=96, p=0)
    resumed, optimizer = made()
    resumed.restore(tmp_path / "half")
    again = resumed.train(optimizer=optimizer, total_steps=96, p=0)
    assert again.returns == result.returns[-len(again.returns) :]
    for one, other in zip(framework.parameters(straight), framework.parameters(resumed), strict=True):
        np.testing.assert_array_equal(one, other)
