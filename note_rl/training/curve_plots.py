"""Curves of a training run. matplotlib (extra `plot`) is imported when the first one is drawn."""

import importlib
import logging
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from note_rl.errors import SettingsError
from note_rl.types import Array, FloatArray

_log = logging.getLogger(__name__)
_RETURN = ("tab:blue", "return", "return of an episode")
_LOSS = ("tab:red", "loss", "loss of a training phase")


@dataclass
class History:
    """History of an agent over its life, for curves.

    Attributes:
        returns: Undiscounted return of every finished episode.
        episode_steps: Environment steps taken when it ended.
        losses: Mean loss of every training phase; nan before learning starts.
        phase_steps: Environment steps taken at its end.
        episode_losses: By episode, the mean loss of the training phases since an episode ended before, that in which
            this one ended included; episodes that end in the same phase share it. nan where nothing was learned. It is
            as long as `returns` whenever a phase is over.
        since_episode: Sum and number of the losses that no episode has yet.
        seconds: Spent in train().
    """

    returns: list[float] = field(default_factory=list)
    episode_steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    phase_steps: list[int] = field(default_factory=list)
    episode_losses: list[float] = field(default_factory=list)
    since_episode: tuple[float, int] = (0.0, 0)
    seconds: float = 0.0

    def note_episode(self, return_: float, num_env_steps: int) -> None:
        """An episode has ended after a number of environment steps."""
        self.returns.append(return_)
        self.episode_steps.append(num_env_steps)

    def note_phase(self, loss: float, num_env_steps: int) -> None:
        """A training phase is over after a number of environment steps; a loss of nan: nothing was learned."""
        self.losses.append(loss)
        self.phase_steps.append(num_env_steps)
        total, number = self.since_episode
        if not math.isnan(loss):
            total, number = total + loss, number + 1
        ended = len(self.returns) - len(self.episode_losses)
        if ended:
            self.episode_losses += [total / number if number else math.nan] * ended
            total, number = 0.0, 0
        self.since_episode = total, number

    def get_state(self) -> dict[str, Array]:
        """As arrays, for a checkpoint; without the seconds, which no two runs have in common."""
        return {
            "returns": np.asarray(self.returns, np.float64),
            "episode_steps": np.asarray(self.episode_steps, np.int64),
            "losses": np.asarray(self.losses, np.float64),
            "phase_steps": np.asarray(self.phase_steps, np.int64),
            "episode_losses": np.asarray(self.episode_losses, np.float64),
            "since_episode": np.asarray(self.since_episode, np.float64),
        }

    @classmethod
    def from_state(cls, state: dict[str, Array], seconds: float = 0.0) -> "History":
        """From the arrays of a checkpoint; empty where it has none, nan for losses of episodes it does not know."""
        history = cls(**{name: state[name].tolist() for name in cls().get_state() if name in state}, seconds=seconds)
        total, number = history.since_episode
        history.since_episode = float(total), int(number)
        history.episode_losses += [math.nan] * (len(history.returns) - len(history.episode_losses))
        return history


def moving_average(values: Sequence[float], window: int) -> FloatArray:
    """Mean of each value and up to `window` - 1 before it, nan left out; nan where nothing else is. [n] -> [n]."""
    array = np.asarray(values, np.float64)
    known = np.isfinite(array)
    total = np.concatenate([[0.0], np.cumsum(np.where(known, array, 0.0))])
    count = np.concatenate([[0], np.cumsum(known)])
    first = np.maximum(np.arange(1, len(array) + 1) - window, 0)
    last = np.arange(1, len(array) + 1)
    number = count[last] - count[first]
    mean: FloatArray = np.where(number > 0, (total[last] - total[first]) / np.maximum(number, 1), np.nan)
    return mean


def plot_reward(history: History, window: int | None, path: str | os.PathLike[str] | None) -> None:
    """Return of each episode and its moving average."""
    _require(history.returns, "visualize_reward", "no episode has ended yet")
    figure, axes = figure_of("visualize_reward")
    _draw(axes, np.arange(1, len(history.returns) + 1), history.returns, window, _RETURN)
    axes.set_xlabel("episode")
    axes.legend()
    show_or_save(figure, path)


def plot_loss(history: History, window: int | None, path: str | os.PathLike[str] | None) -> None:
    """Mean loss of each training phase and its moving average, over environment steps."""
    _require(np.isfinite(history.losses), "visualize_loss", "no gradient step was taken yet")
    figure, axes = figure_of("visualize_loss")
    _draw_losses(axes, history, window)
    axes.set_xlabel("environment steps")
    axes.legend()
    show_or_save(figure, path)


def plot_reward_and_loss(history: History, window: int | None, path: str | os.PathLike[str] | None) -> None:
    """Returns above, losses below, over the same environment steps."""
    _require(history.returns, "visualize_reward_loss", "no episode has ended yet")
    _require(np.isfinite(history.losses), "visualize_reward_loss", "no gradient step was taken yet")
    figure, axes = figure_of("visualize_reward_loss", num_rows=2)
    _draw(axes[0], history.episode_steps, history.returns, window, _RETURN)
    _draw_losses(axes[1], history, window)
    axes[0].legend()
    axes[1].legend()
    axes[1].set_xlabel("environment steps")
    show_or_save(figure, path)


def _require(values: Any, method: str, otherwise: str) -> None:
    if not np.size(values) or not np.any(np.ones_like(values, np.bool_) if isinstance(values, list) else values):
        raise SettingsError(f"{method}() has nothing to draw: {otherwise}; call train() first")


def _pyplot(method: str) -> Any:
    try:
        return importlib.import_module("matplotlib.pyplot")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise ModuleNotFoundError(
            f"{method}() needs matplotlib, which is not installed: pip install 'note-rl[plot]'", name="matplotlib"
        ) from error


def figure_of(method: str, num_rows: int = 1) -> tuple[Any, Any]:
    """A figure and its axes, one above the other, for the method of that name.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    pyplot = _pyplot(method)
    figure, axes = pyplot.subplots(num_rows, figsize=(8.0, 1.5 + 3.0 * num_rows), sharex=True, layout="constrained")
    return figure, axes


def _draw(axes: Any, x: Any, values: Sequence[float], window: int | None, look: tuple[str, str, str]) -> None:
    """Values and their moving average.

    Args:
        axes: Where to.
        x: Places [n] of the values [n].
        values: Single ones.
        window: Of the average; None: a twentieth of the values.
        look: Colour, name of the axis, name of a single value.
    """
    colour, name, single = look
    window = window if window is not None else max(1, len(values) // 20)
    axes.plot(x, values, color=colour, alpha=0.3, linewidth=1, label=single)
    average = moving_average(values, window)
    axes.plot(x, average, color=colour, linewidth=2, label=f"mean of {window}" if window > 1 else None)
    axes.set_ylabel(name)
    axes.grid(alpha=0.3)


def _draw_losses(axes: Any, history: History, window: int | None) -> None:
    losses, steps = np.asarray(history.losses), np.asarray(history.phase_steps)
    known = np.isfinite(losses)
    _draw(axes, steps[known], losses[known].tolist(), window, _LOSS)


def show_or_save(figure: Any, path: str | os.PathLike[str] | None) -> None:
    """Writes the figure to a file, or shows it in a window where there can be one, and closes it."""
    pyplot = importlib.import_module("matplotlib.pyplot")
    try:
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=120)
        elif _shows_windows(pyplot):
            pyplot.show()
        else:
            _log.warning(
                "there is no window to show the figure in (matplotlib draws with %s): give a path, for example "
                "path='curve.png'",
                pyplot.get_backend(),
            )
    finally:
        pyplot.close(figure)


def _shows_windows(pyplot: Any) -> bool:
    backends = importlib.import_module("matplotlib.backends")
    hidden = backends.backend_registry.list_builtin(backends.BackendFilter.NON_INTERACTIVE)
    return pyplot.get_backend().lower() not in {str(name).lower() for name in hidden}
