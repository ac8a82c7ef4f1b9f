"""Facts about each setting, written once: beside the field of the dataclass that holds it.

    capacity: int = setting(10_000, Count(), manual="pool_size", text="Transitions kept, all environments together.")

From this come the dataclass's default, its check (`check_fields`) and its help (`documented`), and with those of all
dataclasses the table that set() reads its arguments from, see `note_rl.settings.settings_table`.
"""

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from note_rl.errors.wording import Phrase, SettingName
from note_rl.support.value_kinds import Kind, Number

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
        effect: Which way it works, in a clause such as "higher: more exploration"; "": the text says it.
        typical: The usual range, such as "0.9 to 0.999"; "": there is none.
        part: The class that holds it.
        fixed: Whether it is read only when an agent is made.
    """

    name: str
    manual_name: str | None = None
    kind: Kind | None = None
    default: Any = None
    text: str
    effect: str = ""
    typical: str = ""
    part: str = ""
    fixed: bool = False

    @property
    def range(self) -> str:
        """The values that it takes, in words."""
        return "" if self.kind is None else self.kind.range

    @property
    def why_fixed(self) -> str:
        """Why no schedule can move it, in a clause; "": one can."""
        if self.fixed:
            return "it is read only when the agent is made"
        is_fraction = self.kind is None or isinstance(self.kind, Number)
        return "" if is_fraction else f"it is {self.range}, and schedules give fractions"

    @property
    def default_in_words(self) -> str:
        """The default as people write it: thousands apart, and for None what its text says of it."""
        if isinstance(self.default, int | float) and not isinstance(self.default, bool):
            return f"{self.default:,}"
        meaning = re.search(r"None: ([^;.:]+)", self.text) if self.default is None else None
        return meaning[1] if meaning else str(self.default)

    @property
    def in_words(self) -> str:
        """Its text, which way it works, and the typical range."""
        effect = self.effect and f"{self.effect[0].upper()}{self.effect[1:]}."
        return " ".join(filter(None, (self.text, effect, self.typical and f"Usually {self.typical}.")))


@dataclass(frozen=True)
class _Said:
    """Arguments of setting() beside the default."""

    kind: Kind | None
    text: str
    manual: str | None = ""
    effect: str = ""
    typical: str = ""
    fixed: bool = False


def setting(
    default: Any = dataclasses.MISSING,
    kind: Kind | None = None,
    *,
    text: str = "",
    effect: str = "",
    typical: str = "",
    manual: str | None = "",
    fixed: bool = False,
    init: bool = True,
    kw_only: Any = dataclasses.MISSING,
) -> Any:
    """A field of a settings dataclass, or of the declaration of an agent (`note_rl.agents.declaration`).

    Args:
        default: Where nothing is said; a class stands for a new object of it; missing: it must be given.
        kind: What it must be.
        text: What it is, in a sentence or two.
        effect: Which way it works, in a clause such as "higher: more exploration".
        typical: The usual range, such as "0.9 to 0.999".
        manual: The argument of set() or train() that gives it; "": the field's own name; None: there is none.
        fixed: Whether it is read only when an agent is made, so that no schedule can move it.
        init: Whether the constructor takes it; False: it keeps its default.
        kw_only: Whether it is given by name only; missing: as the class says.
    """
    metadata = {_KEY: _Said(kind, text, manual, effect, typical, fixed)}
    if isinstance(default, type):
        return dataclasses.field(default_factory=default, metadata=metadata, init=init, kw_only=kw_only)
    return dataclasses.field(default=default, metadata=metadata, init=init, kw_only=kw_only)


def like(settings: type, name: str, default: Any = dataclasses.MISSING) -> Any:
    """A field that is the same setting as one of another dataclass, but for its default if one is given."""
    other = next(one for one in dataclasses.fields(settings) if one.name == name)
    return dataclasses.field(
        default=other.default if default is dataclasses.MISSING else default, metadata=other.metadata
    )


def fields_of(settings: type) -> tuple[Field, ...]:
    """The settings that a dataclass holds, in their order."""
    known = (field_of(one, one.name, settings.__name__) for one in dataclasses.fields(settings))
    return tuple(one for one in known if one is not None)


def field_of(given: "dataclasses.Field[Any]", name: str, part: str) -> Field | None:
    """The facts about a field that setting() made; None: another function made it.

    Args:
        given: What it gave.
        name: Of the field.
        part: Of its class.
    """
    said: _Said | None = given.metadata.get(_KEY)
    if said is None:
        return None
    return Field(
        name=name,
        manual_name=name if said.manual == "" else said.manual,
        kind=said.kind,
        default=given.default if given.default_factory is dataclasses.MISSING else given.default_factory(),
        text=said.text,
        effect=said.effect,
        typical=said.typical,
        part=part,
        fixed=said.fixed,
    )


def check_fields(settings: Any, left_out: Collection[str] = ()) -> None:
    """Has each value of a frozen dataclass looked at by its kind, from its `__post_init__`; None is left alone.

    Args:
        settings: The dataclass.
        left_out: Fields that are left alone, too.

    Raises:
        SettingsError: Naming the first value of another kind or out of range.
    """
    for one in dataclasses.fields(settings):
        said, value = one.metadata.get(_KEY), getattr(settings, one.name)
        if said is not None and said.kind is not None and value is not None and one.name not in left_out:
            object.__setattr__(settings, one.name, said.kind(_named(type(settings), one.name, said), value))


def named(settings: type, name: str) -> SettingName:
    """A field in a message."""
    said: _Said = next(one.metadata[_KEY] for one in dataclasses.fields(settings) if one.name == name)
    return _named(settings, name, said)


def _named(settings: type, name: str, said: _Said) -> SettingName:
    argument = name if said.manual == "" else said.manual or ""
    return SettingName(name, argument, settings.__name__)


def given(settings: Any, name: str) -> Phrase:
    """A field with its value, in a message."""
    return named(type(settings), name).at(getattr(settings, name))


def documented(settings: type[_C]) -> type[_C]:
    """Adds the texts of its fields to the docstring of a dataclass."""
    settings.__doc__ = with_texts(str(settings.__doc__), "Attributes", fields_of(settings))
    return settings


def with_texts(doc: str, section: str, fields: Iterable[Field]) -> str:
    """A docstring with what is known of these fields at the end of a section, which is begun where it is not there."""
    lines = (f"    {one.name}: {one.in_words}" for one in fields)
    texts = "\n".join(textwrap.fill(line, 120, subsequent_indent=" " * 8) for line in lines)
    summary = inspect.cleandoc(doc)
    return f"{summary}\n{texts}" if f"{section}:" in summary else f"{summary}\n\n{section}:\n{texts}"
