"""Environments of several agents whose steps can be worked out by hand."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo.utils.env import ParallelEnv


class Unlike(ParallelEnv):
    """Two unlike agents: a scout that leaves after its second step, and a carrier that goes on until time is up.

    Observations tell the step; the scout's has one number and two actions, the carrier's two numbers and three
    actions, counted from 1. Rewards are the actions.
    """

    metadata = {"name": "unlike_v0"}  # noqa: RUF012

    def __init__(self, length: int = 4) -> None:
        self.possible_agents = ["scout", "carrier"]
        self.length = length
        self.taken: list[dict[str, Any]] = []

    def observation_space(self, agent):
        return spaces.Box(-9.0, 9.0, (1 if agent == "scout" else 2,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2) if agent == "scout" else spaces.Discrete(3, start=1)

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        self.number = 0
        return self._seen(), {name: {} for name in self.agents}

    def step(self, actions):
        self.taken.append(dict(actions))
        self.number += 1
        present = list(self.agents)
        terminated = {name: name == "scout" and self.number == 2 for name in present}
        truncated = dict.fromkeys(present, self.number == self.length)
        reward = {name: float(actions[name]) for name in present}
        seen = self._seen()
        self.agents = [name for name in present if not terminated[name] and not truncated[name]]
        return seen, reward, terminated, truncated, {name: {} for name in present}

    def _seen(self):
        values = {"scout": [self.number], "carrier": [self.number, -self.number]}
        return {name: np.array(values[name], np.float32) for name in self.agents}


class Lists:
    """The manual's kind: lists everywhere, one entry per agent; two agents with two numbers each as actions."""

    def __init__(self, new_style: bool = False, by_time: bool = False) -> None:
        self.observation_space = [spaces.Box(-9.0, 9.0, (2,), np.float32)] * 2
        self.action_space = [spaces.Box(-1.0, 1.0, (1,), np.float32), spaces.Box(-2.0, 2.0, (2,), np.float32)]
        self.new_style = new_style
        self.by_time = by_time
        self.taken: list[Any] = []

    def reset(self):
        self.number = 0
        return self._seen()

    def step(self, actions):
        self.taken.append(actions)
        self.number += 1
        over = self.number == 3
        if self.new_style:
            return self._seen(), [1.0, 2.0], [over and not self.by_time] * 2, [over and self.by_time] * 2, {}
        return self._seen(), [1.0, 2.0], [over, over], {"TimeLimit.truncated": self.by_time and over}

    def _seen(self):
        return [np.array([self.number, index], np.float64) for index in range(2)]


class Pair:
    """Two agents of PettingZoo's kind that show the number of the step, and earn 1 each."""

    metadata = {"name": "pair_v0"}  # noqa: RUF012
    possible_agents = ("one", "two")

    def observation_space(self, agent):
        return spaces.Box(-9, 9, (2,), np.float32)

    def action_space(self, agent):
        return spaces.Box(0, 5, (1,), np.int64)

    def reset(self, seed=None, options=None):
        self.agents, self.number, self.taken = list(self.possible_agents), 0, []
        return self.seen(), {name: {} for name in self.agents}

    def step(self, actions):
        self.taken.append({name: action.tolist() for name, action in actions.items()})
        for action in actions.values():
            action *= 10
        self.number += 1
        return self.seen(), self.each(np.array([1.0])), self.each(False), self.each(self.number == 3), self.each({})

    def each(self, value):
        return dict.fromkeys(self.agents, value)

    def seen(self):
        return self.each(np.full(2, self.number) if self.number == 0 else np.full(2, self.number / 4))


class Two:
    """Two agents in lists; both end with the third step, as `flags` and `infos` tell."""

    n = 2

    def __init__(self, flags: Any = ([True, True],), infos: Any = None, rewards: Any = (1.0, 2.0)) -> None:
        self.observation_space = [spaces.Box(-9, 9, (1,), np.float32)] * 2
        self.action_space = [spaces.Discrete(2)] * 2
        self.flags, self.infos, self.rewards = flags, infos, rewards

    def reset(self, seed: Any = None) -> Any:
        self.t = 0
        return [np.zeros(1, np.float32)] * 2

    def step(self, actions: Any) -> Any:
        self.t += 1
        obs = [np.full(1, self.t, np.float32)] * 2
        flags = self.flags if self.t == 3 else [np.zeros_like(flag) for flag in self.flags]
        return obs, self.rewards, *flags, self.infos if self.t == 3 else {}


class TruncatedEach(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Tells of each agent whether its time is up."""

    def __init__(self, env: Any, late: Any) -> None:
        super().__init__(env)
        self.late, self.t = late, 0

    def reset(self, **arguments: Any) -> Any:
        self.t = 0
        return self.env.reset(**arguments)

    def step(self, action: Any) -> Any:
        obs, reward, terminated, _, info = self.env.step(action)
        self.t += 1
        return obs, reward, terminated, self.late if self.t == 2 else np.zeros(2, bool), info
