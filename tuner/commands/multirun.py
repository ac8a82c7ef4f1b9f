"""The runs of a Hydra multirun (`-m`): their common command line, and the place of each."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tuner.checking.hydra_messages import parse_overrides
from tuner.config.typed_command import folder_words
from tuner.support.passwords import command_line, without_password
from tuner.support.text_files import atomic_write, parse_json

_FOLDER = "hydra.sweep.dir"
_MEMBER_FILE = "multirun.json"


@dataclass(frozen=True)
class Multirun:
    """The command line of several runs. Plain data, which travels to other processes.

    Attributes:
        command: Name of the command.
        typed: Behind `tuner COMMAND -m`.
        fixed: Keys of which one value was typed, for all runs.
    """

    command: str
    typed: tuple[str, ...]
    fixed: frozenset[str]

    @classmethod
    def of(cls, command: str, overrides: Sequence[str], config_dir: str | None = None) -> "Multirun":
        """Made of a command's overrides, with a folder of the user's own groups."""
        fixed = (one.get_key_element() for one in parse_overrides(overrides) if not one.is_sweep_override())
        return cls(command, (*folder_words(config_dir), *overrides), frozenset(fixed))

    @property
    def folder_by_clock(self) -> bool:
        """Whether the folder of the runs has its name from the time, and not from the user."""
        return _FOLDER not in self.fixed

    @property
    def again(self) -> str:
        """The command that goes on with what was interrupted."""
        return command_line(["tuner", self.command, "-m", *self.typed])

    def member(self, overrides: Sequence[str], sweep_folder: Path) -> "RunOfMultirun":
        """The place of a run in it.

        Args:
            overrides: Of the run.
            sweep_folder: Above the folders of all runs.
        """
        own = (word for word in overrides if word.partition("=")[0] not in self.fixed)
        return RunOfMultirun(sweep_folder.name, tuple(map(without_password, own)))


@dataclass(frozen=True)
class RunOfMultirun:
    """A run among others.

    Attributes:
        group: Name of all of them together.
        overrides: Those that tell it from others.
    """

    group: str
    overrides: tuple[str, ...]

    @property
    def name(self) -> str:
        """`agent=ppo seed=2`; empty if nothing tells it from others."""
        return " ".join(self.overrides)

    def keep(self, folder: Path) -> None:
        """Writes it into the folder of the run, so that it has the same name when it is resumed."""
        atomic_write(folder / _MEMBER_FILE, json.dumps(asdict(self)) + "\n")

    @classmethod
    def kept_in(cls, folder: Path) -> "RunOfMultirun | None":
        """Read from the folder of a run; None: there is no readable file, and a run can do without."""
        try:
            kept = parse_json((folder / _MEMBER_FILE).read_bytes())
            return cls(str(kept["group"]), tuple(map(str, kept["overrides"])))
        except (OSError, ValueError, TypeError, KeyError):
            return None
