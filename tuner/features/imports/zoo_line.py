"""`tuner import zoo`: the command line of an entry of the Zoo, and the baseline of that name."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import gymnasium
from gymnasium import spaces
from rich.markup import escape

from note_rl.errors import NoteRLError
from tuner.commands.preflight import check_command, compose_or_explain
from tuner.config.composition import config_loader
from tuner.errors import UserError
from tuner.features.imports.library_settings import library_settings
from tuner.features.imports.own_settings import AGENTS, agent_of, is_of_numbers, own_settings
from tuner.features.imports.written_settings import Written
from tuner.features.imports.zoo_files import LIBRARY, ZooEntry, library_agent, zoo_entry
from tuner.runs.config_checks import resolve
from tuner.runs.functions import function_name
from tuner.support.console import PlainConsole
from tuner.support.passwords import command_line
from tuner.support.plain_text import one_line

_CLASSES: Final = {
    **{"PPO": "ppo", "A2C": "a2c", "DQN": "dqn", "SAC": "sac", "TD3": "td3", "DDPG": "ddpg", "TRPO": "trpo"},
    **{"CrossQ": "crossq", "TQC": "tqc"},
}
_LIBRARY_CLASSES: Final = {
    **_CLASSES,
    **{"RecurrentPPO": "ppo_lstm", "ARS": "ars", "QRDQN": "qrdqn"},
}
_OF_LIBRARY: Final = "Sb3"
"""The name of what runs an algorithm of Stable-Baselines3, before its own."""


def import_zoo(name: str, agent: str | None, file: str | None) -> int:
    """Prints the command line of an entry.

    Args:
        name: ALGORITHM/ENVIRONMENT.
        agent: The agent to train; None: one of ours, by the actions of the environment.
        file: Of the Zoo; None: that of the installed package.

    Raises:
        UserError: There is no such entry, or nothing here trains it.
    """
    algorithm, _, env = name.partition("/")
    entry = zoo_entry(algorithm, env, file)
    written, words = zoo_words(entry, agent)
    remarks = [*written.remarks, *_obstacles(words)]
    console = PlainConsole()
    if entry.key != env:
        remarks = [f"{env} has no entry of its own: these are the settings of {entry.key}", *remarks]
    console.print(escape(command_line(["tuner", "train", *words])), highlight=False, soft_wrap=True)
    for remark in remarks:
        console.print(escape(f"# {remark}"), highlight=False, soft_wrap=True)
    return 0


def _obstacles(words: Sequence[str]) -> list[str]:
    """Why the line cannot be run on this machine, such as an environment that is not installed.

    Raises:
        UserError: It is no line at all.
    """
    try:
        check_command("train", words)
    except (UserError, NoteRLError, ImportError) as error:  # the last of an environment of an old version
        check_command("train", words, with_run=False)
        return [f"it cannot be run as it is: {one_line(str(error))}"]
    return []


def zoo_words(entry: ZooEntry, agent: str | None) -> tuple[Written, list[str]]:
    """Overrides for an entry, and its settings that have no counterpart.

    Args:
        entry: Of the Zoo.
        agent: The agent to train, as typed; None: one of ours, by the actions of the environment.

    Raises:
        UserError: Nothing here trains it.
    """
    if agent in (LIBRARY, library_agent(entry.algorithm)):
        written = library_settings(entry)
    else:
        numbers = None if agent is not None or len(AGENTS.get(entry.algorithm, ())) != 2 else _acts_by_numbers(entry)
        chosen = agent_of(entry, agent, numbers)
        written = own_settings(entry, chosen)
        if numbers is None and agent is None and f"{chosen}_continuous" in AGENTS[entry.algorithm]:
            written.remarks.append(
                f"the actions of {entry.env} are not known here: add agent={chosen}_continuous where they are numbers"
            )
    config = resolve(compose_or_explain(config_loader(), "train", written.chosen))
    return written, written.words(config)


def _acts_by_numbers(entry: ZooEntry) -> bool | None:
    """Whether the actions of an environment are numbers; None: it is not known."""
    said = is_of_numbers(entry)
    return _space_is_of_numbers(entry.env) if said is None else said


def _space_is_of_numbers(env: str) -> bool | None:
    before = gymnasium.logger.min_level
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    try:
        made = gymnasium.make(env)
    except (gymnasium.error.Error, ImportError, AttributeError):  # not installed, or not of this version
        return None
    finally:
        gymnasium.logger.min_level = before
    kind = isinstance(made.action_space, spaces.Box)
    made.close()
    return kind


def zoo_baseline(config: Mapping[str, Any], file: str | None = None) -> Sequence[str]:
    """Overrides with the Zoo's settings for the agent and the environment of a study.

    Args:
        config: Of its runs, by default.
        file: Of the Zoo; None: that of the installed package.

    Raises:
        UserError: There are no such settings.
    """
    name = function_name(config)
    env = str(config["env"]["id"]) if config.get("env") else ""
    kind, _, of_library = name.partition("-")
    if of_library and kind != _OF_LIBRARY:  # of SBX: a baseline of another library would compare the libraries
        raise UserError(f"study.baselines=zoo: the Zoo has settings of Stable-Baselines3, not of {name}; leave it out")
    algorithm = _LIBRARY_CLASSES.get(of_library) if of_library else _CLASSES.get(name)
    if algorithm is None or not env:
        raise UserError(f"study.baselines=zoo: the Zoo has no settings of {name}; leave it out")
    try:
        entry = zoo_entry(algorithm, _gymnasium_id(env), file)
        if of_library:
            return zoo_words(entry, LIBRARY)[1]
        policy = str((config.get("policy") or {}).get("_target_"))
        continuous = "Gaussian" in policy or "GSDE" in policy
        return zoo_words(entry, AGENTS[algorithm][-1 if continuous and len(AGENTS[algorithm]) == 2 else 0])[1]
    except UserError as error:
        raise UserError(f"study.baselines=zoo: {error}") from error


def _gymnasium_id(env: str) -> str:
    """As the Zoo calls an environment of ours: a game of Atari has an id of its own here."""
    prefix = "note_rl.environments.atari:Atari/"
    if not env.startswith(prefix):
        return env
    game = env.removeprefix(prefix).removesuffix("-v0")
    return f"{''.join(part.capitalize() for part in game.split('_'))}NoFrameskip-v4"
