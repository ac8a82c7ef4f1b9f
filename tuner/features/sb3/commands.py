"""Loader of these algorithms' trained policies, so that they are played as other agents are."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tuner.commands.features import InCommands
from tuner.errors import UserError

if TYPE_CHECKING:
    from tuner.runs.trained_agents import TrainedPolicy

_TARGETS: Final = ("tuner.features.sb3.sb3_trainer.Sb3", "tuner.features.sb3.sbx_trainer.Sbx")


def _policy(config: Mapping[str, Any]) -> "Callable[[Mapping[str, Any], Path], TrainedPolicy] | None":
    if (config.get("agent") or {}).get("_target_") not in _TARGETS:
        return None
    from tuner.features.sb3.sb3_player import load

    return load


def _for_play(config: Mapping[str, Any], state: Mapping[str, Any]) -> tuple[Mapping[str, Any], int] | None:
    """All but what was collected in training, which is most of it, and the steps of training.

    Raises:
        UserError: It is damaged.
    """
    if (config.get("agent") or {}).get("_target_") not in _TARGETS:
        return None
    try:
        num_env_steps = int(state["counters"]["num_timesteps"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"the saved state of the model is damaged: {error!r}") from error
    return {key: value for key, value in state.items() if key not in ("replay", "rollout")}, num_env_steps


PART = InCommands(policy=_policy, for_play=_for_play)
