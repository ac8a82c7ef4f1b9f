"""Vector environments whose steps can be worked out by hand, and what is collected in them."""

import functools

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from note_rl.collect.collector import Collector
from note_rl.policy import GreedyQPolicy

COLUMNS = ("obs", "action", "reward", "next_obs", "terminated", "ended")


def makers(kind, by_time=False):
    return [functools.partial(kind, length, by_time) for length in (2, 3, 5)]


class Numbered(VectorEnv):
    """E countings written as one, in the mode NEXT_STEP, as the users' own vector environments are."""

    says_ends_twice = False  # in the dead step too

    def __init__(self, lengths=(2, 3, 5), by_time=False, mode=AutoresetMode.NEXT_STEP):
        self.num_envs = len(lengths)
        self.lengths, self.by_time = np.array(lengths), by_time
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, self.num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, self.num_envs)
        self.dead = np.zeros(self.num_envs, bool)
        self.steps = np.zeros(self.num_envs)

    def reset(self, *, seed=None, options=None):
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        self.steps[mask] = 0
        self.dead[mask] = False
        return self.steps[:, None].astype(np.float32), {}

    def step(self, actions):
        if self.metadata["autoreset_mode"] is AutoresetMode.DISABLED:
            assert not self.dead.any(), "stepped after the end"
        self.steps = np.where(self.dead, 0, self.steps + 1)
        over = (self.steps >= self.lengths) & ~self.dead
        reward = np.where(self.dead, -999.0, self.steps)
        self.dead, over = over, over | (self.dead & self.says_ends_twice)
        none = np.zeros(self.num_envs, bool)
        obs = self.steps[:, None].astype(np.float32)
        return obs, reward, none if self.by_time else over, over if self.by_time else none, {}


def collected(envs, num_steps, times=1):
    """Steps of a collector whose actions depend on observations only, joined along T, and its episodes."""
    collector = Collector(envs, GreedyQPolicy(), np.random.default_rng(0))
    rounds, episodes = [], []
    for _ in range(times):
        steps, ended = collector.collect(lambda obs: np.stack([obs[:, 0] % 2, np.full(len(obs), 0.5)], 1), num_steps)
        rounds.append(steps)
        episodes.extend(ended)
    return {name: np.concatenate([getattr(one, name) for one in rounds]) for name in COLUMNS}, episodes


def same(ours, theirs):
    for name in COLUMNS:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
        assert ours[name].dtype == theirs[name].dtype, name
