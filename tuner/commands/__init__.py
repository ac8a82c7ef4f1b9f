"""The commands of `tuner`, one module each.

A command module has one entry point, `run(config, folder, overrides) -> int`: the composed and checked config
(interpolations not yet resolved, Hydra's own part left out), the folder the command may write into (`hydra.run.dir` of
its primary config, absolute), and what was typed (of a sweep, what this run is about). It returns the exit status.
What the user did wrong is a `tuner.errors.UserError`; `tuner.cli` prints it.

A module may also have `check(config, folder, overrides, config_dir)`, called before the folder is made
(`has_check`), `plan(config, overrides, config_dir) -> int`, which only says what would be done and writes nothing
(`has_plan`, with `plan=true`), and, if it trains one run (`has_objective`): `objective(config, trial) -> float`, what
it is for a job of hydra/sweeper=optuna, with `tracker_of(config)` and `trained_config(config)` for the trackers of such
a sweep, and `run_of_multirun(config, folder, overrides, member) -> int` for one run of `-m`. A command that only prints
what is configured has `show(config, overrides, config_dir) -> int` in the place of `run` (`only_shows`).
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from tuner.commands.multirun import RunOfMultirun
    from tuner.commands.preflight import Preflight
    from tuner.trackers.base import Tracker
    from tuner.trial.context import TrialContext
    from tuner.trial.messages import JsonDict


class CommandModule(Protocol):
    """What `tuner.cli` uses of a command module."""

    def run(self, config: "DictConfig", folder: Path, overrides: Sequence[str]) -> int:
        """Does it and returns the exit status."""

    def run_of_multirun(
        self, config: "DictConfig", folder: Path, overrides: Sequence[str], member: "RunOfMultirun"
    ) -> int:
        """Does it as one of several runs and returns the exit status."""

    def tracker_of(self, config: "DictConfig") -> "Tracker":
        """The trackers of a sweep with this config."""

    def trained_config(self, config: "DictConfig") -> "JsonDict":
        """What a job with this config is said to be."""

    def objective(self, config: "DictConfig", trial: "TrialContext") -> float:
        """Does it as a trial of a sweep and returns the score."""

    def check(
        self, config: "DictConfig", folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None
    ) -> None:
        """Refuses what can be told to be wrong before anything is written."""

    def show(self, config: "DictConfig", overrides: Sequence[str], config_dir: str | Path | None) -> int:
        """Prints what is configured, and returns the exit status."""

    def plan(self, config: "DictConfig", overrides: Sequence[str], config_dir: str | Path | None) -> int:
        """Says what would be done; writes nothing, and so is not run by Hydra. Returns the exit status."""


@dataclass(frozen=True)
class Command:
    """What `tuner.cli` has to know of a command without importing it.

    Attributes:
        name: What is typed after `tuner`.
        summary: One line for the help page.
        config_name: Its primary config in conf/.
        is_job: Run by Hydra, which makes its folder and offers --multirun; else called directly.
        has_check: Its module has a `check`.
        has_plan: Its module has a `plan`, and its config the key.
        has_objective: Its module trains one run: it has an `objective` and what goes with that.
        only_shows: Its module has a `show` and no `run`.
        positional: The config key that a bare word on the command line is given to (`tuner play RUN`).
        takes_several: There may be several bare words, which become a list.
        usage: What may follow the name, for the help page.
        folder_key: The setting that names another folder to write into.
        takes_environments: Whether `env=[a,b]` means several environments to it.
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
    takes_several: bool = False
    usage: str = "[KEY=VALUE ...]"
    folder_key: str | None = None
    takes_environments: bool = False

    def meant(self, overrides: Sequence[str]) -> list[str]:
        """What was typed, with what is short for something else as that."""
        if not self.takes_environments:
            return list(overrides)
        from tuner.checking.environments import spelled_out

        return spelled_out(overrides)

    def load(self) -> CommandModule:
        """The module, imported."""
        return cast(CommandModule, importlib.import_module(f"tuner.commands.{self.name}"))

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
            overrides: What was typed, as it is `meant`.
            config_dir: A user's own folder of groups.
            config_name: Another primary config than the command's own.
            multirun: Whether overrides may list several values.

        Raises:
            UserError: What is wrong and what to type instead.
            note_rl.errors.NoteRLError: What the training core refuses.
        """
        from tuner.commands.preflight import check_command, refuse_primary_of_another

        if config_name not in (None, self.config_name):
            refuse_primary_of_another(str(config_name), self.name, self.config_name, config_dir)
        found = check_command(
            config_name or self.config_name, overrides, config_dir, multirun=multirun, with_run=self.is_job
        )
        if self.has_check:
            folder = found.sweep_folder if multirun else found.folder
            self.load().check(found.config, folder, tuple(overrides), config_dir)
        return found


COMMANDS = {
    command.name: command
    for command in (
        Command("train", "train one agent", "train", is_job=True, has_check=True, has_objective=True),
        Command(
            "tune",
            "search for good hyperparameters",
            "tune",
            is_job=True,
            has_check=True,
            has_plan=True,
            folder_key="study.folder",
            takes_environments=True,
        ),
        Command(
            "find",
            "suggest a learning rate, optimizer or agent",
            "find",
            is_job=True,
            has_check=True,
            positional="finder",
            usage="[lr|optimizer|agent]",
            folder_key="study.folder",
        ),
        Command("compare", "adaptation against none, on fresh seeds", "compare", is_job=True, has_check=True),
        Command(
            "play",
            "evaluate a trained run and film it",
            "play",
            has_check=True,
            positional="run",
            usage="RUN [KEY=VALUE ...]",
        ),
        Command(
            "export",
            "write a trained policy as ONNX and the like",
            "export",
            has_check=True,
            positional="run",
            usage="RUN [KEY=VALUE ...]",
        ),
        Command(
            "plot",
            "learning curves of runs and studies",
            "plot",
            has_check=True,
            positional="runs",
            takes_several=True,
            usage="RUN ... [...]",
        ),
        Command(
            "report",
            "write the page of a study",
            "report",
            has_check=True,
            positional="study.name",
            usage="[STUDY] [KEY=VALUE ...]",
        ),
        Command(
            "ablate",
            "which changes made the winner better",
            "ablate",
            has_check=True,
            has_plan=True,
            positional="study.name",
            usage="[STUDY] [KEY=VALUE ...]",
        ),
        Command(
            "dashboard",
            "browse the studies of a storage",
            "dashboard",
            has_check=True,
            positional="storage.url",
            usage="[URL]",
        ),
        Command(
            "options",
            "what an agent can be told",
            "options",
            only_shows=True,
            positional="agent",
            usage="[AGENT] [...]",
        ),
        Command("doctor", "versions, devices, extras: for a bug report", "doctor"),
    )
}
