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
from tuner.checks import resolve
from tuner.config import RunConfig
from tuner.film import draws_pictures, film_episode, write_gif
from tuner.trust import trusted_modules
from tuner.wording import format_number


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Evaluates, films, and says both."""
    del folder, overrides
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pictures are drawn in memory: no screen is looked for
    console = Console()
    run_folder = Path(config.run)
    played = load_run(run_folder, trusted_modules(resolve(config).get("trust")))
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


def load_run(folder: Path, trust: Sequence[str] = ()) -> BuiltRun:
    """A trained run with its agent as it was at the newest checkpoint.

    Args:
        folder: Of the run; it may come from anybody.
        trust: Modules outside of `tuner` that it may name, see `tuner.trust`.

    Raises:
        UserError: No run is in that folder, it has no checkpoint yet, or it names code that nobody has vouched for.
        note_rl.errors.CheckpointError: The checkpoint is damaged.
    """
    config = RunConfig.from_json(runs.read_config(folder, trust))
    checkpoint = runs.checkpoint_of(folder)
    built = build_run(replace(config, backend=replace(config.backend, device="cpu")))
    built.agent.restore(checkpoint)
    return built
