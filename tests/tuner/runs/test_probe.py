"""First measurements of a study, in the process of a trial."""

import math
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests.tuner.command_line import SMALL, SMALL_AGENTS, SMALL_STUDY, CommandLine
from tuner.commands.preflight import preflight
from tuner.config.composition import to_json
from tuner.runs.functions import run_probe as probe_function
from tuner.runs.probe import run_probe
from tuner.trial.messages import JsonDict, Outcome, TrialInterrupted, TrialSpec


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


class Told:
    """The trial of a probe; ends it at a sign of life if it is to."""

    def __init__(self, config: JsonDict, last: float = math.inf) -> None:
        self.spec = TrialSpec("s", "probe", 0, 3, config)
        self.signs, self.reported, self._last = 0, list[tuple[float, float]](), last

    def built(self, config: JsonDict) -> None:
        """Nothing to keep."""

    def report(self, step: float, value: float) -> None:
        self.reported.append((step, value))

    def alive(self, progress: float) -> None:
        assert progress == 0.0
        self.signs += 1
        if self.signs == self._last:
            raise TrialInterrupted(Outcome.STOPPED, "enough")


SB3 = {
    "agent": {"_target_": "tuner.features.sb3.sb3_trainer.Sb3", "algorithm": "PPO", "env": {"id": "Within-v0"}},
    "env": {"id": "Within-v0"},
}


@pytest.mark.parametrize("kind", ["own", "sb3"])
def test_a_random_policy_gives_a_sign_of_life_at_each_step(kind: str) -> None:
    """Steps may take seconds: the study would take the probe for hung."""
    words = [*SMALL, *SMALL_AGENTS["dqn"], "env.id=tests.tuner.runs.test_probe:Within-v0"]
    config = SB3 if kind == "sb3" else to_json(preflight("train", words))
    probe = probe_function if kind == "sb3" else run_probe
    told: Any = Told(config)
    probe(told)
    assert told.reported == [(1.0, 5.0)]
    assert told.signs == 2 * 5, "twenty episodes of five steps in ten environments"
    stopped: Any = Told(config, last=7)
    with pytest.raises(TrialInterrupted):
        probe(stopped)
    assert (stopped.signs, stopped.reported) == (7, [])


class Within(Beyond):
    """Its numbers are within their bounds."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        obs, info = super().reset(seed=seed)
        return obs / 3, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, *rest = super().step(action)
        return obs / 3, *rest


gymnasium.register("Beyond-v0", entry_point=Beyond)
gymnasium.register("Within-v0", entry_point=Within)


def test_observations_beyond_their_bounds_are_shown_where_the_study_runs(tuner: CommandLine) -> None:
    env = "env.id=tests.tuner.runs.test_probe:Beyond-v0"
    answer = tuner("tune", *SMALL_AGENTS["dqn"], env, *SMALL, *SMALL_STUDY, "study.name=s")
    assert answer.status == 0, answer
    assert "Warning: Beyond-v0 (Beyond) shows 3, which is outside of the bounds" in answer.output
