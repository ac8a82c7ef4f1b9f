"""`tuner export RUN`: what was learned, for programs that act by it."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from omegaconf import DictConfig
from rich.markup import escape

from note_rl.learners.policy_function import ExportedPolicy, check_format, check_search
from note_rl.support.threads import thread_variables
from note_rl.training.policy_files import MASKS
from tuner.commands.study_loading import place_of, with_policy
from tuner.config.composition import RunConfig
from tuner.config.trust import trusted_modules
from tuner.errors import UserError
from tuner.runs import run_folders as runs
from tuner.runs.config_checks import declared, resolve
from tuner.runs.trained_agents import folder_of, load_run, weights_of
from tuner.support.console import PlainConsole

_NAMES: Final = {"onnx": "policy.onnx", "torch": "policy.pt2", "saved_model": "policy_saved_model"}


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses a folder without a run whose policy can be exported."""
    del folder, overrides, config_dir
    if config.run is None:
        raise UserError(f"name the folder of a run: tuner export RUN, such as {runs.newest() or 'runs/NAME'}")
    trust = trusted_modules(resolve(config).get("trust"))
    place = place_of(config.run, trust, config.environment)
    trained = RunConfig.from_json(with_policy(place, trust))
    check_search(declared(trained))
    check_format(config.format, trained.backend.name)
    _check_suffix(config.file, config.format)
    weights_of(place, config.weights)


def _check_suffix(file: str | None, file_format: str) -> None:
    """Refuses a name that says another format than the one that is written."""
    suffix = Path(_NAMES[file_format]).suffix
    if file is None or Path(file).suffix == suffix:
        return
    others = [f"format={name}" for name, usual in _NAMES.items() if suffix and Path(usual).suffix == Path(file).suffix]
    wanted = f"a name that ends in {suffix}" if suffix else "the name of a folder, without a suffix"
    instead = f", or {others[0]}" if others else ""
    raise UserError(f"file={file}: with format={file_format} it must be {wanted}{instead}")


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Exports, and says how to use it."""
    del folder, overrides
    for name, value in thread_variables(1).items():
        os.environ.setdefault(name, value)  # as in training
    place = place_of(config.run, trusted_modules(resolve(config).get("trust")), config.environment)
    path = folder_of(place) / (config.file or _NAMES[config.format])
    trained = load_run(place, trusted_modules(resolve(config).get("trust")), config.weights)
    about = {
        "environment": trained.environment.id,
        "num_env_steps": str(trained.agent.num_env_steps),
        "weights": weights_of(place, config.weights).name,
    }
    policy = trained.agent.export(path, config.format, about)
    console = PlainConsole()
    console.print(f"policy of {policy.about['agent']} on {trained.environment.id}: {escape(str(path))}", soft_wrap=True)
    console.print(_shapes(policy), soft_wrap=True)
    if MASKS in policy.about:
        console.print(f"{MASKS}: {policy.about[MASKS]}", soft_wrap=True)
    return 0


def _shapes(policy: ExportedPolicy) -> str:
    takes, gives = (
        ", ".join(f"{name} {dtype} [{', '.join(map(str, ('batch', *shape)))}]" for name, (shape, dtype) in rows.items())
        for rows in (policy.inputs, policy.outputs)
    )
    return escape(f"{takes} -> {gives}")
