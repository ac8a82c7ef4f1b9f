"""What environments do between the lines: arrays for several purposes, spaces that change, ends of other kinds."""

import logging
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from note_rl.agents.pytorch import DQN
from note_rl.environments import VectorEnvironment, flat_observations
from note_rl.environments.goals import goal_layout
from note_rl.environments.gymnasium_vector import foreign_environments
from note_rl.environments.multi_agent import JointEnvironment
from note_rl.errors import EnvironmentMismatchError
from note_rl.policy import EpsGreedyQPolicy, SquashedGaussianPolicy
from tests.note_rl.environments.odd_environments import Plain
from tests.note_rl.frameworks import frameworks

ONE_ARRAY = np.zeros(3, np.float32)
ONE_INFO = {"action_mask": np.zeros(3, np.int8)}


class OneArrayForAll(Plain):
    """All environments show their number in one array, and allow the action of that number in one dictionary."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.action_space = spaces.Discrete(3)
        self.number = number

    def answer(self) -> Any:
        ONE_ARRAY[:] = self.number / 10
        ONE_INFO["action_mask"][:] = np.arange(3) == self.number
        return ONE_ARRAY, ONE_INFO

    def reset(self, **arguments: Any) -> Any:
        super().reset(**arguments)
        return self.answer()

    def step(self, action: Any) -> Any:
        _, *others, _ = super().step(action)
        obs, info = self.answer()
        return obs, *others, info


def test_what_environments_share_is_read_before_the_next_one_writes_to_it() -> None:
    envs = VectorEnvironment([OneArrayForAll(number) for number in range(3)], seed=0)
    expected = np.repeat(np.float32([[0.0], [0.1], [0.2]]), 3, axis=1)
    for _ in range(12):  # over the end of an episode
        np.testing.assert_array_equal(envs.obs, expected)
        np.testing.assert_array_equal(envs.action_mask, np.eye(3, dtype=bool))
        _, _, next_obs, *_ = envs.step(np.arange(3))
        np.testing.assert_array_equal(next_obs, expected)
        np.testing.assert_array_equal(envs.next_action_mask, np.eye(3, dtype=bool))


class SameArray(Plain):
    """Shows every observation in the same array."""

    length = 3

    def __init__(self) -> None:
        super().__init__()
        self.array = np.zeros(3, np.float32)

    def shown(self) -> Any:
        self.array[:] = self.t / 10
        return self.array


class SameGoal(SameArray):
    """Shows what is achieved, and a goal, in the same arrays each time."""

    def __init__(self) -> None:
        super().__init__()
        parts = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = spaces.Dict(dict.fromkeys(parts, self.observation_space))

    def shown(self) -> Any:
        return dict.fromkeys(self.observation_space, super().shown())

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return np.ones(len(achieved), np.float32)


class Home(Plain):
    """Ends where it began, in an array of its own each time."""

    length = 3

    def shown(self) -> Any:
        return np.full(3, self.t % 3 / 10, np.float32)


@pytest.mark.parametrize("env", [SameArray, SameGoal])
@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_a_last_observation_that_the_next_episode_has_overwritten_is_refused(kind: Any, env: Any) -> None:
    goals = goal_layout(flat_observations(env()))
    envs = foreign_environments(kind([env] * 2, autoreset_mode=AutoresetMode.SAME_STEP), 0, goals)
    try:
        for _ in range(2):
            envs.step(np.zeros(2, np.int64))
        with pytest.raises(EnvironmentMismatchError, match="shows all observations in one array"):
            envs.step(np.zeros(2, np.int64))
    finally:
        envs.close()


def test_an_episode_may_end_where_it_began() -> None:
    envs = foreign_environments(SyncVectorEnv([Home] * 2, autoreset_mode=AutoresetMode.SAME_STEP), 0)
    ends = [envs.step(np.zeros(2, np.int64))[4].tolist() for _ in range(6)]
    assert ends == [[False] * 2, [False] * 2, [True] * 2] * 2


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_in_other_modes_it_is_read_in_time(mode: AutoresetMode) -> None:
    envs = foreign_environments(SyncVectorEnv([SameArray] * 2, autoreset_mode=mode), 0)
    for t in (0.1, 0.2, 0.3, 0.1):
        _, _, next_obs, *_ = envs.step(np.zeros(2, np.int64))
        assert next_obs[:, 0].tolist() == [np.float32(t)] * 2


class Changing(Plain):
    """Has other spaces from the second episode on."""

    length = 2

    def __init__(self, **later: Any) -> None:
        super().__init__()
        self.later, self.number = later, 0

    def reset(self, **arguments: Any) -> Any:
        self.number += 1
        if self.number == 2:
            vars(self).update(self.later)
        return super().reset(**arguments)


@pytest.mark.parametrize(
    "later",
    [
        {"action_space": spaces.Discrete(1)},
        {"action_space": spaces.Discrete(2, start=5)},
        {"action_space": spaces.Discrete(5)},
        {"observation_space": spaces.Box(-1, 1, (3,), np.float64)},
    ],
    ids=str,
)
def test_spaces_that_change_with_an_episode_are_refused(later: dict[str, Any]) -> None:
    envs = VectorEnvironment([Changing(**later)], seed=0)
    envs.step(np.zeros(1, np.int64))
    with pytest.raises(EnvironmentMismatchError, match=r"reset\(\) of Changing changed its (action|observation) space"):
        envs.step(np.zeros(1, np.int64))


def test_equal_spaces_and_other_bounds_are_no_change() -> None:
    later = {"action_space": spaces.Discrete(2), "observation_space": spaces.Box(-2, 2, (3,), np.float32)}
    envs = VectorEnvironment([Changing(**later)], seed=0)
    for _ in range(5):
        envs.step(np.zeros(1, np.int64))


class Parts(Changing):
    """Shows its number within a dictionary and a tuple."""

    def __init__(self, later: float, count: int = 3) -> None:
        super().__init__(observation_space=self.of(later, count))
        self.observation_space = self.of(1.0, 3)

    @staticmethod
    def of(high: float, count: int) -> spaces.Dict:
        array = spaces.Box(-high, high, (3,), np.float32)
        return spaces.Dict({"a": array, "b": spaces.Tuple((array, spaces.Discrete(count)))})

    def shown(self) -> Any:
        return {"a": super().shown(), "b": (super().shown(), np.int64(0))}


def test_other_bounds_of_parts_are_no_change_and_other_choices_are() -> None:
    envs = VectorEnvironment([flat_observations(Parts(2.0))], seed=0)
    for _ in range(5):
        envs.step(np.zeros(1, np.int64))
    envs = VectorEnvironment([flat_observations(Parts(1.0, 4))], seed=0)
    envs.step(np.zeros(1, np.int64))
    with pytest.raises(EnvironmentMismatchError, match="changed its observation space"):
        envs.step(np.zeros(1, np.int64))


def test_a_space_may_be_that_of_a_wrapper_alone() -> None:
    env = Plain()
    wrapped = gymnasium.wrappers.TransformAction(env, lambda action: action, spaces.Discrete(2))
    del env.action_space
    envs = VectorEnvironment([wrapped], seed=0)
    for _ in range(12):
        envs.step(np.zeros(1, np.int64))


class LateMask(Plain):
    """Tells which actions are allowed after steps only."""

    def step(self, action: Any) -> Any:
        *others, _ = super().step(action)
        return *others, {"action_mask": np.array([1, 0], np.int8)}


@pytest.mark.parametrize(
    "make", [lambda: VectorEnvironment([LateMask()], 0), lambda: foreign_environments(late_vector(), 0)]
)
def test_masks_that_begin_with_the_first_step_are_refused(make: Any) -> None:
    envs = make()
    with pytest.raises(EnvironmentMismatchError, match=r"step\(\) of LateMask tells .* its first reset\(\) did not"):
        envs.step(np.zeros(len(envs), np.int64))


def late_vector() -> SyncVectorEnv:
    return SyncVectorEnv([LateMask] * 2)


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([2, 2]), spaces.Box(0, 1, (2,))], ids=str)
def test_masks_of_other_actions_are_said_to_be_unheeded(space: Any, monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr("note_rl.errors._said", set())
    caplog.set_level(logging.WARNING)
    env = LateMask()
    env.action_space = space
    envs = VectorEnvironment([env], seed=0)
    envs.step(np.zeros((1, 2), np.int64))
    assert "masks are heeded where actions are Discrete" in caplog.text


def rewarding(reward: Any) -> VectorEnvironment:
    env = Plain()
    env.reward = lambda: reward  # type: ignore[method-assign]
    return VectorEnvironment([env], seed=0)


@pytest.mark.parametrize(
    ("reward", "named"),
    [
        (10**400, "a whole number of 1329 bits"),
        (10**5000, "a whole number of 16610 bits"),
        (np.ma.masked, "a MaskedConstant|an array"),
        (torch.tensor(1.0, requires_grad=True), "a Tensor"),
    ],
    ids=["400", "5000", "masked", "tensor"],
)
def test_what_is_no_reward_is_refused(reward: Any, named: str) -> None:
    with pytest.raises(EnvironmentMismatchError, match=rf"gave ({named}) .*as the reward; it must be one number"):
        rewarding(reward).step(np.zeros(1, np.int64))


@pytest.mark.parametrize("num_steps", [4, None])
@pytest.mark.parametrize("size", [1e39, np.inf, np.nan])
def test_rewards_that_single_precision_does_not_hold_are_refused_whatever_their_sum(
    size: float, num_steps: Any
) -> None:
    env = Plain()
    env.reward = lambda: size if env.t % 2 else -size  # type: ignore[method-assign]
    agent = DQN(hidden_size=4, env=env)
    agent.set(policy=EpsGreedyQPolicy(0.5), train_freq=num_steps, seed=0)
    with pytest.raises(EnvironmentMismatchError, match=r"nan or infinity as a reward, or a number beyond 3.4e38"):
        agent.train(torch.optim.Adam(agent.param), total_steps=30, p=0)


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        (np.ma.masked_array([0.1, 0.2, 0.3], [False, True, False]), "gave an observation with masked entries"),
        (torch.zeros(3, requires_grad=True), "gave a Tensor as an observation"),
    ],
    ids=["masked", "tensor"],
)
def test_what_is_no_observation_is_refused(shown: Any, message: str) -> None:
    env = Plain()
    env.shown = lambda: shown  # type: ignore[method-assign]
    with pytest.raises(EnvironmentMismatchError, match=message):
        VectorEnvironment([env], seed=0)


def test_a_masked_array_that_masks_nothing_is_an_array() -> None:
    env = Plain()
    env.shown = lambda: np.ma.masked_array(np.float32([0.1, 0.2, 0.3]), False)  # type: ignore[method-assign]
    np.testing.assert_array_equal(VectorEnvironment([env], seed=0).obs, np.float32([[0.1, 0.2, 0.3]]))


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
def test_a_time_limit_may_be_told_in_the_info_of_each_agent(infos: Any, terminated: list[bool]) -> None:
    envs = VectorEnvironment([JointEnvironment(Two(infos=infos))], seed=0)
    *_, last = [envs.step(np.zeros((1, 2), np.int64)) for _ in range(3)]
    assert last[3][0].tolist() == terminated
    assert last[4].tolist() == [True]


def test_messages_name_the_environment_of_several_agents_itself() -> None:
    envs = VectorEnvironment([JointEnvironment(Two())], seed=0)
    assert envs.name == "Two"


class Tagged(Plain):
    """Shows numbers of another type than that of their Discrete and MultiDiscrete spaces, and members of them."""

    def __init__(self) -> None:
        super().__init__()
        small = spaces.MultiDiscrete([3, 2], dtype=np.int8)
        self.observation_space = spaces.Dict({"one": spaces.Discrete(3, dtype=np.int32), "two": small})

    def shown(self) -> Any:
        return {"one": np.int64(2), "two": np.array([1, 1], np.int64)}


def test_whole_numbers_of_another_type_are_members_of_their_space() -> None:
    envs = VectorEnvironment([flat_observations(Tagged())], seed=0)
    assert envs.obs.tolist() == [[0, 0, 1, 0, 1, 0, 0, 1]]


NOTHING = [
    spaces.Box(-1, 1, (0,)),
    spaces.Dict({}),
    spaces.Tuple(()),
    spaces.Dict({"a": spaces.Box(-1, 1, (2, 0)), "b": spaces.Dict({})}),
]


@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize("space", NOTHING, ids=str)
def test_observations_without_a_number_are_refused(framework: Any, space: Any) -> None:
    env = Plain()
    env.observation_space = space
    with pytest.raises(EnvironmentMismatchError, match=r"Plain has the observation space .*, which holds no number"):
        framework.agents.DQN(env=env)


class OfNoKind:
    """Steps as an environment does, and is none of Gymnasium's."""

    observation_space, action_space = spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(3, np.float32), 0.0, True, False, {}


@pytest.mark.parametrize("env", [OfNoKind, OfNoKind()], ids=["class", "object"])
def test_what_is_no_environment_of_gymnasium_is_refused(env: Any) -> None:
    with pytest.raises(EnvironmentMismatchError, match=r"OfNoKind.* class does not derive from gymnasium\.Env"):
        DQN(env=env)


TOO_WIDE = [
    spaces.Box(0.0, np.inf, (2,)),
    spaces.Box(-1e300, 1e300, (2,), np.float64),
    spaces.Box(-3e38, 3e38, (2,), np.float64),
]


@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize("space", TOO_WIDE, ids=str)
def test_bounds_that_single_precision_does_not_hold_are_refused_with_what_helps(framework: Any, space: Any) -> None:
    env = Plain()
    env.action_space = space
    for name in ("DDPG", "TD3", "SAC"):
        with pytest.raises(EnvironmentMismatchError, match=rf"{name} needs .* finite bounds.*TransformAction"):
            getattr(framework.agents, name)(env=env)
    framework.agents.PPO(env=env)
    with pytest.raises(EnvironmentMismatchError, match=r"finite bounds.*TransformAction"):
        SquashedGaussianPolicy().bind(space, 1)
    narrow = gymnasium.wrappers.TransformAction(env, lambda action: action, spaces.Box(-1, 1, (2,)))  # as it says
    getattr(framework.agents, name)(env=narrow)
