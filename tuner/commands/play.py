"""`tuner play RUN`: how good is what was learned, and what does it look like."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console
from rich.markup import escape

from tuner import runs
from tuner.build import BuiltRun, build_run
from tuner.config import RunConfig
from tuner.film import draws_pictures, film_episode, write_gif
from tuner.wording import format_number


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses a folder without a run that can be played."""
    del folder, overrides, config_dir
    runs.read_run(Path(config.run))
    runs.checkpoint_of(Path(config.run))


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Evaluates, films, and says both."""
    del folder, overrides
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pictures are drawn in memory: no screen is looked for
    console = Console()
    run_folder = Path(config.run)
    played = load_run(run_folder)
    evaluation = played.agent.evaluate(config.num_episodes, seed=config.seed)
    returns = evaluation.returns
    console.print(
        f"mean return [bold]{format_number(evaluation.mean)}[/bold] over {len(returns)} episodes "
        f"(from {format_number(float(returns.min()))} to {format_number(float(returns.max()))}), "
        f"after {played.agent.num_env_steps:,} steps of training",
        highlight=False,
        soft_wrap=True,
    )
    if config.gif is not None and not draws_pictures(played.environment):
        console.print(f"no film: {played.environment.id} draws no pictures (render_mode rgb_array)", highlight=False)
    elif config.gif is not None:
        path = run_folder / config.gif
        frames, fps = film_episode(played.player(), played.environment, config.seed, config.max_frames)
        write_gif(path, frames, fps)
        console.print(f"film of one episode: {escape(str(path))}", highlight=False, soft_wrap=True)
    return 0


def load_run(folder: Path) -> BuiltRun:
    """A trained run with its agent as it was at the newest checkpoint.

    Raises:
        UserError: No run is in that folder, or it has no checkpoint yet.
        note_rl.errors.CheckpointError: The checkpoint is damaged.
    """
    config = RunConfig.from_json(runs.read_run(folder))
    checkpoint = runs.checkpoint_of(folder)
    built = build_run(replace(config, backend=replace(config.backend, device="cpu")))
    built.agent.restore(checkpoint)
    return built
