"""Environments that show pictures and numbers, and agents that see both."""

import importlib

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from note_rl.environments import flat_observations
from note_rl.environments.observation_packing import PackedShape, observed_shape
from tests.note_rl.frameworks import frameworks

BOTH = pytest.mark.parametrize("framework", frameworks())

CONV = {"conv": {"filters": 4, "size": [3, 2], "stride": 2, "padding": "same"}}

ENCODERS = {
    "image": {"layers": [CONV, "flatten", {"dense": 5}]},
    "kind": None,
    "vector": {"hidden_sizes": [4], "activation": "tanh"},
}


class Shown(gymnasium.Env):
    observation_space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (8, 9, 2), np.uint8),
            "kind": spaces.Discrete(6),
            "vector": spaces.Box(-1.0, 1.0, (3,), np.float32),
        }
    )
    action_space = spaces.Discrete(3)


def shape():
    found = observed_shape(flat_observations(Shown()))
    assert isinstance(found, PackedShape)
    return found


def made(package, encoders=ENCODERS, **arguments):
    module = importlib.import_module(f"note_rl.agents.{package}.encoded")
    return module.encoded_network(shape(), 3, encoders, **{"hidden_sizes": (7,), **arguments})
