"""What a feature adds to the command line."""

from dataclasses import dataclass

from tuner.commands.command import Command


@dataclass(frozen=True)
class InCommands:
    """What a feature adds to the command line.

    Attributes:
        commands: Its own, each with the module that it is in. This is read for the help page: import nothing heavy.
    """

    commands: tuple[Command, ...] = ()
