"""The first observation of an environment before a run begins, and errors of a network that does not accept it."""

import re

import numpy as np

from note_rl.collect.evaluation import random_actions
from note_rl.environments import Env, VectorEnvironment
from note_rl.environments.observations import check_finite
from note_rl.types import Array


def first_observation(env: Env) -> Array:
    """The first observation of an environment, [1, *obs], after a check of one step; the environment is closed."""
    try:
        envs = VectorEnvironment([env], seed=0)
        first = envs.obs
        envs.step(random_actions(env.action_space, seed=0)(first, envs.action_mask))
        check_finite(envs.name, np.stack([first, envs.obs]))
    finally:
        env.close()
    return first


def in_short(error: Exception) -> str:
    """The first line; of what TensorFlow says of a traced function, where it comes to the point after all the code."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", str(error))
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    points = [number for number, line in enumerate(lines) if re.match(r"\w+Error: ", line)]
    if points and lines[0] == "in user code:":
        return " ".join(lines[points[-1] : points[-1] + 2])
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
