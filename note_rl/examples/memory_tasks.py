"""Tasks that only an agent with a memory can do: what matters was seen before, or shows in what changes.

Importing this module registers them: `env="note_rl.examples.memory_tasks:RecallCue-v0"` makes one by its id, and
imports the module by itself.
"""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from note_rl.types import Array


class SomeNumbers(gymnasium.ObservationWrapper[Array, Any, Array]):
    """Shows some of the numbers of an observation.

    Args:
        env: Whose observations are numbers in a row.
        shown: Their places.
    """

    def __init__(self, env: gymnasium.Env[Array, Any], shown: Sequence[int]) -> None:
        super().__init__(env)
        space = env.observation_space
        assert isinstance(space, spaces.Box)
        self._shown = list(shown)
        low, high = space.low[self._shown], space.high[self._shown]
        self.observation_space = spaces.Box(low, high, dtype=space.dtype.type)

    def observation(self, observation: Array) -> Array:
        """The numbers at these places."""
        shown: Array = observation[self._shown]
        return shown


class RecallCue(gymnasium.Env[Array, Any]):
    """The first observation shows a cue, -1 or 1; after a delay the action that it stands for is worth 1.

    Observations are the cue, 0 but in the first one, and the share of the delay that has passed.

    Args:
        delay: Steps between the cue and the answer.
    """

    def __init__(self, delay: int = 20) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._delay = delay
        self._cue, self._num_steps = 1.0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:
        """A new cue."""
        super().reset(seed=seed)
        self._cue, self._num_steps = float(self.np_random.choice([-1.0, 1.0])), 0
        return np.array([self._cue, 0.0], np.float32), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Waits, or judges the answer to the last observation."""
        is_over = self._num_steps == self._delay
        is_right = int(action) == (self._cue > 0.0)
        self._num_steps += 1
        obs = np.array([0.0, min(self._num_steps / self._delay, 1.0)], np.float32)
        return obs, float(is_over and is_right), is_over, False, {}


def cartpole_positions(**arguments: Any) -> gymnasium.Env[Array, Any]:
    """CartPole that shows where cart and pole are, not how fast they move."""
    from gymnasium.envs.classic_control import CartPoleEnv

    return SomeNumbers(CartPoleEnv(**arguments), (0, 2))


def pendulum_positions(**arguments: Any) -> gymnasium.Env[Array, Any]:
    """Pendulum that shows its angle, as cosine and sine, not how fast it turns."""
    from gymnasium.envs.classic_control import PendulumEnv

    return SomeNumbers(PendulumEnv(**arguments), (0, 1))


gymnasium.register("CartPolePositions-v0", f"{__name__}:cartpole_positions", max_episode_steps=500)
gymnasium.register("PendulumPositions-v0", f"{__name__}:pendulum_positions", max_episode_steps=200)
gymnasium.register("RecallCue-v0", f"{__name__}:RecallCue")
