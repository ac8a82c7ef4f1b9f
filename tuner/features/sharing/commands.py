"""The commands `tuner push` and `tuner pull`."""

from tuner.commands.command import Command
from tuner.commands.features import InCommands

PART = InCommands(
    commands=(
        Command(
            "push",
            "packs a trained agent into one file",
            "push",
            has_check=True,
            positional="run",
            usage="RUN|STUDY [file=FILE]",
            module="tuner.features.sharing.push",
        ),
        Command(
            "pull",
            "unpacks it, also one of somebody else",
            "pull",
            has_check=True,
            positional="file",
            usage="FILE [folder=RUN]",
            module="tuner.features.sharing.pull",
        ),
    )
)
