"""Environments of several agents seen as one, and what is collected in them."""

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo.utils.env import ParallelEnv

from note_rl.collect.collector import Collector
from note_rl.collect.evaluation import random_policy_returns
from note_rl.environments import VectorEnvironment, make_environments
from note_rl.environments.multi_agent import JointEnvironment, joint_environments
from note_rl.errors import EnvironmentMismatchError
from note_rl.examples.coordination import CoordinationGame
from note_rl.policy import SoftmaxPolicy


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


def test_unlike_agents_are_padded_to_the_largest():
    inner = Unlike()
    env = JointEnvironment(inner)
    assert env.num_agents == 2
    assert env.observation_space.shape == (2, 2)
    assert env.observation_space.high.tolist() == [[9.0, 0.0], [9.0, 9.0]]
    assert env.action_space.nvec.tolist() == [2, 3]
    obs, _ = env.reset(seed=1)
    assert obs.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    obs, reward, terminated, truncated, _ = env.step(np.array([1, 2]))
    assert obs.tolist() == [[1.0, 0.0], [1.0, -1.0]]
    assert inner.taken[-1] == {"scout": 1, "carrier": 3}  # counted from its own start
    assert (reward.tolist(), terminated.tolist(), truncated) == ([1.0, 3.0], [False, False], False)


def test_who_has_left_earns_nothing_and_stays_terminated():
    inner = Unlike()
    env = JointEnvironment(inner)
    env.reset(seed=1)
    env.step(np.array([1, 0]))
    obs, reward, terminated, truncated, _ = env.step(np.array([1, 0]))
    assert (obs.tolist(), reward.tolist()) == ([[2.0, 0.0], [2.0, -2.0]], [1.0, 1.0])  # what it saw last is true
    assert (terminated.tolist(), truncated) == ([True, False], False)
    obs, reward, terminated, truncated, _ = env.step(np.array([1, 0]))
    assert inner.taken[-1] == {"carrier": 1}
    assert (obs.tolist(), reward.tolist()) == ([[0.0, 0.0], [3.0, -3.0]], [0.0, 1.0])
    assert (terminated.tolist(), truncated) == ([True, False], False)
    *_, terminated, truncated, _ = env.step(np.array([1, 0]))
    assert (terminated.tolist(), truncated) == ([True, False], True)
    env.reset(seed=2)
    *_, terminated, _, _ = env.step(np.array([1, 0]))
    assert terminated.tolist() == [False, False]


def test_a_pettingzoo_environment_with_rounds_that_end_for_all():
    env = JointEnvironment(CoordinationGame(length=2))
    env.reset(seed=1)
    assert env.step(np.array([0, 0]))[3] is False
    *_, terminated, truncated, _ = env.step(np.array([0, 0]))
    assert (terminated.tolist(), truncated) == ([False, False], True)


@pytest.mark.parametrize("new_style", [False, True])
@pytest.mark.parametrize("by_time", [False, True])
def test_lists(new_style, by_time):
    inner = Lists(new_style, by_time)
    env = JointEnvironment(inner)
    assert env.action_space.low.tolist() == [[-1.0, 0.0], [-2.0, -2.0]]
    obs, _ = env.reset(seed=3)
    assert obs.tolist() == [[0.0, 0.0], [0.0, 1.0]]
    for _ in range(3):
        obs, reward, terminated, truncated, _ = env.step(np.array([[0.5, 0.0], [1.0, -1.0]], np.float32))
    assert [action.tolist() for action in inner.taken[-1]] == [[0.5], [1.0, -1.0]]
    assert reward.tolist() == [1.0, 2.0]
    assert (terminated.tolist(), truncated) == ([not by_time] * 2, by_time)


def test_one_space_for_all_needs_their_number():
    class Shared(Lists):
        n = 3

        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Box(-9.0, 9.0, (2,), np.float32)
            self.action_space = spaces.Discrete(4)

    assert JointEnvironment(Shared()).action_space.nvec.tolist() == [4, 4, 4]
    Shared.n = 1
    with pytest.raises(EnvironmentMismatchError, match="has one action space"):
        JointEnvironment(Shared())


def test_the_agents_own_reward_and_ends():
    seen = []

    def shared(reward, done):
        seen.append((reward.tolist(), done.tolist()))
        return reward.sum(), done.any()

    env = JointEnvironment(Unlike(), shared)
    env.reset(seed=1)
    env.step(np.array([1, 1]))
    _, reward, terminated, truncated, _ = env.step(np.array([1, 1]))
    assert seen[-1] == ([1.0, 2.0], [True, False])
    assert (reward.tolist(), terminated.tolist(), truncated) == ([3.0, 3.0], [True, True], False)
    env = JointEnvironment(Unlike(), lambda reward, done: (np.zeros(3), done))
    env.reset()
    with pytest.raises(EnvironmentMismatchError, match=r"rewards of the shape \[3\]; give one number for all"):
        env.step(np.array([1, 1]))


def test_other_environments_are_refused():
    class Mixed(Unlike):
        def action_space(self, agent):
            return spaces.Discrete(2) if agent == "scout" else spaces.Box(-1.0, 1.0, (1,))

    class Turns:
        agent_iter = None

    for env, message in [
        (Mixed(), "all discrete or all one-dimensional boxes"),
        (7, "needs a PettingZoo parallel environment"),
        (Turns(), r"use its parallel_env\(\)"),
        (gymnasium.make("CartPole-v1"), "has one action space"),
    ]:
        with pytest.raises(EnvironmentMismatchError, match=message):
            joint_environments(env)


def test_what_is_collected_has_an_agent_axis():
    factory = joint_environments(Unlike)
    envs = VectorEnvironment(make_environments(factory, 3), seed=1)
    collector = Collector(envs, SoftmaxPolicy(), np.random.default_rng(1))
    scores = np.zeros((3, 2, 3), np.float32)
    scores[:, :, 1] = 1.0  # always the second action: 1 for the scout, 2 for the carrier
    steps, episodes = collector.collect(lambda obs: scores, 6)
    assert steps.obs.shape == steps.next_obs.shape == (6, 3, 2, 2)
    assert steps.action.shape == steps.reward.shape == steps.terminated.shape == (6, 3, 2)
    assert steps.ended.shape == (6, 3)
    assert steps.num_env_steps == 18
    assert steps.reward[:, 0].tolist() == [[1, 2], [1, 2], [0, 2], [0, 2], [1, 2], [1, 2]]
    assert steps.terminated[:, 0, 0].tolist() == [False, True, True, True, False, True]
    assert not steps.terminated[:, :, 1].any()
    assert steps.ended[:, 0].tolist() == [False, False, False, True, False, False]
    assert [(episode.return_, episode.length) for episode in episodes] == [(10.0, 4)] * 3  # all agents' rewards


def test_environments_come_back_where_they_were():
    def make():
        return VectorEnvironment(make_environments(joint_environments(CoordinationGame), 2), seed=1)

    envs, actions = make(), np.array([[0, 1], [2, 3]])
    for _ in range(13):
        envs.step(actions)
    other = make()
    assert other.set_state(envs.get_state())
    for _ in range(9):
        for mine, theirs in zip(other.step(actions), envs.step(actions), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_the_coordination_game_by_hand():
    env = CoordinationGame(num_buttons=4, num_signs=3, length=3)
    seen, _ = env.reset(seed=5)
    sign = int(seen["left"].argmax())
    rewards = []
    for buttons in [(1, (sign - 1) % 4), None, (4, 0)]:
        if buttons is None:
            buttons = (1, int(seen["left"].argmax()))  # one more than the sign
        seen, reward, terminated, truncated, _ = env.step(dict(zip(env.possible_agents, buttons, strict=True)))
        rewards.append(reward["right"])
    assert rewards == [1.0, -1.0, 0.1]
    assert not any(terminated.values())
    assert all(truncated.values())
    assert env.render().shape == (120, 160, 3)


def test_the_coordination_game_keeps_to_pettingzoos_interface():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of PettingZoo, about its own environments
        from pettingzoo.test import parallel_api_test, parallel_seed_test
    parallel_api_test(CoordinationGame(), 50)
    parallel_seed_test(CoordinationGame, 50)


def test_what_random_players_get():
    # passing: 1 - (4/5)^2 = 0.36; else a quarter of the pairs win: 0.36*0.1 + 0.16 - 0.48 = -0.284, 20 times
    returns = random_policy_returns(joint_environments(CoordinationGame), 400, seed=0)
    assert abs(returns.mean() + 5.68) < 3 * returns.std() / 20


def test_an_id_and_a_wrapped_joint_environment():
    made = joint_environments("note_rl.examples.coordination:Coordination-v0")()
    assert made.unwrapped.num_agents == 2
    wrapped = gymnasium.wrappers.TimeLimit(made, 4)
    assert joint_environments(wrapped, lambda reward, done: (7.0, done)) is wrapped
    envs = VectorEnvironment([wrapped], seed=1)
    for step in range(4):
        _, reward, _, terminated, ended = envs.step(np.zeros((1, 2), np.int64))
        assert reward.tolist() == [[7.0, 7.0]]
        assert (terminated.tolist(), ended.tolist()) == ([[False, False]], [step == 3])


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


class Old(Pair):
    def reset(self, seed=None, options=None):
        return super().reset()[0]


class OldStep(Pair):
    def step(self, actions):
        seen, reward, terminated, _, infos = super().step(actions)
        return seen, reward, terminated, infos


class Hidden(Pair):
    def seen(self):
        return {name: seen for name, seen in super().seen().items() if name == "one" or not self.number}


class Unpaid(Pair):
    def step(self, actions):
        seen, reward, *others = super().step(actions)
        return seen, {"one": reward["one"]}, *others


class Short(Pair):
    def seen(self):
        return self.each(np.full(1 if self.number else 2, self.number))


class InTurn(Pair):
    def agent_iter(self):
        """As AEC environments have it."""

    def last(self):
        """As AEC environments have it."""


def test_what_several_agents_show_earn_and_are_given_is_as_their_spaces_say():
    inner = Pair()
    envs = VectorEnvironment([JointEnvironment(inner)], 0)
    assert envs.obs.dtype == np.float32
    action = np.array([[[3.6], [-2.0]]], np.float32)
    _, reward, obs, *_ = envs.step(action)
    assert obs.tolist() == [[[0.25, 0.25]] * 2]
    assert reward.tolist() == [[1.0, 1.0]]
    assert inner.taken == [{"one": [4], "two": [0]}]
    assert action.tolist() == [[[np.float32(3.6)], [-2.0]]]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Old, r"reset\(\) of Old gave a dict, and a parallel environment gives two values, .*infos"),
        (OldStep, r"step\(\) of OldStep gave a tuple of 4, and a parallel environment gives five values by agent"),
        (Hidden, r"step\(\) of Hidden gave no observation of the agent 'two', which is among its agents"),
        (Unpaid, r"step\(\) of Unpaid gave no reward or termination of the agent 'two', which has acted"),
        (Short, r"of Short gave an observation of the shape \[1\] where \[2\] is expected \(part of agent 0\)"),
        (InTurn, r"the agents of InTurn act one after the other \(AEC\), .*use its parallel_env\(\)"),
    ],
)
def test_parallel_environments_that_break_their_rules_are_refused(kind, words):
    with pytest.raises(EnvironmentMismatchError, match=words):
        VectorEnvironment([JointEnvironment(kind())], 0).step(np.zeros((1, 2, 1), np.float32))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (([[0.0, 0.0]], [1.0, 2.0], [False] * 2, {}), "Answering gave 1 observations in a list, and has 2 agents"),
        (([[0.0, 0.0]] * 2, [1.0] * 3, [False] * 2, {}), "gave 3 rewards in a list, and has 2 agents"),
        (([[0.0, 0.0]] * 2, [1.0] * 2, {}), r"step\(\) of Answering gave a tuple of 3; it must give observations, rew"),
    ],
)
def test_lists_hold_one_entry_per_agent(wrong, words):
    class Answering(Lists):
        def step(self, actions):
            return wrong

    env = JointEnvironment(Answering())
    env.reset(seed=0)
    with pytest.raises(EnvironmentMismatchError, match=words):
        env.step(np.zeros((2, 2), np.float32))
