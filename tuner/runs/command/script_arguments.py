"""From a command line with placeholders to the arguments of a program."""

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from string import Formatter

from tuner.errors import UserError
from tuner.support.names import did_you_mean

GIVEN = ("seed", "steps", "folder")
"""Placeholders that every run has a value for."""
CHECKPOINT = "checkpoint"
"""The one more of `agent.resume_flag`."""

_INTERPRETER = re.compile(r"python[\d.]*|bash|sh|node|julia|Rscript")
_OF_A_SHELL = ("|", "||", "&&", ";", "&", ">", ">>", "<", "2>", "2>&1")


class ScriptLine:
    """A command line with placeholders, such as `python ppo.py --lr {lr} --seed {seed}`.

    Args:
        text: As it is typed in a shell.
        setting: Where it stands, for messages.

    Attributes:
        placeholders: Their names, in order.

    Raises:
        UserError: It cannot be split into arguments, or is written for a shell.
    """

    def __init__(self, text: str, setting: str) -> None:
        self._setting = setting
        try:
            self.words = shlex.split(text)
            parsed = [field for word in self.words for field in Formatter().parse(word) if field[1] is not None]
        except ValueError as error:
            raise UserError(f"{setting}={text!r} is no command line: {error}; write {{{{ for a brace") from error
        found = [str(name) for _, name, _, _ in parsed]
        formatted = next((str(name) for _, name, form, conversion in parsed if form or conversion), None)
        if formatted is not None:
            raise UserError(
                f"{setting}: {formatted} has a format behind it, which would cut its value: write {{{formatted}}}"
            )
        self.placeholders = tuple(dict.fromkeys(found))
        odd = [name for name in found if not name.isidentifier()]
        if odd:
            raise UserError(f"{setting}: {{{odd[0]}}} is no placeholder: it must be a name; write {{{{ for a brace")
        shell = [word for word in self.words if word in _OF_A_SHELL]
        if shell:
            raise UserError(
                f"{setting}: no shell reads it, so {shell[0]} has no meaning there; for one, write bash -c '...'"
            )

    def filled(self, values: Mapping[str, object], here: Path) -> list[str]:
        """The arguments for another working directory.

        Each placeholder is replaced; a value with spaces stays one argument. Words that name a file or folder which is
        here get its whole path; words with placeholders do not.
        """
        texts = {name: _text(value) for name, value in values.items()}
        filled = [word.format_map(texts) for word in self.words]
        typed = [_path(word, here, is_program=not number) for number, word in enumerate(filled)]
        return [path if "{" not in word else own for word, own, path in zip(self.words, filled, typed, strict=True)]


def check_command(line: ScriptLine, resume: ScriptLine | None, parameters: Mapping[str, object]) -> None:
    """Refuses a command that is not there, a placeholder without a parameter and a parameter without a placeholder.

    Raises:
        UserError: Names it.
    """
    _check_program(line)
    allowed = (*GIVEN, *parameters)
    for name in line.placeholders:
        if name not in allowed:
            raise UserError(
                f"agent.command: {{{name}}} has no value{did_you_mean(name, allowed)}. Give it one by "
                f"+agent.{name}=..., and search it by '+space.agent.{name}={{low: ..., high: ...}}'"
            )
    behind = () if resume is None else resume.placeholders
    for name in behind:
        if name not in (*allowed, CHECKPOINT):
            raise UserError(f"agent.resume_flag: {{{name}}} has no value{did_you_mean(name, (*allowed, CHECKPOINT))}")
    for name in parameters:
        if name in GIVEN:
            raise UserError(f"agent.{name} is the name of a placeholder that each run has a value for: rename it")
        if name not in (*line.placeholders, *behind):
            near = did_you_mean(name, line.placeholders)
            raise UserError(
                f"agent.{name} changes nothing: the command has no {{{name}}}{near}; write it into agent.command, as "
                f"--{name.replace('_', '-')} {{{name}}}, or leave agent.{name} out"
            )


def _check_program(line: ScriptLine) -> None:
    if not line.words:
        raise UserError("agent.command is empty: give a command, as 'python train.py --lr {lr} --seed {seed}'")
    program, script = line.words[0], (*line.words, "-")[1]
    if shutil.which(program) is None:
        raise UserError(f"agent.command: there is no program {program} here")
    if _INTERPRETER.fullmatch(Path(program).name) and not script.startswith("-") and not Path(script).exists():
        raise UserError(f"agent.command: there is no file {script} here")


def _path(word: str, here: Path, is_program: bool) -> str:
    if not word or word.startswith("-") or (is_program and os.sep not in word):
        return word
    path = here / word
    try:
        return str(path.absolute()) if path.exists() else word
    except (OSError, ValueError):  # too long for a name
        return word


def _text(value: object) -> str:
    """As a program's own parser reads it."""
    return ",".join(map(_text, value)) if isinstance(value, list | tuple) else str(value)
