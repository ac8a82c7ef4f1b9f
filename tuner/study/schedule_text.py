"""How a change of values while an agent trains is written into a configuration."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from tuner.trial.messages import JsonDict

Schedule: TypeAlias = Mapping[str, Sequence[Sequence[float]]]
"""By what is changed, pairs of (environment steps, value from then on)."""

_OF_FUNCTIONS: Final = "agent.schedule"


def as_setting(schedule: Schedule, config: JsonDict) -> JsonDict:
    """A schedule as settings by config path."""
    steps = {name: [list(step) for step in steps] for name, steps in schedule.items()}
    if is_function(config):
        return {_OF_FUNCTIONS: steps}
    return {"adaptive": {"_target_": "note_rl.settings.Adaptive", "mode": "control", "schedule": steps}}


def is_function(config: JsonDict) -> bool:
    """Whether a configuration is one of a function, which has no framework."""
    return config.get("backend") is None
