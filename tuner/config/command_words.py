"""Words of command lines and of texts for a shell, and the files that they name.

There is one reader of such texts. It decides which files are compared when a study goes on, by which a command is known
again, and which words of a command get their whole path. A text for a shell is read for code only: the file that a
command in it runs.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, takewhile
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
PYTHON_PATH: Final = "PYTHONPATH="
_QUOTED = re.compile(r"""'[^']*'|"(?:\\[\s\S]|[^"\\])*\"""")
_TOKEN = re.compile(
    r"(?P<comment>(?<![^\s;|&()])#.*)|\\\n|(?P<redirect>\d*(?:&>>?|<<<|<<-?|<>|[<>]&|>\||>>|[<>]))|(?P<end>[;|&()\n`])"
    rf"|(?P<word>(?:\$\(dirname [^()]*\)|\\[\s\S]|{_QUOTED.pattern}|[^\s'\"\\;|&()<>`])+)"
)
_SEPARATES = re.compile(r"[\s;|&()<>`]")
_BEFORE_A_COMMAND = re.compile(r"\w+=[\s\S]*|!|{+|if|then|elif|else|while|until|do|time|env|exec|export|command|nohup")
_BEHIND_AN_EXPANSION = re.compile(r".*(?:\$\w+|[)}])/(.+)", re.DOTALL)
"""`train.py` of `$HERE/train.py` and `$(dirname $0)/train.py`."""


def shell_commands(text: str) -> Iterator[list[re.Match[str]]]:
    """The words of each command in a text for a shell, without comments and what follows `>` or `<`."""
    words: list[re.Match[str]] = []
    before = None
    for token in _TOKEN.finditer(text):
        if token["word"] and before != "redirect":
            words.append(token)
        elif token["end"]:
            yield words
            words = []
        before = token.lastgroup
    yield words


def values_of(words: Iterable[re.Match[str]]) -> tuple[str, ...]:
    """The words without quotes; expansions stay as they are."""
    return tuple(re.sub("['\"]", "", word[0]) for word in words)


def num_before_command(words: Iterable[str]) -> int:
    """How many words stand before the name of the program: assignments, and those such as `env` and `then`."""
    return sum(1 for _ in takewhile(_BEFORE_A_COMMAND.fullmatch, words))


def code_of(words: tuple[str, ...], find: Callable[[str], str | None]) -> tuple[int, str, str] | None:
    """The file that a command runs: its program, if that has a slash, or what an interpreter or `source` reads.

    Args:
        words: Of the command.
        find: Gives the path of a file by its name; None: it is no such file.

    Returns:
        Which word it is, its path, and the name of the interpreter; None: there is none.
    """
    begin = num_before_command(words)
    names = [os.path.basename(word) for word in words]
    at = next((at for at in range(begin, len(words)) if INTERPRETER.fullmatch(names[at])), len(words))
    if begin < at and os.sep in words[begin] and (path := find(words[begin])):
        return begin, path, ""
    if words[begin : begin + 1] in (("source",), (".",)):
        path = find(words[begin + 1]) if len(words) > begin + 1 else None
        return (begin + 1, path, "sh") if path else None
    for place in range(at + 1, len(words)):
        word, is_behind_an_option = words[place], words[place - 1].startswith("-")
        if word.startswith("-"):
            if re.fullmatch(r"-\w*[cs]" if SHELL.fullmatch(names[at]) else r"-|-m|-e|-\w*c", word):
                return None  # a module, or a text, as that which comes by a pipe
        elif path := find(word):
            return place, path, names[at]
        elif not is_behind_an_option or os.sep in word or is_source(word):
            return None  # else it may belong to the option
    return None


def commands_of(line: str) -> Iterator[tuple[str, ...]]:
    """The words of a command line, and of the commands in the texts for a shell among them."""
    try:
        words = tuple(shlex.split(line))
    except ValueError:
        words = tuple(line.split())
    yield words
    for word in filter(_SEPARATES.search, words):
        yield from commands_in(word)


def commands_in(text: str) -> Iterator[tuple[str, ...]]:
    """The words of the commands in a text for a shell, and in the texts among them."""
    for words in shell_commands(text):
        yield values_of(words)
        for inner in (word[0][1:-1] for word in words if _QUOTED.fullmatch(word[0])):
            if _SEPARATES.search(inner):
                yield from commands_in(inner)


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
        is_program = not Path(self.place).suffix and os.access(self.place, os.X_OK)
        return is_source(self.place) or ((bool(self.interpreter) or is_program) and _is_within(self.place, "."))

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


def _is_within(place: str, *folders: str) -> bool:
    """Whether a file lies in one of these folders, and not in an environment of Python there."""
    file = Path(os.path.abspath(place))  # of a link where it lies
    is_installed = any((file.parent.parent / name).exists() for name in ("pyvenv.cfg", "conda-meta"))
    return not is_installed and any(file.is_relative_to(os.path.abspath(folder)) for folder in folders)


def files_of_line(line: str) -> Iterator[CommandFile]:
    """The files that a command line names, where they lie, and the code that texts for a shell in it run."""
    words, *others = commands_of(line)
    code = code_of(words, partial(_found, [""], ()))
    for at, word in enumerate(words):
        for name in filter(None, (word, word.partition("=")[2])):
            for path in filter(os.path.isfile, (name, os.path.join(name, "__main__.py"))):
                yield CommandFile(os.path.realpath(path), code[2] if code and code[0] == at else "")
    yield from _modules(words)
    yield from code_in(others)


def code_in(commands: Iterable[tuple[str, ...]], *beside: str) -> Iterator[CommandFile]:
    """The files that commands of a shell run, as far as they lie in this folder or beside the script.

    Args:
        commands: Their words.
        beside: The folder of the script in which they stand.
    """
    places = ["", *beside]
    find = partial(_found, places, beside)
    for words in commands:
        if (found := code_of(words, find)) is not None:
            yield CommandFile(*found[1:])
        yield from _modules(words)
        if words[:1] in (("cd",), ("pushd",)):
            places += [os.path.join(place, *words[1:2]) for place in ("", *beside)]


def _found(places: Iterable[str], beside: Iterable[str], name: str) -> str | None:
    """Where a file lies that is looked up in some places, and counts in this folder and in others."""
    behind = _BEHIND_AN_EXPANSION.fullmatch(name)
    paths = (os.path.join(place, behind[1] if behind else name) for place in places)
    return next(
        (os.path.realpath(path) for path in paths if os.path.isfile(path) and _is_within(path, ".", *beside)), None
    )


def _modules(words: Iterable[str]) -> Iterator[CommandFile]:
    for before, word in pairwise(words):
        if before == "-m" and (origin := origin_of(word)):
            yield CommandFile(os.path.realpath(origin))


def python_path_of(line: str) -> Iterator[str]:
    """The folders in which words such as `PYTHONPATH=src:lib` have Python look for modules."""
    for word in (word for words in commands_of(line) for word in words):
        if word.startswith(PYTHON_PATH):
            yield from filter(None, word.removeprefix(PYTHON_PATH).split(os.pathsep))
