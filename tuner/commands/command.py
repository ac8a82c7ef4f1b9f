"""The description of a command, and the interface of its module."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from tuner.commands.multirun import RunOfMultirun
    from tuner.commands.preflight import Job, Preflight
    from tuner.trackers.base import Tracker
    from tuner.trial.context import TrialContext
    from tuner.trial.messages import JsonDict


class CommandModule(Protocol):
    """The functions of a command module that `tuner.cli` calls."""

    def run(self, config: "DictConfig", folder: Path, overrides: Sequence[str]) -> int:
        """Does it and returns the exit status."""

    def run_of_multirun(
        self, config: "DictConfig", folder: Path, overrides: Sequence[str], member: "RunOfMultirun"
    ) -> int:
        """Does it as one of several runs and returns the exit status."""

    def tracker_of(self, config: "DictConfig") -> "Tracker":
        """The trackers of a sweep with this config."""

    def trained_config(self, config: "DictConfig") -> "JsonDict":
        """The run's configuration that identifies a job with this config."""

    def objective(self, config: "DictConfig", trial: "TrialContext") -> float:
        """Does it as a trial of a sweep and returns the score."""

    def check(
        self, config: "DictConfig", folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None
    ) -> None:
        """Refuses what is known to be wrong before anything is written."""

    def check_jobs(self, jobs: Sequence["Job"], config_dir: str | Path | None) -> None:
        """Refuses jobs of one sweep that do not go together."""

    def show(self, config: "DictConfig", overrides: Sequence[str], config_dir: str | Path | None) -> int:
        """Prints what is configured, and returns the exit status."""

    def plan(self, config: "DictConfig", overrides: Sequence[str], config_dir: str | Path | None) -> int:
        """Says what would be done; writes nothing, and so is not run by Hydra. Returns the exit status."""


@dataclass(frozen=True)
class Command:
    """The description of a command, which `tuner.cli` reads without importing its module.

    Attributes:
        name: The word behind `tuner`.
        summary: One line for the help page.
        config_name: Its primary config in conf/.
        is_job: Run by Hydra, which makes its folder and offers --multirun; else called directly.
        has_check: Its module has a `check`.
        has_plan: Its module has a `plan`, and its config the key.
        has_objective: Its module trains one run: it has an `objective` and what goes with that.
        only_shows: Its module has a `show` and no `run`.
        positional: The config key that a bare word on the command line is given to (`tuner play RUN`).
        key_of: Finds the config key of a bare word that is given to another one (`tuner check my_rl.Agent`), from the
            word and the user's own folder of groups; None: all are given to `positional`.
        takes_several: There may be several bare words, which become a list.
        own_code: Modules in the working directory are part of the program, as of a job.
        listed: Groups of which several choices may be listed (`agent=[a,b]`); the list becomes that of the setting with
            an s behind the name, and its first choice that of the group.
        usage: The arguments that may follow the name, for the help page.
        folder_key: The setting that names another folder to write into.
        is_search: Whether features give what is typed another meaning, and its module has a `check_jobs`.
        module: Where it is; empty: the one of its name in this package.
        example: Its use beside `tuner NAME STUDY`, for the help page.
        typed: The overrides; a setting that bears the name of a group gets the name that it has in its config.
    """

    name: str
    summary: str
    config_name: str
    is_job: bool = False
    has_check: bool = False
    has_plan: bool = False
    has_objective: bool = False
    only_shows: bool = False
    positional: str | None = None
    key_of: Callable[[str, str | Path | None], str | None] | None = None
    takes_several: bool = False
    own_code: bool = False
    listed: tuple[str, ...] = ()
    usage: str = "[KEY=VALUE ...]"
    folder_key: str | None = None
    is_search: bool = False
    module: str = ""
    example: str = ""
    typed: Callable[[Sequence[str]], Sequence[str]] = list

    def meant(self, overrides: Sequence[str]) -> list[str]:
        """The overrides, with short forms written in full."""
        from tuner.config.overrides import quoted_texts

        overrides = quoted_texts(self.typed(overrides))
        if self.listed:
            from tuner.checking.listed_choices import with_lists

            return with_lists(overrides, self.listed)
        if not self.is_search and not any(word.startswith("agent=") for word in overrides):
            return overrides  # spares the imports
        from tuner.checking.features import meant, named

        return meant(overrides) if self.is_search else named(overrides)

    def load(self) -> CommandModule:
        """The module, imported."""
        return cast(CommandModule, importlib.import_module(self.module or f"tuner.commands.{self.name}"))

    def checked(
        self,
        overrides: Sequence[str],
        config_dir: str | Path | None = None,
        *,
        config_name: str | None = None,
        multirun: bool = False,
    ) -> "Preflight":
        """Everything up to the moment at which the command would begin; nothing is written.

        Args:
            overrides: The overrides, as `meant` returns them.
            config_dir: A user's own folder of groups.
            config_name: Another primary config than the command's own.
            multirun: Whether overrides may list several values.

        Raises:
            UserError: A setting or a combination of settings is wrong; the message says what to type instead.
            note_rl.errors.NoteRLError: The training core refuses a setting.
        """
        from tuner.commands.preflight import check_command, refuse_primary_of_another

        if config_name not in (None, self.config_name):
            refuse_primary_of_another(str(config_name), self.name, self.config_name, config_dir)
        found = check_command(
            config_name or self.config_name, overrides, config_dir, multirun=multirun, with_run=self.is_job
        )
        if self.has_plan and not (multirun or found.multirun or found.config.plan):
            from tuner.config.composition import to_json
            from tuner.executors import head_start

            head_start.begin(to_json(found.config, ("executor",))["executor"])
        if self.has_check:
            folder = found.sweep_folder if multirun else found.folder
            self.load().check(found.config, folder, tuple(overrides), config_dir)
        if self.is_search and found.jobs:
            self.load().check_jobs(found.jobs, config_dir)
        return found
