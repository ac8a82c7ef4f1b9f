"""The part of `tuner tune` that searches several budgets."""

from importlib import import_module
from typing import TYPE_CHECKING, cast

from tuner.commands.command import CommandModule
from tuner.commands.features import InCommands

if TYPE_CHECKING:
    from omegaconf import DictConfig


def _tuned(config: "DictConfig") -> CommandModule | None:
    if config.study.budgets is None:
        return None
    return cast(CommandModule, import_module("tuner.features.budgets.budget_command"))


PART = InCommands(tuned=_tuned)
