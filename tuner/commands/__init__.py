"""The commands of `tuner`, one module each.

A command module has one entry point, `run(config, folder, overrides) -> int`: the composed and checked config
(interpolations not yet resolved, Hydra's own part left out), the folder the command may write into (`hydra.run.dir` of
its primary config, absolute), and what was typed (of a sweep, what this run is about). It returns the exit status.
What the user did wrong is a `tuner.errors.UserError`; `tuner.cli` prints it.

A module may also have `check(config, folder, overrides, config_dir)`, called before the folder is made
(`has_check`), `check_jobs(jobs, config_dir)`, called for a sweep (`is_search`), `plan(config, overrides, config_dir) ->
int`, which only says what would be done and writes nothing (`has_plan`, with `plan=true`), and, if it trains one run
(`has_objective`): `objective(config, trial) -> float`, what it is for a job of hydra/sweeper=optuna, with
`tracker_of(config)` and `trained_config(config)` for the trackers of such a sweep, and
`run_of_multirun(config, folder, overrides, member) -> int` for one run of `-m`. A command that only prints what is
configured has `show(config, overrides, config_dir) -> int` in the place of `run` (`only_shows`).
"""

from pathlib import Path

from tuner.commands.command import Command, CommandModule
from tuner.commands.features import InCommands
from tuner.features import parts

__all__ = ["COMMANDS", "Command", "CommandModule"]


def _class_key(word: str, config_dir: str | Path | None) -> str | None:
    """`tuner check my_rl.Agent` names a class."""
    del config_dir
    return "agent._target_" if "." in word else None


def _group_key(word: str, config_dir: str | Path | None) -> str | None:
    """`tuner options sampler` names a group of choices."""
    from tuner.commands.group_options import is_group  # imports Hydra, which the help page does without

    return "group" if is_group(word, config_dir) else None


COMMANDS = {
    command.name: command
    for command in (
        Command("train", "train one agent", "train", is_job=True, has_check=True, has_objective=True),
        Command(
            "tune",
            "search for good hyperparameters",
            "tune",
            is_job=True,
            has_check=True,
            has_plan=True,
            folder_key="study.folder",
            is_search=True,
        ),
        Command(
            "find",
            "suggest a learning rate, optimizer or agent",
            "find",
            is_job=True,
            has_check=True,
            positional="finder",
            usage="[lr|optimizer|agent]",
            folder_key="study.folder",
        ),
        Command(
            "check",
            "train an agent on tasks that test its parts",
            "check",
            positional="agent",
            key_of=_class_key,
            own_code=True,
            usage="[AGENT] [...]",
        ),
        Command("compare", "two settings, or adaptation and none", "compare", is_job=True, has_check=True),
        Command(
            "play",
            "evaluate a trained run and film it",
            "play",
            has_check=True,
            positional="run",
            usage="RUN [KEY=VALUE ...]",
        ),
        Command(
            "export",
            "write a trained policy as ONNX and the like",
            "export",
            has_check=True,
            positional="run",
            usage="RUN [KEY=VALUE ...]",
        ),
        Command(
            "plot",
            "learning curves of runs and studies",
            "plot",
            has_check=True,
            positional="runs",
            takes_several=True,
            usage="RUN ... [...]",
        ),
        Command(
            "report",
            "write the page of a study",
            "report",
            has_check=True,
            positional="study.name",
            usage="[STUDY] [KEY=VALUE ...]",
        ),
        *(command for part in parts(InCommands) for command in part.commands),
        Command(
            "dashboard",
            "browse the studies of a storage",
            "dashboard",
            has_check=True,
            positional="storage.url",
            usage="[URL]",
        ),
        Command(
            "options",
            "the settings of an agent or of a group",
            "options",
            only_shows=True,
            positional="agent",
            key_of=_group_key,
            own_code=True,
            usage="[AGENT|GROUP] [...]",
        ),
        Command(
            "guide",
            "the guides, one page for each topic",
            "guide",
            only_shows=True,
            positional="topic",
            usage="[TOPIC] [path=true]",
        ),
        Command("doctor", "versions, devices, extras: for a bug report", "doctor"),
    )
}
