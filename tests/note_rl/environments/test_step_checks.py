"""What environments give is held against what they say of it, and what they are given is theirs."""

import logging
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from note_rl.agents.pytorch import DQN
from note_rl.collect.collector import Collector
from note_rl.collect.evaluation import Greedy, evaluate
from note_rl.environments import Environments, VectorEnvironment, as_the_space_has_it, flat_observations
from note_rl.environments.gymnasium_vector import foreign_environments
from note_rl.environments.long_episodes import LONGEST, limited
from note_rl.errors import EnvironmentMismatchError
from note_rl.policy import EpsGreedyQPolicy, NoisyPolicy
from tests.note_rl.environments.odd_environments import (
    Endless,
    InPlace,
    OneFixed,
    Plain,
    SingleNumber,
    Spoiled,
    WholeActions,
    WholeAtFirst,
)
from tests.note_rl.frameworks import frameworks

Make = Callable[[], gymnasium.Env[Any, Any]]


def alone(make: Make) -> Environments:
    return VectorEnvironment([flat_observations(make()) for _ in range(2)], seed=0)


def wrapped(make: Make) -> Environments:
    return alone(lambda: gymnasium.wrappers.TimeLimit(gymnasium.wrappers.OrderEnforcing(make()), 10))


def vector(mode: AutoresetMode) -> Callable[[Make], Environments]:
    return lambda make: foreign_environments(SyncVectorEnv([make] * 2, autoreset_mode=mode), seed=0)


WAYS = {"alone": alone, "wrapped": wrapped, **{mode.name: vector(mode) for mode in AutoresetMode}}
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


def collected(envs: Environments, answer: Any, num_steps: int = 24) -> Any:
    """Steps [T, 2] with the same answer to everything."""
    policy = NoisyPolicy() if isinstance(envs.action_space, spaces.Box) else EpsGreedyQPolicy(0.0)
    collector = Collector(envs, policy, np.random.default_rng(0))
    answers = np.array([answer, answer], np.float32)
    return collector.collect(lambda obs: answers, num_steps)


@each_way
def test_what_the_space_says_is_stored_and_not_what_the_first_observation_was(way: Any) -> None:
    steps, _ = collected(way(WholeAtFirst), [1.0, 0.0])
    assert steps.obs.dtype == steps.next_obs.dtype == np.float32
    tenths = np.arange(24) % 10
    np.testing.assert_allclose(steps.obs[:, 0, 0], tenths / 10)
    np.testing.assert_allclose(steps.next_obs[:, 1, 2], (tenths + 1) / 10)


@each_way
def test_an_environment_may_write_to_its_action(way: Any) -> None:
    envs = way(InPlace)
    steps, episodes = collected(envs, [0.5, -0.25])
    assert np.unique(steps.action.reshape(-1, 2), axis=0).tolist() == [[0.5, -0.25]]
    assert [episode.return_ for episode in episodes] == [500.0] * 4
    kept = [value for name, value in envs.get_state().items() if name.startswith("actions/")]
    assert all(np.unique(value, axis=0).tolist() == [[0.5, -0.25]] for value in kept)


def test_an_environment_that_writes_to_its_action_is_brought_back() -> None:
    envs, again = alone(InPlace), alone(InPlace)
    collected(envs, [0.5, -0.25], 13)
    state = {name: np.array(value) for name, value in envs.get_state().items()}
    assert again.set_state(state)
    assert state["actions/0"].tolist() == [[0.5, -0.25]] * 3
    assert again.step(np.ones((2, 2), np.float32))[1].tolist() == [100.0, 100.0]


@each_way
@pytest.mark.parametrize(("chosen", "given"), [(3.4, 3.0), (3.6, 4.0), (-7.0, -2.0), (99.0, 10.0)])
def test_whole_numbers_within_the_bounds_are_given(way: Any, chosen: float, given: float) -> None:
    envs = way(WholeActions)
    _, reward, *_ = envs.step(np.full((2, 2), chosen, np.float32))
    assert reward.tolist() == [given, given]


def test_actions_have_the_type_of_the_space() -> None:
    chosen = np.array([[0.5, 1.5, -0.2, 9.0]], np.float32)
    whole = as_the_space_has_it(chosen, spaces.Box(0, 8, (2, 2), np.uint8))
    assert (whole.tolist(), whole.dtype) == ([[[0, 2], [0, 8]]], np.uint8)
    double = spaces.Box(-0.1, 0.1, (1,), np.float64)  # 0.1 in single precision is larger
    action = as_the_space_has_it(np.array([[0.1]], np.float32), double)[0]
    assert double.contains(action)
    single = spaces.Box(-1.0, 1.0, (2,), np.float32)
    assert as_the_space_has_it(chosen[:, :2], single).base is not None  # not copied for nothing


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int32])
def test_the_ends_of_whole_numbers_are_reached_and_not_passed(dtype: Any) -> None:
    ends = np.iinfo(dtype)
    space = spaces.Box(ends.min, ends.max, (1,), dtype)  # 2**63 and 2**64, in single precision, are no such numbers
    beyond = np.array([[3e19], [-3e19], [float(ends.max)], [float(ends.min)], [7.4]], np.float32)
    given = as_the_space_has_it(beyond, space)
    assert given.dtype == dtype
    assert given[:, 0].tolist() == [ends.max, ends.min, ends.max, ends.min, 7]


def test_a_single_number_is_an_array_of_one() -> None:
    envs = alone(SingleNumber)
    assert envs.observation_space.shape == (1,)
    steps, _ = collected(envs, [1.0, 0.0], 3)
    np.testing.assert_allclose(steps.next_obs[:, 0], [[0.1], [0.2], [0.3]], rtol=1e-6)
    for mode in AutoresetMode:
        assert vector(mode)(SingleNumber).step(np.zeros(2, np.int64))[2].tolist() == [[np.float32(0.1)]] * 2


class OwnVector(VectorEnv[Any, Any, Any]):
    """Of one's own: whole numbers first, rewards [E, 1], and keeps what it shows."""

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012
    num_envs = 2
    single_observation_space = spaces.Box(-1, 1, (1,), np.float32)
    single_action_space = spaces.Discrete(2)
    observation_space = spaces.Box(-1, 1, (2, 1), np.float32)
    action_space = spaces.MultiDiscrete([2, 2])
    rewards: Any = np.array([[1.0], [2.0]])

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.now = np.zeros((2, 1), np.int64)
        return self.now, {}

    def step(self, actions: Any) -> Any:
        self.now = self.now + 0.25
        return self.now, self.rewards, np.zeros(2, bool), np.zeros(2, bool), {}


def test_a_vector_environment_of_ones_own_is_read_by_its_spaces_too() -> None:
    envs = foreign_environments(OwnVector(), 0)
    assert envs.obs.dtype == np.float32
    assert envs.step(np.zeros(2, np.int64))[1].tolist() == [1.0, 2.0]
    assert envs.obs.tolist() == [[0.25], [0.25]]
    envs.env.rewards = np.ones(3)
    with pytest.raises(EnvironmentMismatchError, match=r"the rewards of the shape \[3\]: give one for each of its 2"):
        envs.step(np.zeros(2, np.int64))


class RewardOfOne(Plain):
    def reward(self) -> Any:
        return np.array([0.5])


class FlagsOfOthers(Plain):
    """Flags as arrays of one, numbers 0 and 1, and NumPy's truth values."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, _, info = super().step(action)
        return obs, np.float32(reward), np.array([terminated]), np.int64(0), info


class OwnNumAgents(Plain):
    """Has an attribute of that name, and is nevertheless for one agent."""

    num_agents = 3


@pytest.mark.parametrize(("make", "wanted"), [(RewardOfOne, 5.0), (FlagsOfOthers, 10.0), (OwnNumAgents, 10.0)])
def test_one_number_is_one_number_in_whatever_it_stands(make: Make, wanted: float) -> None:
    steps, episodes = collected(alone(make), [1.0, 0.0], 10)
    assert [episode.return_ for episode in episodes] == [wanted, wanted]
    assert steps.reward.shape == (10, 2)


class FourValues(Plain):
    def step(self, action: Any) -> Any:
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, info


class ObservationAlone(Plain):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0]


class TwoNumbersAlone(ObservationAlone):
    """Could be taken for observation and info."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-1, 1, (2,), np.float32)

    def shown(self) -> Any:
        return np.zeros(2, np.float32)


class NoSeed(Plain):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class NoInfo(Plain):
    def step(self, action: Any) -> Any:
        return (*super().step(action)[:4], None)


class NoInfoAtFirst(Plain):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0], None


class RewardOfTwo(Plain):
    def reward(self) -> Any:
        return np.ones(2)


class NoReward(Plain):
    def reward(self) -> Any:
        return None


class NoFlag(Plain):
    def step(self, action: Any) -> Any:
        obs, reward, _, truncated, info = super().step(action)
        return obs, reward, None, truncated, info


class OtherShape(Plain):
    def shown(self) -> Any:
        return super().shown()[: 1 if self.t else 3]


class Nothing(Plain):
    def shown(self) -> Any:
        return None if self.t else super().shown()


class FractionsAsBytes(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (3,), np.uint8)


class TooLargeForBytes(FractionsAsBytes):
    def shown(self) -> Any:
        return np.full(3, 200 * self.t)


class Ragged(Plain):
    def shown(self) -> Any:
        return [[0.0], [0.0, 1.0]] if self.t else super().shown()


REFUSED: dict[type[Plain], str] = {
    FourValues: r"step\(\) of FourValues gave a tuple of 4, as Gym did before 0.26; Gymnasium wants five: observation,",
    ObservationAlone: r"reset\(\) of ObservationAlone gave an array of the shape \[3\]; Gymnasium wants two values",
    TwoNumbersAlone: r"reset\(\) of TwoNumbersAlone gave an array of the shape \[2\]; Gymnasium wants two values",
    NoSeed: r"reset\(\) of NoSeed does not take what Gymnasium gives it .*: write def reset\(self, \*, seed=None",
    NoInfo: r"step\(\) of NoInfo gave None as info, its last value; Gymnasium wants a dictionary: return obs, reward,",
    NoInfoAtFirst: r"reset\(\) of NoInfoAtFirst gave None as info, .*: return obs, \{\}",
    RewardOfTwo: r"step\(\) of RewardOfTwo gave an array of the shape \[2\] as the reward; it must be one number",
    NoReward: r"step\(\) of NoReward gave None as the reward",
    NoFlag: r"step\(\) of NoFlag gave None as terminated; it must be True or False",
    OtherShape: r"step\(\) of OtherShape gave an observation of the shape \[1\] where \[3\] is expected; its obs.*Box",
    Nothing: r"step\(\) of Nothing gave None as an observation",
    FractionsAsBytes: r"step\(\) of FractionsAsBytes gave 0.1 in an observation, which uint8 does not hold; its obs",
    TooLargeForBytes: r"step\(\) of TooLargeForBytes gave 400 in an observation, which uint8 does not hold",
    Ragged: r"step\(\) of Ragged gave a list as an observation",
}


@pytest.mark.parametrize("way", [alone, wrapped], ids=["alone", "wrapped"])
@pytest.mark.parametrize("make", REFUSED, ids=lambda make: make.__name__)
def test_what_breaks_the_rules_is_named_and_the_rule_with_it(make: type[Plain], way: Any) -> None:
    with pytest.raises(EnvironmentMismatchError, match=REFUSED[make]):
        collected(way(make), [1.0, 0.0], 4)


@pytest.mark.parametrize("make", [FourValues, ObservationAlone, NoSeed], ids=lambda make: make.__name__)
def test_also_within_a_vector_environment_of_gymnasium(make: type[Plain]) -> None:
    with pytest.raises(EnvironmentMismatchError, match=REFUSED[make]):
        collected(vector(AutoresetMode.NEXT_STEP)(make), [1.0, 0.0], 4)


class Broken(Plain):
    def step(self, action: Any) -> Any:
        raise ValueError("the bridge has collapsed")


@each_way
def test_an_error_of_the_environment_is_its_own(way: Any) -> None:
    with pytest.raises(ValueError, match=r"^the bridge has collapsed$"):
        collected(way(Broken), [1.0, 0.0], 4)


class WithoutActions(Plain):
    def __init__(self) -> None:
        super().__init__()
        del self.action_space


class ForeignSpace(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = [0.0, 1.0]


@pytest.mark.parametrize("wrap", [lambda env: env, gymnasium.wrappers.OrderEnforcing], ids=["alone", "wrapped"])
def test_spaces_must_be_there(wrap: Any) -> None:
    missing = r"action_space of WithoutActions is missing: __init__ must set it .* self.action_space = gymnasium"
    with pytest.raises(EnvironmentMismatchError, match=missing):
        flat_observations(wrap(WithoutActions()))
    with pytest.raises(EnvironmentMismatchError, match=r"observation_space of ForeignSpace is builtins\.list"):
        flat_observations(wrap(ForeignSpace()))


@each_way
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_no_number_is_refused_as_an_observation(way: Any, number: float) -> None:
    with pytest.raises(EnvironmentMismatchError, match=f"an observation of Spoiled holds {number:g}"):
        collected(way(lambda: Spoiled(number)), [1.0, 0.0], 8)


def test_no_number_is_refused_before_anything_acts_upon_it() -> None:
    class SpoiledAtFirst(Plain):
        def shown(self) -> Any:
            return np.array([1e200, 0.0, 0.0]) if self.t == 0 else super().shown()

    with pytest.raises(EnvironmentMismatchError, match="an observation of SpoiledAtFirst holds inf"):
        alone(SpoiledAtFirst)


def test_large_numbers_are_finite() -> None:
    class Large(Plain):
        def shown(self) -> Any:
            return np.full(3, 1e30, np.float32)

    steps, _ = collected(alone(Large), [1.0, 0.0], 4)
    assert steps.obs.max() == np.float32(1e30)


def first(space: Any) -> Greedy:
    return Greedy(lambda obs: np.tile(np.float32([1.0, 0.0]), (len(obs), 1)), None, space)


def test_an_evaluation_refuses_them_too() -> None:
    with pytest.raises(EnvironmentMismatchError, match="an observation of Spoiled holds nan"):
        evaluate(first, Spoiled, 2, seed=0)

    class NoSum(Plain):
        def reward(self) -> Any:
            return np.inf if self.t == 3 else 1.0

    with pytest.raises(EnvironmentMismatchError, match="NoSum gave None, nan or infinity as a reward"):
        evaluate(first, NoSum, 2, seed=0)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    monkeypatch.setattr("note_rl.environments.long_episodes.LONG", 20)
    monkeypatch.setattr("note_rl.environments.long_episodes.LONGEST", 30)
    monkeypatch.setattr("note_rl.errors._said", set())
    caplog.set_level(logging.WARNING)
    return caplog


def test_an_episode_of_an_evaluation_ends(short: pytest.LogCaptureFixture) -> None:
    result = evaluate(first, Endless, 12, seed=0)
    assert (result.returns.tolist(), result.lengths.tolist()) == ([30.0] * 12, [30] * 12)
    told = short.text
    assert told.count("Endless has not ended after 20 steps, and there is no time limit: it is cut off after 30") == 1
    assert told.count("Endless was cut off after 30 steps, and its return until then counts; gymnasium.") == 1


def test_an_episode_of_a_hundred_thousand_steps_is_played_whole(short: pytest.LogCaptureFixture) -> None:
    class Long(gymnasium.Env[Any, Any]):
        observation_space = spaces.Discrete(1)
        action_space = spaces.Discrete(1)
        answer: Any = (0, 1.0, False, False, {})

        def step(self, action: Any) -> Any:
            return self.answer

    long = limited(Long())
    assert LONGEST == 1_000_000
    assert not any(long.step(0)[3] for _ in range(29)), "the fixture cuts off after 30"
    assert long.step(0)[3]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("note_rl.environments.long_episodes.LONGEST", LONGEST)
        assert not any(long.step(0)[3] for _ in range(100_000))


def test_a_time_limit_is_heeded_however_long(short: pytest.LogCaptureFixture) -> None:
    result = evaluate(first, lambda: gymnasium.wrappers.TimeLimit(Endless(), 45), 2, seed=0)
    assert result.lengths.tolist() == [45, 45]
    assert evaluate(first, Plain, 2, seed=0).lengths.tolist() == [10, 10]
    assert short.text == ""


class EnoughError(Exception):
    """Ends what would not end."""


class Stuck(Endless):
    """Ends everything at its 60th step."""

    def step(self, action: Any) -> Any:
        if self.t == 60:
            raise EnoughError
        return super().step(action)


@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize(
    ("budget", "settings", "said"),
    [
        ({"episodes": 3}, {"train_freq": 8}, "train(episodes=3) goes on until 3 have: total_steps="),
        ({"total_steps": 30}, {}, "waits for the end of one: train_freq (buffer.train_freq) says after how many steps"),
    ],
    ids=["episodes", "phases"],
)
def test_training_that_waits_for_the_end_of_an_episode_says_so(
    short: pytest.LogCaptureFixture, framework: Any, budget: Any, settings: Any, said: str
) -> None:
    agent = framework.agents.DQN(hidden_size=4, env=Stuck)
    agent.set(policy=EpsGreedyQPolicy(0.5), num_envs=2, learning_starts=1000, seed=0, **settings)
    with pytest.raises(EnoughError):
        agent.train(optimizer=framework.optimizers.adam(agent.param), p=0, **budget)
    assert short.text.count("no episode of training has ended in 20 steps of each environment, and") == 1
    assert said in short.text


@pytest.mark.parametrize(("env", "budget"), [(Endless, {"total_steps": 100}), (Plain, {"episodes": 12})])
def test_training_that_waits_for_nothing_says_nothing(short: pytest.LogCaptureFixture, env: Any, budget: Any) -> None:
    agent = DQN(hidden_size=4, env=env)
    agent.set(policy=EpsGreedyQPolicy(0.5), num_envs=2, learning_starts=1000, train_freq=8, seed=0)
    agent.train(torch.optim.Adam(agent.param), p=0, **budget)
    assert "no episode" not in short.text


def test_what_is_outside_of_the_bounds_is_said_once(short: pytest.LogCaptureFixture) -> None:
    class Outside(Plain):
        def shown(self) -> Any:
            return 30.0 * super().shown()

    steps, _ = collected(alone(Outside), [1.0, 0.0], 12)
    assert steps.next_obs.max() == 30.0
    assert short.text.count("outside of the bounds") == 1
    assert "Outside shows 3, which is outside of the bounds of its observation space Box(-1.0, 1.0" in short.text


def test_actions_with_equal_bounds_are_these() -> None:
    steps, _ = collected(alone(OneFixed), [0.7, 0.3], 4)
    assert np.unique(steps.action.reshape(-1, 2), axis=0).tolist() == [[0.0, np.float32(0.3)]]
