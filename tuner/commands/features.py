"""Contributions of a feature to the command line."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.commands.command import Command, CommandModule
from tuner.features import nothing, parts

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from tuner.runs.trained_agents import TrainedPolicy
    from tuner.study import StudyDefinition, StudyStore
    from tuner.trial.messages import JsonDict


@dataclass(frozen=True)
class InCommands:
    """Contributions of a feature to the command line.

    Attributes:
        commands: Its own, each with the module that it is in. This is read for the help page: import nothing heavy.
        defined: The study of a config, of what was typed and of the folder of groups, where that is one of the feature.
        policy: Restores the policy that a run of this function has learned, from its configuration and folder.
        for_play: The part of the saved state of a run of this function that others need to play it, and the environment
            steps that it was trained for, given its configuration and that state; None: it is none of the feature's.
        files: The store of the files that `tuner dashboard` shows of studies, given its config and the storage; None:
            there are none.
        compared: The module that does `tuner compare` with this config in place of the comparison of adaptation.
        tuned: The module that does `tuner tune` with this config in place of one study.
        baselines: Known configurations that are no experiments, by their names in `study.baselines`: the overrides of
            one, given the configuration that a study varies.
    """

    commands: tuple[Command, ...] = ()
    defined: "Callable[[DictConfig, Sequence[str], str | Path | None], StudyDefinition | None]" = nothing
    policy: "Callable[[Mapping[str, Any]], Callable[[Mapping[str, Any], Path], TrainedPolicy] | None]" = nothing
    for_play: "Callable[[Mapping[str, Any], Mapping[str, Any]], tuple[Mapping[str, Any], int] | None]" = nothing
    compared: "Callable[[DictConfig], CommandModule | None]" = nothing
    files: "Callable[[DictConfig, StudyStore], Any]" = nothing
    tuned: "Callable[[DictConfig], CommandModule | None]" = nothing
    baselines: "Mapping[str, Callable[[JsonDict], Sequence[str]]]" = field(default_factory=dict)


def policy_loader(config: "Mapping[str, Any]") -> "Callable[[Mapping[str, Any], Path], TrainedPolicy] | None":
    """The loader of the policy that a run of a function has learned; None: none is known for this function."""
    return next((load for part in parts(InCommands) if (load := part.policy(config))), None)
