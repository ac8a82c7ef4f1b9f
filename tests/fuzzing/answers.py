"""Answers of a command to its input: it takes it, refuses it in words, or falls over."""

import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from note_rl.errors import NoteRLError
from tests.fuzzing.building import use
from tests.fuzzing.lines import Line
from tuner.commands import COMMANDS
from tuner.commands.preflight import Preflight
from tuner.errors import UserError

MOST_LINES = 3
MOST_LETTERS = 600
_FOREIGN = re.compile(r"Traceback|omegaconf|<class '|object at 0x|\bDictConfig\b|\bNoneType\b|__init__\(\)|\bAnyNode\b")
"""Words that belong in no answer: of a library or of Python, which the user has not typed."""


@dataclass(frozen=True)
class Answer:
    """The answer of a command.

    Attributes:
        kind: accepted; refused, in words; fell: an exception that nobody foresaw; unclear: words, but poor ones.
        text: The words, or the traceback.
    """

    kind: Literal["accepted", "refused", "fell", "unclear"]
    text: str = ""

    @property
    def good(self) -> bool:
        """Whether the user is served."""
        return self.kind in ("accepted", "refused")


def answer_to(work: Callable[[], object]) -> Answer:
    """Does some work and sees what comes of it."""
    try:
        work()
    except (UserError, NoteRLError) as error:
        return _judged(str(error))
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        return Answer("fell", "".join(traceback.format_exception(error)))
    return Answer("accepted")


def names_the_key(answer: Answer, line: Line) -> bool:
    """Whether an answer speaks of what was typed: the key, its last part, the part it is in, or the value."""
    if answer.kind != "refused":
        return True
    words = {part for key in line.keys for part in (key, key.rpartition(".")[2], key.partition(".")[0])}
    words |= {value for override in line.overrides if (value := override.partition("=")[2]) not in ("", "''")}
    return any(word in answer.text for word in words)


def check_and_use(line: Line) -> Answer:
    """The command's answer to a line; if it accepts it, whether everything can then be built and used.

    A refusal while something is built comes too late: it should have been found by the checks.
    """
    found: list[Preflight] = []
    answer = answer_to(lambda: found.append(COMMANDS[line.command].checked(line.overrides)))
    if not found:
        return answer
    used = answer_to(lambda: use(line, found[0].config))
    return used if used.kind == "accepted" else Answer("fell", f"accepted, but then: {used.text}")


def _judged(text: str) -> Answer:
    lines = text.strip().splitlines()
    fine = 1 <= len(lines) <= MOST_LINES and len(text) <= MOST_LETTERS and not _FOREIGN.search(text)
    return Answer("refused" if fine else "unclear", text)
