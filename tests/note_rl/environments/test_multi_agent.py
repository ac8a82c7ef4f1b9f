"""Environments of several agents seen as one, and what is collected in them."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from note_rl.collect.collector import Collector
from note_rl.environments import VectorEnvironment, make_environments
from note_rl.environments.multi_agent import JointEnvironment, joint_environments
from note_rl.errors import EnvironmentMismatchError
from note_rl.examples.coordination import CoordinationGame
from note_rl.policy import SoftmaxPolicy
from tests.note_rl.environments.several_agents import Lists, Pair, TruncatedEach, Two, Unlike


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


def test_masks_that_several_agents_do_not_heed_are_named(caplog):
    class Masked(Unlike):
        metadata = {"name": "masked_v0"}  # noqa: RUF012

        def reset(self, seed=None, options=None):
            seen, infos = super().reset(seed)
            return seen, {name: {"action_mask": np.ones(2, np.int8)} for name in infos}

    JointEnvironment(Masked()).reset(seed=1)
    assert "Masked tells by action_mask which actions are allowed" in caplog.text


class LeavesByTime(Unlike):
    """The scout leaves as its own time is up, while the carrier goes on."""

    def __init__(self, alone: bool) -> None:
        super().__init__()
        self.alone = alone

    def step(self, actions):
        seen, reward, terminated, truncated, infos = super().step(actions)
        late = {name: truncated[name] or terminated[name] for name in reward}
        return (
            (seen, reward, dict.fromkeys(reward, False), late, infos)
            if self.alone
            else (seen, reward, terminated, truncated, infos)
        )


@pytest.mark.parametrize("alone", [True, False])
def test_an_agent_whose_time_is_up_alone_is_warned_of(caplog, alone):
    env = JointEnvironment(LeavesByTime(alone))
    env.reset(seed=1)
    for _ in range(4):
        env.step(np.array([1, 0]))
    assert ("LeavesByTime truncates one agent while others go on" in caplog.text) is alone


@pytest.mark.parametrize("number", [0, 1, 2])
def test_so_is_one_of_an_environment_of_lists(caplog, number):
    """Of the first agent the time is up at once, or, with 2, it ends, which is no truncation."""

    class OneLate(Lists):
        def step(self, actions):
            seen, reward, _, truncated, infos = super().step(actions)
            return seen, reward, [number == 2, False], [number == 1 or truncated[0], truncated[1]], infos

    env = JointEnvironment(OneLate(new_style=True, by_time=True))
    env.reset(seed=1)
    for _ in range(3):
        env.step(np.array([[0.5, 0.0], [1.0, -1.0]], np.float32))
    assert ("OneLate truncates one agent" in caplog.text) is (number == 1)


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


@pytest.mark.parametrize(
    ("late", "ends"),
    [
        ([True, True], [False, True, False]),
        ([True, False], [False, False, True]),
        (np.array([1]), [False, True, False]),
    ],
)
def test_the_time_of_all_agents_is_up_when_that_of_each_is(late: Any, ends: list[bool]) -> None:
    envs = VectorEnvironment([TruncatedEach(JointEnvironment(Two()), late)], seed=0)
    steps = [envs.step(np.zeros((1, 2), np.int64)) for _ in range(3)]
    assert [bool(step[4][0]) for step in steps] == ends
    assert not np.any(steps[1][3])


@pytest.mark.parametrize("late", [[True, True, True], ["yes", "no"], [None, None], [[True], [True, False]]], ids=str)
def test_ends_of_agents_that_are_none_are_refused(late: Any) -> None:
    envs = VectorEnvironment([TruncatedEach(JointEnvironment(Two()), late)], seed=0)
    envs.step(np.zeros((1, 2), np.int64))
    with pytest.raises(EnvironmentMismatchError, match=r"step\(\) of Two gave .*truncated"):
        envs.step(np.zeros((1, 2), np.int64))


LATE = {"TimeLimit.truncated": True}


@pytest.mark.parametrize(
    ("infos", "terminated"),
    [(LATE, [False, False]), ([LATE, LATE], [False, False]), ([{}, LATE], [True, False]), ([{}, {}], [True, True])],
    ids=["one", "each", "second", "none"],
)
def test_a_time_limit_may_stand_in_the_info_of_each_agent(infos: Any, terminated: list[bool]) -> None:
    envs = VectorEnvironment([JointEnvironment(Two(infos=infos))], seed=0)
    *_, last = [envs.step(np.zeros((1, 2), np.int64)) for _ in range(3)]
    assert last[3][0].tolist() == terminated
    assert last[4].tolist() == [True]


def test_messages_name_the_environment_of_several_agents_itself() -> None:
    envs = VectorEnvironment([JointEnvironment(Two())], seed=0)
    assert envs.name == "Two"
