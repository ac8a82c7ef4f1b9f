"""Whole paths for what a command names: a program runs in the folder of its run, not where the command was typed."""

import os
import re
import sys
from pathlib import Path

from tuner.config.command_words import (
    CHANGES_THE_FOLDER,
    PYTHON_PATH,
    can_change,
    has_words,
    is_source,
    quoted_like,
    runs_next,
    shell_words,
    unquoted,
)

_ASSIGNED = re.compile(r"((?:[\w.-]+=)?)(.*)", re.DOTALL)


def whole_path(word: str, here: Path) -> str:
    """A word of a command line; a file or folder that is here gets its whole path."""
    name, _, folders = word.partition("=")
    if name == PYTHON_PATH:
        return f"{name}={os.pathsep.join(_found(folder, here) for folder in folders.split(os.pathsep))}"
    return word if word.startswith("-") else _found(word, here)


def _found(name: str, here: Path) -> str:
    return str((here / name).absolute()) if name and os.path.exists(here / name) else name


def with_whole_paths(text: str, here: Path) -> str:
    """The text of a shell, a template for values, in which code, settings and programs that are here have whole paths.

    Where the text changes the folder, the folder gets its whole path, and what is behind it stays as it is, in
    parentheses up to their end.
    """
    written, end, interpreter, moves = "", 0, "", False
    depth, moved = 0, sys.maxsize  # of parentheses, and the depth at which the folder was changed
    for word in shell_words(text):
        between = text[end : word.start]
        for sign in between:
            depth += (sign == "(") - (sign == ")")
            moved = moved if depth >= moved else sys.maxsize
        takes_any = moves or bool(interpreter)
        written += between + (_replaced(word.written, here, takes_any) if moved == sys.maxsize else word.written)
        end = word.start + len(word.written)
        moved = min(moved, depth) if moves else moved
        moves = word.begins_a_command and word.value in CHANGES_THE_FOLDER
        interpreter = runs_next(interpreter, word.value)
    return written + text[end:]


def _replaced(word: str, here: Path, takes_any: bool) -> str:
    """A word with its quotes.

    Args:
        word: It.
        here: Where names count from.
        takes_any: Whether it is known to be a file or folder that is read.
    """
    assigned = _ASSIGNED.fullmatch(word)
    assert assigned is not None
    head, body = assigned.groups()
    value, is_path = unquoted(body), head == f"{PYTHON_PATH}="
    if is_path and not can_change(body):
        return head + os.pathsep.join(_replaced(part, here, takes_any=True) for part in body.split(os.pathsep))
    whole = whole_path(head + value, here).removeprefix(head) if is_path else _found(value, here)
    if whole != value and (takes_any or is_path or _is_code(value, here)):
        return head + quoted_like(body, whole.replace("{", "{{").replace("}", "}}"))
    new = with_whole_paths(value, here) if can_change(body) and has_words(value) else value
    return word if new == value else head + quoted_like(body, new)


def _is_code(name: str, here: Path) -> bool:
    """Whether it is code, settings or a program by its name: a file with another suffix may be written by the run."""
    path = here / name
    return path.is_file() and (is_source(name) or (os.sep in name and os.access(path, os.X_OK)))
