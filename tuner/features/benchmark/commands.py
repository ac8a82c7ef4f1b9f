"""The command of a benchmark, and what `tuner compare` does with two settings."""

from importlib import import_module
from typing import TYPE_CHECKING, cast

from tuner.commands.command import Command, CommandModule
from tuner.commands.features import InCommands

if TYPE_CHECKING:
    from omegaconf import DictConfig


def _compared(config: "DictConfig") -> CommandModule | None:
    if config.get("settings") is None:
        return None
    return cast(CommandModule, import_module("tuner.features.benchmark.two_settings"))


PART = InCommands(
    commands=(
        Command(
            "bench",
            "agents or settings over environments",
            "bench",
            is_job=True,
            has_check=True,
            listed=("agent", "env"),
            usage="'agent=[A,B]' [...]",
            module="tuner.features.benchmark.bench",
        ),
    ),
    compared=_compared,
)
