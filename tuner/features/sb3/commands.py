"""Loader of these algorithms' trained policies, so that they are played as other agents are."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tuner.commands.features import InCommands

if TYPE_CHECKING:
    from tuner.runs.trained_agents import TrainedPolicy

_TARGET: Final = "tuner.features.sb3.sb3_trainer.Sb3"


def _policy(config: Mapping[str, Any]) -> "Callable[[Mapping[str, Any], Path], TrainedPolicy] | None":
    if (config.get("agent") or {}).get("_target_") != _TARGET:
        return None
    from tuner.features.sb3.sb3_player import load

    return load


PART = InCommands(policy=_policy)
