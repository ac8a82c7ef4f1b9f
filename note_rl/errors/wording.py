"""Messages whose words depend on their reader.

In Python, settings are arguments of set() and train(), in the manuals' names; on a command line, they are paths. So a
message has places for phrases about settings, and a vocabulary puts these into words when the message is printed.

    raise SettingsError("{} is more than the pool holds ({})", BATCH.at(64), CAPACITY.at(10))
"""

import numbers
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable


class Vocabulary:
    """The words of Python; a subclass has those of another reader. Each method stands for a kind of phrase."""

    def name(self, setting: "SettingName") -> str:
        """A setting: the argument of set() or train(), and the field of its class where that has another name."""
        return "/".join(dict.fromkeys(filter(None, (setting.argument, setting.name))))

    def at(self, setting: "SettingName", value: Any) -> str:
        """A setting with a value."""
        return f"{self.name(setting)}={value}"

    def add(self, setting: "SettingName") -> str:
        """The advice to turn a switch on."""
        return f"add {self.at(setting, True)} to set()"

    def leave_out(self, setting: "SettingName") -> str:
        """The advice not to give a setting; a switch belongs to no part."""
        return f"leave {(setting.argument or setting.name) if setting.part else self.at(setting, True)} out"

    def choice(self, name: str) -> str:
        """One of several classes, methods or other ways, by its name in Python."""
        return name

    def out_of_range(self, setting: "SettingName", rule: str, value: Any, hint: str) -> str:
        """A value that a setting cannot have."""
        written = str(value) if isinstance(value, numbers.Number) else repr(value)
        return f"{setting.name} must {rule}, got {written}{hint}"

    def within(self, group: str, name: str, message: "Sentence") -> str:
        """A message about one entry of a setting that maps names to settings of their own."""
        return f"{name}: {message.said(self)}"


PYTHON: Final = Vocabulary()
_reader: Final = ContextVar[Vocabulary]("reader", default=PYTHON)


@contextmanager
def speaking(vocabulary: Vocabulary) -> Iterator[None]:
    """Inside, messages that are printed have the words of this vocabulary."""
    before = _reader.set(vocabulary)
    try:
        yield
    finally:
        _reader.reset(before)


@runtime_checkable
class Worded(Protocol):
    """A part of a message that has other words for another reader."""

    def said(self, vocabulary: Vocabulary) -> str:
        """The words of a vocabulary."""


Part = str | Worded


@dataclass(frozen=True)
class Phrase:
    """A kind of phrase, by its method of a vocabulary, and what it is about."""

    kind: str
    about: tuple[Any, ...]

    def said(self, vocabulary: Vocabulary) -> str:
        """The words of a vocabulary."""
        words: str = getattr(vocabulary, self.kind)(*self.about)
        return words

    def __str__(self) -> str:
        """Its words for the reader; see `Sentence`."""
        return self.said(_reader.get())


@dataclass(frozen=True)
class SettingName:
    """One setting, by its name.

    Attributes:
        name: Of the field of the class that holds it.
        argument: Of set() or train() that gives it; "": neither does.
        part: The class that holds it; "": that which is being made, or several as of a switch.
    """

    name: str
    argument: str = ""
    part: str = ""

    def said(self, vocabulary: Vocabulary) -> str:
        """Its name."""
        return vocabulary.name(self)

    def __str__(self) -> str:
        """Its name for the reader; see `Sentence`."""
        return self.said(_reader.get())

    def at(self, value: Any) -> Phrase:
        """The setting with a value."""
        return Phrase("at", (self, value))

    def add(self) -> Phrase:
        """The advice to turn a switch on."""
        return Phrase("add", (self,))

    def leave_out(self) -> Phrase:
        """The advice not to give it."""
        return Phrase("leave_out", (self,))


class Sentence:
    """A text, with places for phrases and values.

    Args:
        text: As `str.format` has it, where there are parts; alone, it is taken as it is.
        *parts: For its places.
    """

    def __init__(self, text: Part = "", *parts: Any) -> None:
        self._text, self._parts = text, parts

    def said(self, vocabulary: Vocabulary) -> str:
        """The words of a vocabulary."""
        text, *parts = (one.said(vocabulary) if isinstance(one, Worded) else one for one in (self._text, *self._parts))
        return str(text).format(*parts) if parts else str(text)

    def __str__(self) -> str:
        """The words of Python, or those that are asked for by `speaking`."""
        return self.said(_reader.get())


def within(group: str, name: str, *message: Any) -> Phrase:
    """A message about one entry of a setting that maps names to settings of their own.

    Args:
        group: That setting.
        name: Of the entry.
        *message: The arguments of a `Sentence`.
    """
    return Phrase("within", (group, name, Sentence(*message)))


def choice(name: str) -> Phrase:
    """One of several classes, methods or other ways, by its name in Python."""
    return Phrase("choice", (name,))


Name = str | SettingName
"""Of a setting, or of anything else that has a value."""


def as_setting(name: Name) -> SettingName:
    """The setting of a name; what it is a part of is known where it is printed."""
    return SettingName(name) if isinstance(name, str) else name


def out_of_range(name: Name, rule: str, value: Any, hint: str = "") -> Phrase:
    """A value that a setting cannot have.

    Args:
        name: Of what has the value.
        rule: What it must: "be at least 1".
        value: What was given.
        hint: What else is said, with the sign that separates it.
    """
    return Phrase("out_of_range", (as_setting(name), rule, value, hint))
