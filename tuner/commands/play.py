"""`tuner play RUN`: how good is what was learned, and what does it look like."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig
from rich.markup import escape

from note_rl.environments import EnvFactory, for_evaluation
from note_rl.errors import EnvironmentMismatchError, SettingsError
from note_rl.support.threads import thread_variables
from note_rl.training.film import film_writer
from tuner.config.composing import RunConfig
from tuner.config.trust import trusted_modules
from tuner.errors import UserError
from tuner.results.wording import format_number
from tuner.runs import folders as runs
from tuner.runs.build import BuiltRun, build_run
from tuner.runs.checkpoints import about_best, best_of, checkpoint_of
from tuner.runs.checks import resolve
from tuner.text.console import PlainConsole

LAST, BEST = "last", "best"


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses a folder without a run that can be played."""
    del folder, overrides, config_dir
    if config.run is None:
        raise UserError(f"name the folder of a run: tuner play RUN, such as {runs.newest() or 'runs/NAME'}")
    runs.read_run(Path(config.run), trusted_modules(resolve(config).get("trust")))
    _file_of(Path(config.run), config.weights)


def _file_of(folder: Path, weights: str) -> Path:
    return best_of(folder) if weights == BEST else checkpoint_of(folder)


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Evaluates, films, and says both."""
    del folder, overrides
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pictures are drawn in memory: no screen is looked for
    for name, value in thread_variables(1).items():
        os.environ.setdefault(name, value)  # as in training
    console = PlainConsole()
    run_folder = Path(config.run)
    if config.gif is not None:
        check_kind(run_folder / config.gif)
    played = load_run(run_folder, trusted_modules(resolve(config).get("trust")), config.weights)
    evaluation = played.agent.evaluate(config.num_episodes, seed=config.seed)
    returns = evaluation.returns
    console.print(
        f"mean return [bold]{format_number(evaluation.mean)}[/bold] over {len(returns)} episodes "
        f"(from {format_number(float(returns.min()))} to {format_number(float(returns.max()))}), "
        f"after {_trained(run_folder, config.weights, played)}",
        soft_wrap=True,
    )
    if config.gif is not None and not _draws_pictures(played.environment):
        console.print(f"no film: {played.environment.id} draws no pictures (render_mode rgb_array)")
    elif config.gif is not None:
        path = run_folder / config.gif
        _film(played, path, config.max_frames, config.seed)
        console.print(f"film of one episode: {escape(str(path))}", soft_wrap=True)
    return 0


def _trained(folder: Path, weights: str, played: BuiltRun) -> str:
    """How long, and how good the best weights were when they were chosen."""
    if weights != BEST:
        return f"{played.agent.num_env_steps:,} steps of training"
    about = about_best(best_of(folder))
    return f"{about['num_env_steps']:,} steps of training, when it was evaluated best: {about['mean_return']:.4g}"


def _draws_pictures(environment: EnvFactory) -> bool:
    env = for_evaluation(environment)()
    env.close()
    return "rgb_array" in (env.metadata.get("render_modes") or ())


def _film(played: BuiltRun, path: Path, max_frames: int, seed: int) -> None:
    try:
        played.agent.animate_agent(max(1, max_frames - 1), path, seed=seed)  # there is a picture before the first step
    except EnvironmentMismatchError as error:
        raise UserError(f"{error}; play it with gif=null") from error


def check_kind(path: Path) -> None:
    """Refuses a film of another kind than can be written, before anything is played.

    Raises:
        UserError: There is no such kind, or it needs a package that is not installed.
    """
    try:
        film_writer(path)
    except ModuleNotFoundError as error:
        raise UserError(f"gif={path.name}: {error}") from error
    except SettingsError as error:
        raise UserError(f"gif={error}") from error


def load_run(folder: Path, trust: Sequence[str] = (), weights: str = LAST) -> BuiltRun:
    """A trained run with its agent as it was at the newest checkpoint, or with the weights of its best evaluation.

    Args:
        folder: Of the run; it may come from anybody.
        trust: Modules outside of `tuner` that it may name, see `tuner.config.trust`.
        weights: `LAST` or `BEST`.

    Raises:
        UserError: No run is in that folder, it has no checkpoint yet, or it names code that nobody has vouched for.
        note_rl.errors.CheckpointError: The checkpoint is damaged.
    """
    config = RunConfig.from_json(runs.read_run(folder, trust))
    path = _file_of(folder, weights)
    built = build_run(replace(config, backend=replace(config.backend, device="cpu")))
    if weights == BEST:
        built.agent.restore_param(path)
    else:
        built.agent.restore(path)
    return built
