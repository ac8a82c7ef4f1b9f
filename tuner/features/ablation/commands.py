"""The command of an ablation."""

from tuner.commands.command import Command
from tuner.commands.features import InCommands

PART = InCommands(
    commands=(
        Command(
            "ablate",
            "which changes made the winner better",
            "ablate",
            has_check=True,
            has_plan=True,
            positional="study.name",
            usage="[STUDY] [KEY=VALUE ...]",
            module="tuner.features.ablation.ablate",
            example="what made a study's winner better",
        ),
    )
)
