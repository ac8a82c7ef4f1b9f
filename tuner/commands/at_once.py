"""Answers that need no configuration: the help page, the version, a guide page, an unknown command.

Imports neither Hydra nor NumPy, so that these answers are there within a fifth of a second.
"""

import sys
from collections.abc import Sequence
from typing import Final

from tuner.commands import COMMANDS, Command
from tuner.support.help_columns import in_columns, width_of, wrapped_text
from tuner.support.names import did_you_mean
from tuner.support.passwords import hidden
from tuner.support.plain_text import MAX_MESSAGE, plain, with_short_words

EXIT_REFUSED: Final = 2
COMPLETION: Final = ("-sc", "--shell-completion")
HELP: Final = ("-h", "--help", "help")
_VERSION: Final = ("--version", "version")

_EXAMPLES: Final = (
    ("tuner train agent=ppo env=acrobot seed=3", "one run"),
    ("tuner train -m agent=dqn,ppo seed=1,2", "each combination"),
    ("tuner train experiment=dqn_cartpole", "published settings"),
    ("tuner tune agent=ppo", "a study; type it again to resume it"),
    ("tuner find lr agent=ppo", "a learning rate to begin with"),
    ("tuner play runs/NAME", "watch what was learned"),
    ("tuner export runs/NAME", "the policy as an ONNX model"),
    ("tuner plot runs/NAME runs/OTHER", "learning curves"),
)
_MORE_EXAMPLES: Final = (
    ("tuner options ppo", "settings of an agent, with ranges"),
    ("tuner guide tune", "how a study works"),
    ("tuner doctor", "what is installed (tuner --version)"),
)
_COMMAND_COLUMNS: Final = 33
_EXAMPLE_COLUMNS: Final = 41


def as_meant(words: Sequence[str]) -> list[str]:
    """The words behind `tuner`, with `help train` written as `train --help`."""
    first, *others = words or [""]
    if first in HELP and others and others[0] in COMMANDS:
        return [others[0], "--help", *others[1:]]
    return [first, *others]


def answered_at_once(words: Sequence[str]) -> int | None:
    """Prints what needs no configuration.

    Args:
        words: As `as_meant` returns them.

    Returns:
        The exit status; None: nothing was printed, as it is a command's part to answer.
    """
    name, *others = words
    if name in COMMANDS:
        from tuner.commands import guide

        return guide.show_at_once(others) if name == "guide" else None
    if name in COMPLETION:
        return None
    if name in _VERSION:
        sys.stdout.write(f"tuner {_version()}\n")
        return 0
    if name not in ("", *HELP) or others:
        unknown = others[0] if name in HELP else name
        return refuse(f"there is no command {unknown!r}{did_you_mean(unknown, COMMANDS)}")
    sys.stdout.write(_help_page(width_of(sys.stdout)))
    return 0


def refuse(message: str, command: Command | None = None) -> int:
    """Prints what is wrong with a command line, and returns the exit status."""
    prefix = "tuner" if command is None else f"tuner {command.name}"
    sys.stderr.write(f"{plain(with_short_words(hidden(f'{prefix}: {message}')), MAX_MESSAGE)}\n")
    return EXIT_REFUSED


def _help_page(width: int | None) -> str:
    """All commands, and examples, for a terminal of that width."""
    commands = [(f"{one.name:<10}{one.usage}".rstrip(), one.summary) for one in COMMANDS.values()]
    of_commands = [(f"tuner {one.name} NAME", one.example) for one in COMMANDS.values() if one.example]
    examples = [*_EXAMPLES, *of_commands, *_MORE_EXAMPLES]
    paragraphs = (
        wrapped_text("Hyperparameter tuning for reinforcement learning.", width),
        ["usage: tuner COMMAND ..."],
        in_columns(commands, _COMMAND_COLUMNS, width),
        wrapped_text("Settings are KEY=VALUE, choices are GROUP=NAME:", width),
        in_columns(examples, _EXAMPLE_COLUMNS, width),
        [
            *wrapped_text("`tuner COMMAND --help` lists all choices and settings,", width),
            *wrapped_text("`tuner COMMAND --cfg job` shows the configuration as composed.", width),
        ],
    )
    return "\n\n".join("\n".join(lines) for lines in paragraphs) + "\n"


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("note-rl")
    except PackageNotFoundError:  # a checkout that was not installed
        from note_rl import __version__

        return __version__
