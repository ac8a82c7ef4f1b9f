"""A group of settings in a configuration is a dataclass: its fields are the keys, each with its kind.

@dataclass(frozen=True)
class CheckpointConfig(Section, path="checkpoint"):
keep: int = setting(1, Count())
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from note_rl.errors import SettingsError
from note_rl.errors.wording import Name, SettingName, out_of_range
from note_rl.support.setting_fields import check_fields
from tuner.config.vocabulary import CommandLine
from tuner.errors import UserError


class Section:
    """Base of the dataclasses of groups: refuses values of another kind or out of range, with their paths."""

    _path: ClassVar[str] = ""

    def __init_subclass__(cls, path: str | None = None) -> None:
        """Keeps where the group stands; "": its keys are at the top; None: where that of its base class does."""
        super().__init_subclass__()
        if path is not None:
            cls._path = path

    def __post_init__(self) -> None:
        """Refuses the first value that cannot be (UserError)."""
        try:
            check_fields(self)
        except SettingsError as error:
            raise UserError(error.said(self._words)) from error

    @property
    def _words(self) -> CommandLine:
        return CommandLine(self._path, vars(self))

    def typed(self, name: str) -> str:
        """A setting with its value, as it is typed."""
        return self._words.at(SettingName(name), getattr(self, name))


@dataclass(frozen=True)
class Named:
    """A kind: the name of a file or another thing, or a list of them. What is no text is left alone.

    Attributes:
        range: Description of the possible names, behind "must be".
        blank: Characters that make no name by themselves; None: white space.
    """

    range: str
    blank: str | None = None

    def __call__(self, name: Name, value: Any) -> Any:
        """The name."""
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, str) and ("\0" in one or not one.strip(self.blank)):
                raise SettingsError(out_of_range(name, f"be {self.range}", one))
        return value
