"""First measurements of a study, in the process of a trial."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tests.tuner.command_line import SMALL, SMALL_AGENTS, SMALL_STUDY, CommandLine


class Beyond(gymnasium.Env[Any, Any]):
    """Its second number is beyond the bounds that it declares."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._step = 0
        return np.array([0.5, 3.0], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._step += 1
        return np.array([0.5, 3.0], np.float32), 1.0, self._step >= 5, False, {}


gymnasium.register("Beyond-v0", entry_point=Beyond)


def test_observations_beyond_their_bounds_are_shown_where_the_study_runs(tuner: CommandLine) -> None:
    env = "env.id=tests.tuner.runs.test_probe:Beyond-v0"
    answer = tuner("tune", *SMALL_AGENTS["dqn"], env, *SMALL, *SMALL_STUDY, "study.name=s")
    assert answer.status == 0, answer
    assert "Warning: Beyond-v0 (Beyond) shows 3, which is outside of the bounds" in answer.output
