"""Whole paths for what a command names: a program runs in the folder of its run, not where the command was typed."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tuner.config.command_words import PYTHON_PATH, code_of, num_before_command, shell_commands, values_of

_CHANGES_FIRST = re.compile(r"""\s*(?:cd|pushd)[ \t]+([^\s'"\\;|&()<>`$]+|'[^']*'|"[^"$`\\]*")(?=[\s;|&)]|$)""")
_LEFT_ALONE = re.compile(r"<<|(?<![\w./-])(?:cd|pushd)(?![\w./-])")
"""Words behind these are read in another folder, or are the text of a here-document."""
_FOLDERS = re.compile(rf"""{PYTHON_PATH}(['"]?)([^'"`\\]*)\1""")
_FOLDER = re.compile(r"(?<![^:])[^:${}]+(?![^:])")


def whole_path(word: str, here: Path) -> str:
    """A word of a command line; a file or folder that is here gets its whole path."""
    if word.startswith(PYTHON_PATH):
        folders = word.removeprefix(PYTHON_PATH).split(os.pathsep)
        return PYTHON_PATH + os.pathsep.join(_whole(folder, here) for folder in folders)
    return word if word.startswith("-") else _whole(word, here)


def _whole(name: str, here: Path) -> str:
    return str((here / name).absolute()) if name and os.path.exists(here / name) else name


def with_whole_paths(text: str, here: Path) -> str:
    """The text of a shell, a template for values, in which the code that its commands run has its whole path.

    So have folders in PYTHONPATH, and the folder that the very first command changes to. Anything else stays as it is.
    """
    if first := _CHANGES_FIRST.match(text):
        name = first[1].strip("'\"")
        leads_down = os.path.isdir(here / name) and not {".."}.issuperset(Path(name).parts)
        return f"{text[: first.start(1)]}{_quoted(name, here)}{text[first.end(1) :]}" if leads_down else text
    leaves = _LEFT_ALONE.search(text)
    written, end = "", 0
    for word, new in _changes(text, here):
        if leaves is None or word.start() < leaves.start():
            written += text[end : word.start()] + new
            end = word.end()
    return written + text[end:]


def _changes(text: str, here: Path) -> Iterator[tuple[re.Match[str], str]]:
    for words in shell_commands(text):
        values = values_of(words)
        for word in words[: num_before_command(values)]:
            if named := _FOLDERS.fullmatch(word[0]):
                quote, folders = named.groups()
                whole = _FOLDER.sub(lambda name: _in_quotes(name[0], here, quote), folders)  # noqa: B023 - called here
                yield word, f"{PYTHON_PATH}{quote}{whole}{quote}"
        code = code_of(values, lambda name: None if os.path.isabs(name) or not os.path.isfile(here / name) else name)
        if code is not None:
            yield words[code[0]], _quoted(code[1], here)


def _quoted(name: str, here: Path) -> str:
    return shlex.quote(_whole(name, here)).replace("{", "{{").replace("}", "}}")


def _in_quotes(name: str, here: Path, quote: str) -> str:
    """A path in a text in quotes, which are ended before it if it needs quotes of its own."""
    quoted = _quoted(name, here)
    return name if _whole(name, here) == name else f"{quote}{quoted}{quote}" if quoted[:1] == "'" else quoted
