"""`tuner play RUN`: how good is what was learned, and what does it look like."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from omegaconf import DictConfig
from rich.markup import escape

from note_rl.collect.evaluation import ActingIn
from note_rl.environments import EnvFactory, for_evaluation
from note_rl.errors import EnvironmentMismatchError, SettingsError
from note_rl.support.threads import thread_variables
from note_rl.training.film import FilmFile, film_writer, has_screen
from note_rl.types import Array
from tuner.commands.study_loading import place_of, policy_of
from tuner.config.trust import trusted_modules
from tuner.errors import UserError
from tuner.results.number_format import counted, format_number
from tuner.runs import run_folders as runs
from tuner.runs.build import BuiltRun
from tuner.runs.checkpoints import about_best
from tuner.runs.config_checks import resolve
from tuner.runs.evaluation_policy import acting_by
from tuner.runs.functions import is_function
from tuner.runs.trained_agents import TrainedPolicy, folder_of, load_run, weights_of
from tuner.support.console import PlainConsole
from tuner.trial.folder import BEST_FILE

__all__ = ["check", "check_kind", "load_run", "run"]


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses a folder without a run that can be played."""
    del folder, overrides, config_dir
    if config.run is None:
        raise UserError(f"name the folder of a run: tuner play RUN, such as {runs.newest() or 'runs/NAME'}")
    if config.deterministic is not None and config.evaluation.policy is not None:
        raise UserError(
            f"evaluation.policy={config.evaluation.policy} and deterministic={str(config.deterministic).lower()} both "
            "say how to act: leave one of them out"
        )
    if config.render == "human" and not has_screen():
        raise UserError("render=human needs a screen, and there is none here: films are drawn without one")
    trust = trusted_modules(resolve(config).get("trust"))
    place = place_of(config.run, trust, config.environment)
    if not is_function(runs.read_run(folder_of(place), trust)):
        weights_of(place, config.weights)
    else:
        policy_of(place, config.weights, trust)
        if config.evaluation.policy == "eps":
            raise UserError("evaluation.policy=eps is for agents of this project: take greedy or sampled here")


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Evaluates, films, and says both."""
    del folder, overrides
    if config.render is None:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pictures are drawn in memory: no screen is looked for
    for name, value in thread_variables(1).items():
        os.environ.setdefault(name, value)  # as in training
    console = PlainConsole()
    trust = trusted_modules(resolve(config).get("trust"))
    place = place_of(config.run, trust, config.environment)
    films = _films(config, folder_of(place))
    played = _played(place, trust, config)
    console.print(f"playing {escape(str(folder_of(place)))}, weights of {escape(played.source)}", soft_wrap=True)
    returns = played.returns()
    console.print(
        f"mean return [bold]{format_number(float(returns.mean()))}[/bold] over {counted(len(returns), 'episode')} "
        f"(from {format_number(float(returns.min()))} to {format_number(float(returns.max()))}), "
        f"after {played.trained}",
        soft_wrap=True,
    )
    if films and not _draws(played.environment, "rgb_array"):
        console.print(f"no film: {played.environment.id} draws no pictures (render_mode rgb_array)")
    elif films:
        try:
            _film(played, films, config)
        except Exception as error:
            if "OpenGL" not in str(error):
                raise
            raise UserError(f"no film: {str(error).strip().splitlines()[0]}; {_WITHOUT_A_SCREEN}") from error
        for one in films:
            console.print(f"film of one episode: {escape(str(one.path))}", soft_wrap=True)
    if config.render is not None:
        if not _draws(played.environment, "human"):
            raise UserError(f"{played.environment.id} has no window (render_mode human): leave render=human out")
        _film(played, None, config)
    return 0


class _Agent:
    """A trained agent of this project.

    Args:
        run: Restored.
        weights: The file of its weights.
        config: Of the command.
    """

    def __init__(self, run: BuiltRun, weights: Path, config: DictConfig) -> None:
        self._run, self._config = run, config
        self.environment, self.source, self.trained = run.environment, weights.name, _trained(weights, run)

    def returns(self) -> Array:
        """Of the episodes of the evaluation."""
        acting = _acting(self._config, self._run)
        return self._run.agent.evaluate(self._config.num_episodes, seed=self._config.seed, acting_in=acting).returns

    def film(self, max_steps: int, files: Sequence[FilmFile] | None) -> float:
        """Plays one episode."""
        acting = _acting(self._config, self._run)
        return self._run.agent.animate_agent(max_steps, files, seed=self._config.seed, acting_in=acting)


class _Learned:
    """The policy that a run of a function has learned.

    Args:
        policy: Restored.
        config: Of the command.
    """

    source: Final = "its last evaluation"

    def __init__(self, policy: TrainedPolicy, config: DictConfig) -> None:
        self._policy, self._config = policy, config
        self.environment, self.trained = policy.environment, f"{policy.num_env_steps:,} steps of training"
        self._explores = config.deterministic is False or config.evaluation.policy == "sampled"

    def returns(self) -> Array:
        """Of the episodes of the evaluation."""
        return self._policy.returns(self._config.num_episodes, self._config.seed, self._explores)

    def film(self, max_steps: int, files: Sequence[FilmFile] | None) -> float:
        """Plays one episode."""
        return self._policy.film(max_steps, files, self._config.seed, self._explores)


def _played(place: Path, trust: tuple[str, ...], config: DictConfig) -> _Agent | _Learned:
    learned = policy_of(place, config.weights, trust)
    if learned is not None:
        return _Learned(learned, config)
    return _Agent(load_run(place, trust, config.weights), weights_of(place, config.weights), config)


def _acting(config: DictConfig, played: BuiltRun) -> ActingIn | None:
    """How to act: as it is typed, else as the run was evaluated. None: without exploration."""
    if config.deterministic is not None:
        return acting_by(played.agent, "greedy" if config.deterministic else "sampled", 0.0, config.seed)
    chosen = played.config.evaluation if config.evaluation.policy is None else config.evaluation
    return acting_by(played.agent, chosen.policy, chosen.eps, config.seed)


_WITHOUT_A_SCREEN: Final = "MUJOCO_GL=egl (or osmesa) in front of the command draws without a screen; gif=null: no film"
_FILM_NAMES: Final = {"gif": "play.gif", "mp4": "play.mp4", "frames": "frames"}
"""Settings that name a film, and what `true` means there."""


def _films(config: DictConfig, folder: Path) -> list[FilmFile]:
    """The files to be written; refuses kinds that cannot be, before anything is played."""
    chosen = {key: name if config[key] is True else config[key] for key, name in _FILM_NAMES.items()}
    named = [(key, folder / str(name)) for key, name in chosen.items() if name not in (None, False)]
    for key, path in named:
        if key == "mp4" and path.suffix.lower() != ".mp4":
            raise UserError(f"mp4={path.name}: its name must end in .mp4")
        if (key == "frames") != (not path.suffix):
            raise UserError(f"{key}={path.name}: a film has an end such as .gif, and a folder of pictures has none")
        check_kind(path, key)
    return [FilmFile(path, config.every, config.fps) for _, path in named]


def _trained(weights: Path, played: BuiltRun) -> str:
    """How long, and how good the best weights were when they were chosen."""
    if weights.name != BEST_FILE:
        return f"{played.agent.num_env_steps:,} steps of training"
    about = about_best(weights)
    return f"{about['num_env_steps']:,} steps of training, when it was evaluated best: {about['mean_return']:.4g}"


def _draws(environment: EnvFactory, render_mode: str) -> bool:
    env = for_evaluation(environment)()
    env.close()
    return render_mode in (env.metadata.get("render_modes") or ())


def _film(played: _Agent | _Learned, files: Sequence[FilmFile] | None, config: DictConfig) -> None:
    max_steps = max(1, config.max_frames - 1)  # there is a picture before the first step
    try:
        played.film(max_steps, files)
    except EnvironmentMismatchError as error:
        raise UserError(f"{error}; play it with gif=null") from error


def check_kind(path: Path, key: str = "gif") -> None:
    """Refuses a film of another kind than can be written, before anything is played.

    Args:
        path: Of the film.
        key: The setting that names it.

    Raises:
        UserError: There is no such kind, or it needs a package that is not installed.
    """
    try:
        film_writer(path)
    except ModuleNotFoundError as error:
        raise UserError(f"{key}={path.name}: {error}") from error
    except SettingsError as error:
        raise UserError(f"{key}={error}") from error
