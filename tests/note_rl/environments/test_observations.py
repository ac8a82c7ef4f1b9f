"""Observations of several parts as one vector."""

import re
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from note_rl.agents.pytorch import DQN
from note_rl.environments import VectorEnvironment, flat_observations
from note_rl.environments.goals import GoalObservation
from note_rl.environments.observations import FlatReader, ObservationReader, say_if_dark, say_if_rounded
from note_rl.errors import EnvironmentMismatchError
from note_rl.policy import EpsGreedyQPolicy
from tests.note_rl.environments.odd_environments import Plain, SingleNumber, WholeAtFirst
from tests.note_rl.environments.ways import alone, collected, each_way, vector

NESTED = spaces.Dict(
    {
        "where": spaces.Box(-1, 1, (2, 2), np.float32),
        "what": spaces.Tuple([spaces.Discrete(3, start=5), spaces.MultiDiscrete([2, 3], start=[0, 1])]),
        "bits": spaces.MultiBinary((2, 2)),
        "name": spaces.Text(4),
    }
)


@pytest.mark.parametrize(
    "space",
    [
        NESTED,
        spaces.Discrete(4, start=-2),
        spaces.MultiDiscrete([[2, 3], [4, 1]]),
        spaces.Tuple([spaces.Box(0, 255, (2, 3), np.uint8), spaces.Box(0, 9, (), np.int64)]),
        spaces.Dict({"bytes": spaces.Box(0, 255, (3,), np.uint8), "half": spaces.Box(-1, 1, (1,), np.float16)}),
    ],
    ids=str,
)
def test_the_vector_is_that_of_gymnasium(space: Any) -> None:
    space.seed(0)
    reader = FlatReader("it", space)
    for _ in range(20):
        sample = space.sample()
        found, wanted = reader.one(sample, "step()"), spaces.flatten(space, sample)
        assert found.tolist() == wanted.tolist()
        assert found.dtype == (np.float32 if wanted.dtype == np.float64 else wanted.dtype)


def test_double_precision_becomes_single() -> None:
    space = spaces.Dict({"a": spaces.Box(-1, 1, (1,), np.float64), "b": spaces.Discrete(2)})
    assert FlatReader("it", space).one({"a": np.array([0.5]), "b": 1}, "step()").dtype == np.float32


COUNTED = spaces.Box(0, 2**62, (2,), np.int64)
ODD = 2**24 + 1  # the first whole number that single precision does not hold


@pytest.mark.parametrize("number", [ODD, -ODD, 2**53 + 1, 2**62 - 1, 2**63 - 1])
def test_whole_numbers_are_kept_or_refused(number: int) -> None:
    """Alone and among whole numbers they are kept; among fractions, and in a space of such, refused if rounded."""
    given = np.array([3, number])
    assert ObservationReader("it", COUNTED).one(given, "step()").tolist() == [3, number]
    small = spaces.Box(0, 255, (1,), np.uint8)
    both = FlatReader("it", spaces.Tuple([small, COUNTED]))
    assert both.one((np.array([200], np.uint8), given), "step()").tolist() == [200, 3, number]
    fractions = spaces.Box(-1e9, 1e9, (2,), np.float32)
    mixed = FlatReader("it", spaces.Dict({"f": fractions, "n": COUNTED}))
    reader = ObservationReader("it", fractions)
    words = rf"step\(\) of it gave {number} in an observation, which float32 does not hold"
    reads: list[Any] = [
        lambda n: mixed.one({"f": np.zeros(2), "n": n}, "step()")[2:],
        lambda n: reader.one(n, "step()"),
    ]
    for read in reads:
        assert read(np.array([-(2**24), 2**24 + 2])).tolist() == [-(2**24), 2**24 + 2]
        with pytest.raises(EnvironmentMismatchError, match=words):
            read(given)
    with pytest.raises(EnvironmentMismatchError, match=r"gave 0\.5 in an observation, which int64 does not hold"):
        mixed.one({"f": np.zeros(2), "n": np.array([0.5, 1.0])}, "step()")


def test_goals_of_large_whole_numbers_are_refused() -> None:
    env = Plain()
    parts = ("observation", "achieved_goal", "desired_goal")
    env.observation_space = spaces.Dict(dict.fromkeys(parts, COUNTED))
    flat = flat_observations(env)
    assert isinstance(flat, GoalObservation)
    shown: Any = {part: np.array([0, 2**24]) for part in parts}
    assert flat.observation(shown).tolist() == [0, 2**24] * 2
    with pytest.raises(EnvironmentMismatchError, match=rf"gave {ODD} .* float32 .*\(part \['desired_goal'\]\)"):
        flat.observation({**shown, "desired_goal": np.array([0, ODD])})


def test_that_networks_round_whole_numbers_is_said_once(monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr("note_rl.errors._said", set())
    for numbers in (np.array([[2**24, -(2**24)]]), np.array([[0.0, ODD]]), np.zeros((0, 2), np.int64)):
        say_if_rounded("It", numbers)
    assert caplog.text == ""
    for _ in range(2):
        say_if_rounded("It", np.array([[0, 5], [-ODD, 7]]))
    assert caplog.text.count("It shows -16,777,217, and networks compute in single precision, which rounds") == 1


def test_that_large_numbers_lose_what_they_differ_by_is_said_once(monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr("note_rl.errors._said", set())
    told_apart = [0.1, 4e7, 1e9, np.inf]  # small, moving by 3,000 where the next one is 4 away, not moving, no number
    for first, step in ((told_apart, [1e-9, 3_000.0, 0.0, 0.0]), ([0.1, 1e9, 1.0, 1.0], [0.0, 0.01, 0.0, 0.0])):
        reader = ObservationReader("It", spaces.Box(-np.inf, np.inf, (4,), np.float64))
        for index in range(100):
            assert "It" not in caplog.text
            reader.one(np.array(first) + index * np.array(step), "step()")
    assert caplog.text.count("It shows numbers near 1,000,000,001 that differ by 0.99: networks compute in single") == 1
    assert "where the next one is 64 away" in caplog.text


def test_a_part_without_numbers_in_double_precision_is_read() -> None:
    space = spaces.Dict({"some": spaces.Box(-1, 1, (2,), np.float64), "none": spaces.Box(-1, 1, (0,), np.float64)})
    shown = FlatReader("It", space).one({"some": np.array([0.5, 1.0]), "none": np.zeros(0)}, "step()")
    assert shown.tolist() == [0.5, 1.0]


def test_that_networks_hardly_see_bytes_of_a_board_is_said_once(monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr("note_rl.errors._said", set())
    colours = [spaces.Box(0, highest, (4, 4, 3), np.uint8) for highest in (128, 255)]
    for space in (*colours, spaces.Box(0, 1, (4,), np.int8), spaces.Discrete(2), None):
        say_if_dark("It", space)
    assert caplog.text == ""
    for _ in range(2):
        say_if_dark("It", spaces.Box(0, 1, (8,), np.uint8))
    assert (
        caplog.text.count("It shows bytes of at most 1, and the networks of this package divide bytes by 255, as") == 1
    )


@pytest.mark.parametrize("space", [spaces.Discrete(2**40), spaces.Tuple([spaces.MultiDiscrete([2**33, 2])])], ids=str)
def test_more_choices_than_a_vector_has_room_for_are_refused(space: Any) -> None:
    with pytest.raises(EnvironmentMismatchError, match=r"a vector of [\d,]{13,} numbers, .* show the number in a Box"):
        FlatReader("it", space)


SAMPLE = {"where": np.zeros((2, 2)), "what": (5, np.array([0, 1])), "bits": np.zeros((2, 2), np.int8), "name": "ab"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"what": (4, np.array([0, 1]))},
            r"gave 4 in an observation \(\['what'\]\[0\]\), which is not in .*Discrete\(3",
        ),
        ({"what": (5, np.array([2, 1]))}, r"gave \[2 1\] in an observation \(\['what'\]\[1\]\), which is not in"),
        ({"what": (5,)}, r"gave an observation without 1 \(a tuple\)"),
        (
            {"where": np.zeros(4)},
            r"gave an observation of the shape \[4\] where \[2, 2\] is expected \(part \['where'\]\)",
        ),
        ({"bits": np.full((2, 2), 2)}, r"\['bits'\]\), which is not in its observation space MultiBinary"),
        ({"name": "too long"}, r"gave too long in an observation \(\['name'\]\)"),
    ],
)
def test_what_is_in_no_space_is_no_other_number(change: dict[str, Any], words: str) -> None:
    with pytest.raises(EnvironmentMismatchError, match=words):
        FlatReader("it", NESTED).one({**SAMPLE, **change}, "step()")


def test_a_missing_key_is_named() -> None:
    with pytest.raises(EnvironmentMismatchError, match=r"step\(\) of it gave an observation without 'bits' \(a dict\)"):
        FlatReader("it", NESTED).one({}, "step()")


class WithMore(Plain):
    """Shows a part that its space does not have, from a step on."""

    def __init__(self, first: int, space: Any, shown: Any, more: Any) -> None:
        super().__init__()
        self.observation_space = space
        self.first, self.parts, self.more = first, shown, more

    def shown(self) -> Any:
        return self.more if self.t >= self.first else self.parts


ONE = spaces.Box(-1, 1, (1,), np.float32)
ZERO = np.zeros(1, np.float32)
WITH_GOAL: Any = dict.fromkeys(("observation", "achieved_goal", "desired_goal"), ONE)


@pytest.mark.parametrize(
    ("space", "shown", "more", "named"),
    [
        (spaces.Dict({"a": ONE}), {"a": ZERO}, {"a": ZERO, "b": ZERO}, "['b']"),
        (spaces.Tuple([ONE]), (ZERO,), (ZERO, ZERO), "[1]"),
        (spaces.Tuple([spaces.Dict({"a": ONE})]), ({"a": ZERO},), ({"a": ZERO, "b": ZERO},), "[0]['b']"),
        (spaces.Dict(WITH_GOAL), dict.fromkeys(WITH_GOAL, ZERO), dict.fromkeys((*WITH_GOAL, "b"), ZERO), "['b']"),
    ],
    ids=["dict", "tuple", "nested", "goal"],
)
def test_a_part_that_the_space_does_not_have_is_named(space: Any, shown: Any, more: Any, named: str) -> None:
    words = (
        rf"step\(\) of WithMore gave an observation with {re.escape(named)}, and its observation space .* no such part"
    )
    with pytest.raises(EnvironmentMismatchError, match=words):
        VectorEnvironment([flat_observations(WithMore(0, space, shown, more))], 0)
    envs = VectorEnvironment([flat_observations(WithMore(1, space, shown, more))], 0)
    with pytest.raises(EnvironmentMismatchError, match=words):
        envs.step(np.zeros(1, np.int64))


class Numbered(Plain):
    """Shows a number of Discrete(3, start=1): 1, 2, 3, and then 0."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Discrete(3, start=1)

    def shown(self) -> Any:
        return (self.t + 1) % 4


def test_a_number_below_the_first_one_is_not_the_last_one() -> None:
    envs = VectorEnvironment([flat_observations(Numbered())], 0)
    assert [envs.step(np.zeros(1, np.int64))[2].tolist() for _ in range(2)] == [[[0, 1, 0]], [[0, 0, 1]]]
    with pytest.raises(EnvironmentMismatchError, match="of Numbered gave 0 in an observation, which is not in its obs"):
        envs.step(np.zeros(1, np.int64))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Sequence(spaces.Box(0, 1, (2,))),
        spaces.Graph(spaces.Box(0, 1, (2,)), None),
        spaces.Dict({"a": spaces.Box(0, 1, (2,)), "b": spaces.Sequence(spaces.Discrete(2))}),
    ],
    ids=["sequence", "graph", "within a dictionary"],
)
def test_observations_without_a_size_are_refused_by_their_name(space: Any) -> None:
    env = Plain()
    env.observation_space = space
    with pytest.raises(EnvironmentMismatchError, match=r"Plain has the observation space .*, whose .* have no fixed"):
        flat_observations(env)


class Goals(Plain):
    """A goal whose achieved part may have another shape."""

    def __init__(self, wrong: str = "") -> None:
        super().__init__()
        box = spaces.Box(-1, 1, (2,), np.float32)
        self.observation_space = spaces.Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), box))
        self.wrong = wrong

    def shown(self) -> Any:
        seen = {name: np.zeros(2, np.float32) for name in self.observation_space.spaces}
        return {**seen, self.wrong: np.zeros(1, np.float32)} if self.wrong else seen


class Mission(spaces.Space[str]):
    """A text, as that of MiniGrid: it does not say whether it can be made a vector."""

    def contains(self, x: Any) -> bool:
        """Any text is."""
        return isinstance(x, str)


class Counter(Mission):
    """Says that it can, and nobody knows how."""

    @property
    def is_np_flattenable(self) -> bool:
        """It is not so."""
        return True


@pytest.mark.parametrize("kind", [Mission, Counter])
def test_a_part_of_another_package_s_space_is_named(kind: Any) -> None:
    class Grid(gymnasium.Env[Any, Any]):
        observation_space = spaces.Dict({"image": spaces.Box(0, 255, (7, 7, 3), np.uint8), "mission": kind()})
        action_space = spaces.Discrete(2)

    with pytest.raises(EnvironmentMismatchError, match=rf"observations of 'mission' \({kind.__name__}\) have no"):
        flat_observations(Grid())
    shown = gymnasium.wrappers.FilterObservation(Grid(), ["image"])  # what the message advises
    assert flat_observations(shown).observation_space.shape == (147,)


@pytest.mark.parametrize("part", ["observation", "achieved_goal", "desired_goal"])
def test_each_part_of_a_goal_observation_is_held_against_its_space(part: str) -> None:
    assert VectorEnvironment([flat_observations(Goals())], 0).obs.shape == (1, 4)
    with pytest.raises(EnvironmentMismatchError, match=rf"shape \[1\] where \[2\] is expected \(part \['{part}'\]\)"):
        VectorEnvironment([flat_observations(Goals(part))], 0)


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


@each_way
def test_what_the_space_says_is_stored_and_not_what_the_first_observation_was(way: Any) -> None:
    steps, _ = collected(way(WholeAtFirst), [1.0, 0.0])
    assert steps.obs.dtype == steps.next_obs.dtype == np.float32
    tenths = np.arange(24) % 10
    np.testing.assert_allclose(steps.obs[:, 0, 0], tenths / 10)
    np.testing.assert_allclose(steps.next_obs[:, 1, 2], (tenths + 1) / 10)


def test_a_single_number_is_an_array_of_one() -> None:
    envs = alone(SingleNumber)
    assert envs.observation_space.shape == (1,)
    steps, _ = collected(envs, [1.0, 0.0], 3)
    np.testing.assert_allclose(steps.next_obs[:, 0], [[0.1], [0.2], [0.3]], rtol=1e-6)
    for mode in AutoresetMode:
        assert vector(mode)(SingleNumber).step(np.zeros(2, np.int64))[2].tolist() == [[np.float32(0.1)]] * 2
