"""From a command line with placeholders to the arguments of a program."""

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Formatter

from tuner.config.command_words import INTERPRETER, SHELL
from tuner.errors import UserError
from tuner.runs.command.whole_paths import whole_path, with_whole_paths
from tuner.support.names import did_you_mean

GIVEN = ("seed", "steps", "folder")
"""Placeholders that every run has a value for."""
CHECKPOINT = "checkpoint"
"""The one more of `agent.resume_flag`."""

_TAKES_A_WORD = ("--rcfile", "--init-file")  # options of a shell, beside those that end in o or O
_FIRST, _FURTHER = re.compile(r"\$\{?0"), re.compile(r"\$\{?[@*1-9]")
"""How the text of a shell names the word behind it, and those behind that one."""
_OF_A_SHELL = ("|", "||", "&&", ";", "&", ">", ">>", "<", "2>", "2>&1")


class ScriptLine:
    """A command line with placeholders, such as `python ppo.py --lr {lr} --seed {seed}`.

    Args:
        text: As it is typed in a shell.
        setting: Where it stands, for messages.

    Attributes:
        text: As it was given.
        placeholders: Their names, in order.

    Raises:
        UserError: It cannot be split into arguments, or is written for a shell.
    """

    def __init__(self, text: str, setting: str) -> None:
        self.text = text
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

    def literal(self, number: int) -> str:
        """A word without its placeholders, as the program would get it."""
        return "".join(text for text, *_ in Formatter().parse(self.words[number]))

    def filled(self, values: Mapping[str, object], here: Path) -> list[str]:
        """The arguments for another working directory.

        Each placeholder is replaced; a value with spaces stays one argument. Words that name a file or folder which is
        here get its whole path; words with placeholders do not. Code in the text of `bash -c` does.
        """
        texts = {name: _text(value) for name, value in values.items()}
        filled = [word.format_map(texts) for word in self.words]
        typed = [whole_path(word, here) if number or os.sep in word else word for number, word in enumerate(filled)]
        found = [path if "{" not in word else own for word, own, path in zip(self.words, filled, typed, strict=True)]
        if (shell := _text_for_a_shell(self.words)) is not None:
            found[shell[1]] = with_whole_paths(self.words[shell[1]], here).format_map(texts)
        return found


def check_command(line: ScriptLine, resume: ScriptLine | None, parameters: Mapping[str, object]) -> None:
    """Refuses a command that is not there, a placeholder without a parameter and a parameter without a placeholder.

    Raises:
        UserError: Names it.
    """
    _check_program(line)
    if resume is not None:
        _check_shell(line, resume)
    allowed = (*GIVEN, *parameters)
    for name in line.placeholders:
        if name not in allowed:
            raise UserError(
                f"agent.command: {{{name}}} has no value{did_you_mean(name, allowed)}\nTo give it one, type "
                f"+agent.{name}=..., and to search it '+space.agent.{name}={{low: ..., high: ...}}'"
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
    if INTERPRETER.fullmatch(Path(program).name) and not script.startswith("-") and not Path(script).exists():
        raise UserError(f"agent.command: there is no file {script} here")


def _check_shell(line: ScriptLine, resume: ScriptLine) -> None:
    """Refuses a flag behind a text for a shell that does not use it: the shell would drop it without a word."""
    found = _text_for_a_shell(line.words)
    if found is None:
        return
    shell, number = found
    text, behind = line.literal(number), len(line.words) - number - 1
    places = range(behind, behind + len(resume.words))
    lost = [f"${place}" for place in places if not (_FURTHER if place else _FIRST).search(text)]
    if lost:
        taken = " and ".join(f"${place}" for place in places)
        before = shlex.join(line.words[:number])
        raise UserError(
            f"agent.resume_flag={resume.text} would be lost: behind the text of {shell} -c it is {taken}, "
            f'and the text does not use {" and ".join(lost)}. Write "$@" into the text, where the flag belongs, and a '
            f"word behind it, which becomes $0: agent.command={before} '... \"$@\"' {shell}"
        )


def _text_for_a_shell(words: Sequence[str]) -> tuple[str, int] | None:
    """The shell and the place of the text in `bash -c TEXT`, which options and a program such as `env` may precede."""
    names = [Path(word).name for word in words]
    place = next((number for number, name in enumerate(names) if INTERPRETER.fullmatch(name)), None)
    if place is None or not SHELL.fullmatch(names[place]):
        return None
    has_text, number = False, place + 1
    while number < len(words) and words[number][:1] in ("-", "+"):
        option = words[number]
        is_short = not option.startswith("--")
        has_text = has_text or (is_short and "c" in option)
        number += 2 if option in _TAKES_A_WORD or (is_short and option[-1] in "oO") else 1
        if option == "--":
            break
    return (names[place], number) if has_text and number < len(words) else None


def _text(value: object) -> str:
    """As a program's own parser reads it."""
    return ",".join(map(_text, value)) if isinstance(value, list | tuple) else str(value)
