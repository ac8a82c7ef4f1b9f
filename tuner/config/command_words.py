"""Words of command lines and of texts for a shell, and the files that they name.

There is one reader of such texts. It decides which files are compared when a study goes on, by which a command is known
again, and which words of a command get their whole path.
"""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tuner.config.sources import origin_of

_SHELLS: Final = ("bash", "dash", "ksh", "sh", "zsh")
_SOURCES: Final = (
    *(".cfg", ".gin", ".ini", ".jl", ".js", ".json", ".lua", ".pl", ".py", ".r", ".rb", ".toml", ".yaml", ".yml"),
    *(f".{shell}" for shell in _SHELLS),
)
"""Suffixes of files that are code or its settings: a command may name files of data, too."""

SHELL: Final = re.compile("|".join(_SHELLS))
PYTHON: Final = re.compile(r"python[\d.]*")
INTERPRETER: Final = re.compile(rf"{PYTHON.pattern}|node|julia|Rscript|{SHELL.pattern}")
_TAKES_NO_FILE = re.compile(r"-m|-\w*c")  # but a module, or a text
_READS_HERE = ("source", ".")  # commands of a shell
_WITHIN = r"""(?>\\[\s\S]|\$\((?>[^()]|\([^()]*\))*+\)|[^"\\])*+"""  # of double quotes; in $(...) quotes begin anew
_WORD = re.compile(rf"""(?<![^\s;|&()])(?P<comment>#.*)|(?:\\.|'[^']*'|"{_WITHIN}"|[^\s'"\\;|&()<>`])+""")
_QUOTED = re.compile(rf"""'(?P<single>[^']*)'|"(?P<double>{_WITHIN})"|\\(?P<one>.)""")
_SEPARATES = re.compile(r"""[\s'"\\;|&()<>`]""")
_BEHIND_AN_EXPANSION = re.compile(r"(?:.*(?:\$\w+|\}))?/(.+)", re.DOTALL)
"""`train.py` of `$HERE/train.py`, and of what is left of `$(dirname $0)/train.py` behind the parenthesis."""
_BEGINS_A_COMMAND = re.compile(r"(?:^|[;|&({\n`]|\b(?:then|do|else))\s*$")

_STARTS_ANEW = "$("

CHANGES_THE_FOLDER: Final = ("cd", "pushd")
PYTHON_PATH: Final = "PYTHONPATH"
_OF_THE_SYSTEM = ("/bin", "/sbin", "/usr", "/opt", sys.base_prefix, sys.prefix)


@dataclass(frozen=True)
class Word:
    """A word of a text for a shell.

    Attributes:
        written: With its quotes.
        start: Where it begins in the text.
        begins_a_command: Whether it is the name of a command.
    """

    written: str
    start: int
    begins_a_command: bool

    @property
    def value(self) -> str:
        """Without quotes; expansions stay as they are."""
        return unquoted(self.written)


def shell_words(text: str) -> Iterator[Word]:
    """The words of a text for a shell, without comments."""
    for found in _WORD.finditer(text):
        if found["comment"] is None:
            before = text[max(found.start() - 20, 0) : found.start()]
            yield Word(found[0], found.start(), _BEGINS_A_COMMAND.search(before) is not None)


def unquoted(written: str) -> str:
    """A word without its quotes, and without backslashes before double quotes in double quotes."""
    return _QUOTED.sub(lambda one: one["single"] or _inside(one["double"]) or one["one"] or "", written)


def quoted_like(written: str, value: str) -> str:
    """Another value, in double quotes if the word was, so that what a shell expands in it still is."""
    if _is_in_double_quotes(written):
        return f'"{value}"' if _STARTS_ANEW in value else '"' + value.replace('"', r"\"") + '"'
    return shlex.quote(value).replace("'\"'\"'", r"'\''")  # without double quotes it may stand between some


def _is_in_double_quotes(written: str) -> bool:
    return written.startswith('"') and _QUOTED.fullmatch(written) is not None


def can_change(written: str) -> bool:
    """Whether another value can take the place of a word: it is in double quotes as a whole, or has no expansions."""
    beside = _QUOTED.sub(lambda one: one["double"] or "", written)
    return _is_in_double_quotes(written) or not {"$", "`"} & set(beside)


def _inside(text: str | None) -> str:
    if text is None or _STARTS_ANEW in text:
        return text or ""
    return re.sub(r"\\([\s\S])", lambda one: '"' if one[1] == '"' else one[0], text)


def has_words(value: str) -> bool:
    """Whether a word may be a text of commands itself, as that behind `bash -c`."""
    return _SEPARATES.search(value) is not None


def words_of_command(line: str) -> Iterator[str]:
    """The words of a command line, and those of the texts for a shell among them."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    return _with_inner(words)


def words_of_shell(text: str) -> Iterator[str]:
    """The words of a text for a shell, and those of the texts among them."""
    return _with_inner(word.value for word in shell_words(text))


def _with_inner(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        yield word
        if has_words(word):
            yield from words_of_shell(word)


def runs_next(interpreter: str, word: str) -> str:
    """The interpreter whose file is still to come behind a word, as behind `python -u`; "": none.

    Args:
        interpreter: The same, before the word.
        word: It.
    """
    name = os.path.basename(word)
    if name in _READS_HERE:
        return "sh"
    if INTERPRETER.fullmatch(name):
        return name
    return interpreter if word.startswith("-") and not _TAKES_NO_FILE.fullmatch(word) else ""


@dataclass(frozen=True)
class CommandFile:
    """A file that a command names.

    Attributes:
        place: Where it lies.
        interpreter: The program that reads it as code, by its name; "": none that is known.
    """

    place: str
    interpreter: str = ""

    @property
    def is_code(self) -> bool:
        """Whether it is code or its settings rather than data, or a program of the system."""
        file = Path(self.place)
        if is_source(self.place):
            return True
        is_program = not file.suffix and os.access(file, os.X_OK)
        return (bool(self.interpreter) or is_program) and not _is_of_the_system(file)

    @property
    def language(self) -> str:
        """The suffix of code, or the interpreter that the command or the first line of the file names; "": unknown."""
        if is_source(self.place):
            return Path(self.place).suffix.lower().removeprefix(".")
        return self.interpreter or _interpreter_in(self.place)


def _interpreter_in(place: str) -> str:
    with suppress(OSError), open(place, "rb") as file:
        line = file.readline(200).decode(errors="replace")
        names = (os.path.basename(word) for word in line.removeprefix("#!").split())
        return next(filter(INTERPRETER.fullmatch, names), "") if line.startswith("#!") else ""
    return ""


def is_source(place: str) -> bool:
    """Whether the name of a file says that it is code or its settings."""
    return Path(place).suffix.lower() in _SOURCES


def _is_of_the_system(file: Path) -> bool:
    found = shutil.which(file.name)
    if found is not None and os.path.realpath(found) == os.path.realpath(file):
        return True
    return not file.is_relative_to(Path.cwd()) and any(file.is_relative_to(folder) for folder in _OF_THE_SYSTEM)


def files_named(words: Iterable[str], folders: Sequence[str] = ()) -> Iterator[CommandFile]:
    """The files that words of commands name, where they lie; what is not there is none.

    Args:
        words: In order.
        folders: Where names are looked up besides this folder: that of the script in which the words stand.
    """
    places, before, interpreter = ["", *folders], "", ""
    for word in words:
        found = [path for path in _paths_of(word, places) if os.path.exists(path)]
        for path in found:
            for file in (path, os.path.join(path, "__main__.py")):
                if os.path.isfile(file):
                    yield CommandFile(os.path.realpath(file), interpreter)
        if before in CHANGES_THE_FOLDER:
            places += filter(os.path.isdir, found)
        if before == "-m" and (origin := origin_of(word)):
            yield CommandFile(os.path.realpath(origin))
        before, interpreter = word, runs_next(interpreter, word)


def _paths_of(word: str, places: Sequence[str]) -> Iterator[str]:
    """The paths that a word may stand for: it, and what is behind its equals sign."""
    for name in filter(None, (word, word.partition("=")[2])):
        yield from (os.path.join(place, os.path.expanduser(name)) for place in places)
        if behind := _BEHIND_AN_EXPANSION.fullmatch(name):
            yield from (os.path.join(place, behind[1]) for place in places[1:])


def python_path_of(words: Iterable[str]) -> Iterator[str]:
    """The folders in which words such as `PYTHONPATH=src:lib` have Python look for modules."""
    for word in words:
        name, _, folders = word.partition("=")
        if name == PYTHON_PATH:
            yield from filter(None, folders.split(os.pathsep))
