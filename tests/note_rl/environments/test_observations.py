"""Observations of several parts as one vector."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from note_rl.environments import VectorEnvironment, flat_observations
from note_rl.environments.observations import FlatReader
from note_rl.errors import EnvironmentMismatchError
from tests.note_rl.environments.odd_environments import Plain

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


@pytest.mark.parametrize("part", ["observation", "achieved_goal", "desired_goal"])
def test_each_part_of_a_goal_observation_is_held_against_its_space(part: str) -> None:
    assert VectorEnvironment([flat_observations(Goals())], 0).obs.shape == (1, 4)
    with pytest.raises(EnvironmentMismatchError, match=rf"shape \[1\] where \[2\] is expected \(part \['{part}'\]\)"):
        VectorEnvironment([flat_observations(Goals(part))], 0)
