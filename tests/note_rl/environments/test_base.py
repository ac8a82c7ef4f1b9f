"""Actions are given as their space has them."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from note_rl.environments import as_the_space_has_it
from tests.note_rl.environments.odd_environments import InPlace, OneFixed, WholeActions
from tests.note_rl.environments.ways import alone, collected, each_way


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


def test_actions_with_equal_bounds_are_these() -> None:
    steps, _ = collected(alone(OneFixed), [0.7, 0.3], 4)
    assert np.unique(steps.action.reshape(-1, 2), axis=0).tolist() == [[0.0, np.float32(0.3)]]
