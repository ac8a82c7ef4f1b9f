"""`tuner push RUN`: a trained agent as one file, with its settings and what is known of it."""

import os
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import yaml
from omegaconf import DictConfig
from rich.markup import escape

from note_rl.errors import NoteRLError
from note_rl.support.formats import marked
from note_rl.support.threads import thread_variables
from tuner.commands.features import InCommands, policy_loader
from tuner.commands.study_loading import load, place_of, study_at
from tuner.config.trust import trusted_modules
from tuner.config.typed_command import CONFIG_DIR
from tuner.errors import UserError
from tuner.features import parts
from tuner.features.sharing.agent_archive import RESULT_FILE, pack
from tuner.features.sharing.private_settings import private_settings
from tuner.runs import run_folders as runs
from tuner.runs.config_checks import checked_run, resolve
from tuner.runs.function_state import FunctionState
from tuner.runs.functions import function_name, is_function
from tuner.runs.trained_agents import LAST, folder_of, load_run, weights_of
from tuner.support.console import PlainConsole
from tuner.trial.folder import CHECKPOINT_FILE
from tuner.trial.messages import JsonDict

_SUFFIX = ".zip"


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses what has no agent that others could play."""
    del folder, overrides, config_dir
    if config.run is None:
        raise UserError(f"name a run or a study: tuner push RUN, such as {runs.newest() or 'runs/NAME'}")
    if config.file is not None and Path(config.file).suffix != _SUFFIX:
        raise UserError(f"file={config.file} must end in {_SUFFIX}")
    if os.path.lexists(target := _target(config)):
        raise UserError(f"{target} is there already: name another with file=..., or move it away")
    trust = trusted_modules(resolve(config).get("trust"))
    _refuse_study_of_own_code(config.run, trust)
    place = place_of(config.run, trust, config.environment)
    settings = runs.read_run(folder_of(place), trust)
    if not is_function(settings):
        weights_of(place, config.weights)
        return
    if policy_loader(settings) is None:
        raise _own_code(folder_of(place), settings, folder_of(place) / runs.CONFIG_FILE)
    if config.weights != LAST:
        raise UserError(f"weights={config.weights}: a run of {function_name(settings)} keeps its last weights only")
    if FunctionState(folder_of(place)).newest() is None:
        raise UserError(f"{folder_of(place)} has no checkpoint yet: the run has not come to its first evaluation")


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Packs it, and says how it is used."""
    del folder, overrides
    for name, value in thread_variables(1).items():
        os.environ.setdefault(name, value)  # as in training
    trust = trusted_modules(resolve(config).get("trust"))
    place = place_of(config.run, trust, config.environment)
    target, console = _target(config), PlainConsole()
    settings = _shared(runs.read_config(folder_of(place), trust))
    for private in private_settings(settings):
        console.print(f"in the archive, as in the run: {escape(private)}", style="yellow", soft_wrap=True)
    with tempfile.TemporaryDirectory() as made:
        num_env_steps = _save_weights(place, trust, config.weights, settings, Path(made))
        (Path(made) / runs.CONFIG_FILE).write_text(yaml.safe_dump(marked(settings), sort_keys=False), encoding="utf-8")
        (Path(made) / RESULT_FILE).write_text(_told(config.run, place, trust, num_env_steps), encoding="utf-8")
        pack(Path(made), target)
    size = target.stat().st_size / 1e6
    console.print(f"{escape(str(place))}: {escape(str(target))}, {size:.1f} MB, weights and settings", soft_wrap=True)
    console.print(f"who gets it types:\n  [bold]tuner pull {escape(shlex.quote(str(target)))}[/bold]", soft_wrap=True)
    return 0


def _save_weights(place: Path, trust: tuple[str, ...], weights: str, settings: JsonDict, made: Path) -> int:
    """Writes what is needed to play an agent; returns the environment steps that it was trained for."""
    if not is_function(settings):
        agent = load_run(place, trust, weights).agent
        agent.save(made / CHECKPOINT_FILE, save_data=False)
        return int(agent.num_env_steps)
    state = FunctionState(folder_of(place)).read_newest()
    found = next(filter(None, (one.for_play(settings, state) for one in parts(InCommands))), None)
    assert found is not None, "a feature that loads policies says what is needed for that"
    needed, num_env_steps = found
    FunctionState(made).write_arrays(needed)
    return num_env_steps


def _refuse_study_of_own_code(word: str, trust: tuple[str, ...]) -> None:
    home = None if runs.has_run(folder_of(Path(word))) else study_at(word)
    if home is None or not (winners := load(home, None, trust).winners):
        return
    settings = winners[0].config
    if settings and is_function(settings) and policy_loader(settings) is None:
        raise _own_code(home, settings, home / "experiment" / "winner.yaml")


def _own_code(what: Path, settings: JsonDict, file: Path) -> UserError:
    """Why runs of somebody's own code are not packed, and what to send instead."""
    kind = "a command" if "command" in settings["agent"] else f"{function_name(settings)}, which is code of your own"
    return UserError(
        f"{what} is of {kind}: only that code can read what it has saved, and files such as .pt, "
        ".pkl or the .zip of Stable-Baselines3 may run code where they are opened, so nothing of it is packed. The "
        f"settings are in {file}: give that file and the code, which train it again"
    )


def _target(config: DictConfig) -> Path:
    return Path(config.file or f"{_name_of(config.run)}{_SUFFIX}")


def _name_of(word: str) -> str:
    path = Path(word)
    return path.resolve().parent.name if path.is_file() else path.resolve().name


def _shared(config: JsonDict) -> JsonDict:
    """Without what is of this machine and its user: where runs are tracked, and files that it started from."""
    shared = {**config, **dict.fromkeys(_OF_THIS_MACHINE), "tracker": {}}
    if not (config.get("buffer") or {}).get("dataset"):
        return shared
    alone = {**shared, "buffer": {**config["buffer"], "dataset": None}}
    with suppress(UserError, NoteRLError):  # agents that learn from a data set alone need its name
        checked_run(alone)
        return alone
    return shared


def _told(word: str, place: Path, trust: tuple[str, ...], num_env_steps: int) -> str:
    """The description of the agent: of the winner of a study its verdict, too."""
    lines = [f"# {_name_of(word)}", "", f"Trained for {num_env_steps:,} environment steps."]
    if not runs.has_run(folder_of(Path(word))) and (study := study_at(word)) is not None:
        found = load(study, None, trust)
        lines += ["", found.verdict.sentence, *found.verdict.details]
        command, left_out = _for_others(found.summary.retrain_command)
        lines += ["", "Train it again:", "", f"    {command}"]
        if left_out:
            lines += ["", f"Left out, as it is of the machine that this comes from: {', '.join(left_out)}."]
    return "\n".join([*lines, ""])


def _for_others(command: str) -> tuple[str, list[str]]:
    """A command line without what is of this machine and its user, and the names of what that is."""
    words, kept, left_out = iter(shlex.split(command)), list[str](), list[str]()
    for word in words:
        name, equals, value = word.partition("=")
        key = name.lstrip("+~")
        if word == CONFIG_DIR:
            next(words, None)
        elif not (equals and (key.partition(".")[0] in _OF_THIS_MACHINE or private_settings({key: value}))):
            kept.append(word)
            continue
        left_out.append(key)
    return shlex.join(kept), left_out


_OF_THIS_MACHINE = ("tracker", "init", "trust")
