"""Answers of environments are checked against Gymnasium's rules and their spaces; their own errors stay as they are."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from note_rl.environments import VectorEnvironment, flat_observations
from note_rl.errors import EnvironmentMismatchError
from tests.note_rl.environments.odd_environments import Plain, Spoiled
from tests.note_rl.environments.ways import Make, alone, collected, each_way, vector, wrapped


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
    RewardOfTwo: (
        r"step\(\) of RewardOfTwo gave an array of the shape \[2\] as the reward; it must be one number, such as 1.0, "
        "as a weighted sum in gymnasium\\.wrappers\\.TransformReward gives it"
    ),
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


def test_what_is_outside_of_the_bounds_is_said_once(short: pytest.LogCaptureFixture) -> None:
    class Outside(Plain):
        def shown(self) -> Any:
            return 30.0 * super().shown()

    steps, _ = collected(alone(Outside), [1.0, 0.0], 12)
    assert steps.next_obs.max() == 30.0
    assert short.text.count("outside of the bounds") == 1
    assert "Outside shows 3, which is outside of the bounds of its observation space Box(-1.0, 1.0" in short.text


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
