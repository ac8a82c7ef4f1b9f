"""Which spaces an agent acts in."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from note_rl.environments import as_the_space_has_it
from note_rl.errors import EnvironmentMismatchError
from note_rl.policy import SquashedGaussianPolicy
from tests.note_rl.environments.odd_environments import Plain
from tests.note_rl.frameworks import frameworks

TOO_WIDE = [
    spaces.Box(0.0, np.inf, (2,)),
    spaces.Box(-1e300, 1e300, (2,), np.float64),
    spaces.Box(-3e38, 3e38, (2,), np.float64),
]


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize("space", TOO_WIDE, ids=str)
def test_bounds_that_single_precision_does_not_hold_are_refused_with_what_helps(framework: Any, space: Any) -> None:
    env = Plain()
    env.action_space = space
    for name in ("DDPG", "TD3", "SAC", "CrossQ", "TQC"):
        with pytest.raises(EnvironmentMismatchError, match=rf"{name} needs .* finite bounds.*TransformAction"):
            getattr(framework.agents, name)(env=env)
    framework.agents.PPO(env=env)
    with pytest.raises(EnvironmentMismatchError, match=r"finite bounds.*TransformAction"):
        SquashedGaussianPolicy().bind(space, 1)
    narrow = gymnasium.wrappers.TransformAction(env, lambda action: action, spaces.Box(-1, 1, (2,)))  # as it says
    getattr(framework.agents, name)(env=narrow)


def test_actions_reach_the_environment_in_the_shape_and_from_the_number_that_its_space_has():
    dials = spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[5, 5], [0, -1]])
    assert as_the_space_has_it(np.array([[0, 1, 2, 3]]), dials).tolist() == [[[5, 6], [2, 2]]]
    assert as_the_space_has_it(np.array([[0, 1, 1, 0]]), spaces.MultiBinary((2, 2))).tolist() == [[[0, 1], [1, 0]]]
    assert as_the_space_has_it(np.array([0, 2]), spaces.Discrete(3, start=4)).tolist() == [4, 6]
