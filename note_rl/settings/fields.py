"""What is known of each setting, said once: beside the field of the dataclass that holds it.

    capacity: int = setting(10_000, Count(), manual="pool_size", text="Transitions kept, all environments together.")

From this come the dataclass's default, its check (`check_fields`) and its help (`documented`), and with those of all
dataclasses the table that set() reads its arguments from, see `note_rl.settings.table`.
"""

import dataclasses
import inspect
import re
import textwrap
from dataclasses import dataclass
from typing import Any, TypeVar

from note_rl.support.checking import Kind

_KEY = "setting"
_C = TypeVar("_C")


@dataclass(frozen=True, kw_only=True)
class Field:
    """One setting.

    Attributes:
        name: In the dataclass and in configurations.
        manual_name: The argument of set() or train() that gives it; None: neither does.
        kind: What it must be; None: checked where it is used, or an object of a class.
        default: Where nothing is said.
        text: What it is, in a sentence or two.
        part: The class that holds it.
    """

    name: str
    manual_name: str | None = None
    kind: Kind | None = None
    default: Any = None
    text: str
    part: str = ""

    @property
    def range(self) -> str:
        """The values that it takes, in words."""
        return "" if self.kind is None else self.kind.range

    @property
    def default_in_words(self) -> str:
        """The default as people write it: thousands apart, and for None what its text says of it."""
        if isinstance(self.default, int | float) and not isinstance(self.default, bool):
            return f"{self.default:,}"
        meaning = re.search(r"None: ([^;.:]+)", self.text) if self.default is None else None
        return meaning[1] if meaning else str(self.default)


@dataclass(frozen=True)
class _Said:
    """What setting() was told beside the default."""

    kind: Kind | None
    text: str
    manual: str | None
    refused_as: str


def setting(default: Any, kind: Kind | None = None, *, text: str, manual: str | None = "", refused_as: str = "") -> Any:
    """A field of a settings dataclass.

    Args:
        default: Where nothing is said; a class stands for a new object of it.
        kind: What it must be.
        text: What it is.
        manual: The argument of set() or train() that gives it; "": the field's own name; None: there is none.
        refused_as: What a refusal calls it; "": the field's own name.
    """
    metadata = {_KEY: _Said(kind, text, manual, refused_as)}
    if isinstance(default, type):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def like(settings: type, name: str) -> Any:
    """A field that is the same setting as one of another dataclass."""
    other = next(one for one in dataclasses.fields(settings) if one.name == name)
    return dataclasses.field(default=other.default, metadata=other.metadata)


def fields_of(settings: type) -> tuple[Field, ...]:
    """The settings that a dataclass holds, in their order."""
    return tuple(
        Field(
            name=one.name,
            manual_name=one.name if said.manual == "" else said.manual,
            kind=said.kind,
            default=one.default if one.default_factory is dataclasses.MISSING else one.default_factory(),
            text=said.text,
            part=settings.__name__,
        )
        for one in dataclasses.fields(settings)
        if (said := one.metadata.get(_KEY)) is not None
    )


def check_fields(settings: Any) -> None:
    """Has each value of a frozen dataclass looked at by its kind, from its `__post_init__`; None is left alone.

    Raises:
        SettingsError: Naming the first value of another kind or out of range.
    """
    for one in dataclasses.fields(settings):
        said, value = one.metadata.get(_KEY), getattr(settings, one.name)
        if said is not None and said.kind is not None and value is not None:
            object.__setattr__(settings, one.name, said.kind(said.refused_as or one.name, value))


def documented(settings: type[_C]) -> type[_C]:
    """Adds the texts of its fields to the docstring of a dataclass."""
    lines = (f"    {one.name}: {one.text}" for one in fields_of(settings))
    texts = "\n".join(textwrap.fill(line, 120, subsequent_indent=" " * 8) for line in lines)
    summary = inspect.cleandoc(str(settings.__doc__))
    settings.__doc__ = f"{summary}\n{texts}" if "Attributes:" in summary else f"{summary}\n\nAttributes:\n{texts}"
    return settings
