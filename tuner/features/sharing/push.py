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
from tuner.commands.study_loading import load, place_of, study_at, with_policy
from tuner.config.trust import trusted_modules
from tuner.errors import UserError
from tuner.features.sharing.agent_archive import RESULT_FILE, pack
from tuner.runs import run_folders as runs
from tuner.runs.config_checks import checked_run, resolve
from tuner.runs.trained_agents import folder_of, load_run, weights_of
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
    place = place_of(config.run, trust, config.environment)
    with_policy(place, trust)
    weights_of(place, config.weights)


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Packs it, and says how it is used."""
    del folder, overrides
    for name, value in thread_variables(1).items():
        os.environ.setdefault(name, value)  # as in training
    trust = trusted_modules(resolve(config).get("trust"))
    place = place_of(config.run, trust, config.environment)
    target = _target(config)
    trained = load_run(place, trust, config.weights)
    with tempfile.TemporaryDirectory() as made:
        trained.agent.save(Path(made) / CHECKPOINT_FILE, save_data=False)
        settings = yaml.safe_dump(marked(_shared(runs.read_config(folder_of(place), trust))), sort_keys=False)
        (Path(made) / runs.CONFIG_FILE).write_text(settings, encoding="utf-8")
        (Path(made) / RESULT_FILE).write_text(
            _told(config.run, place, trust, trained.agent.num_env_steps), encoding="utf-8"
        )
        pack(Path(made), target)
    console = PlainConsole()
    size = target.stat().st_size / 1e6
    console.print(f"{escape(str(place))}: {escape(str(target))}, {size:.1f} MB, weights and settings", soft_wrap=True)
    console.print(f"who gets it types:\n  [bold]tuner pull {escape(shlex.quote(str(target)))}[/bold]", soft_wrap=True)
    return 0


def _target(config: DictConfig) -> Path:
    return Path(config.file or f"{_name_of(config.run)}{_SUFFIX}")


def _name_of(word: str) -> str:
    path = Path(word)
    return path.resolve().parent.name if path.is_file() else path.resolve().name


def _shared(config: JsonDict) -> JsonDict:
    """Without what is of this machine and its user: where runs are tracked, and files that it started from."""
    shared = {**config, "tracker": {}, "init": None, "trust": None}
    if not config.get("buffer", {}).get("dataset"):
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
        lines += ["", "Train it again:", "", f"    {found.summary.retrain_command}"]
    return "\n".join([*lines, ""])
