"""Curves and films of an agent."""

import os
from collections.abc import Sequence
from typing import Any

from note_rl.collect.evaluation import ActingIn
from note_rl.support.value_kinds import Count, checked_arguments
from note_rl.training import curve_plots
from note_rl.training.film import FilmPath, film, film_files
from note_rl.types import Evaluation


class Pictured:
    """The part of an agent that is concerned with these."""

    _history: curve_plots.History

    def _evaluate(self, env: Any, num_episodes: int, seed: int, acting_in: ActingIn | None = None) -> Evaluation:
        raise NotImplementedError

    def _env_to_evaluate_in(self) -> Any:
        raise NotImplementedError

    def _seen_as_one(self, env: Any) -> Any:
        """Several agents' environment as if there were one."""
        raise NotImplementedError

    @checked_arguments(window=Count())
    def visualize_reward(self, path: str | os.PathLike[str] | None = None, *, window: int | None = None) -> None:
        """Draws the return of every episode so far.

        Args:
            path: File to write (.png, .pdf, ...); None: a window.
            window: Episodes of the moving average; None: a twentieth of them.

        Raises:
            SettingsError: No episode has ended yet.
            ModuleNotFoundError: matplotlib is not installed.
        """
        curve_plots.plot_reward(self._history, window, path)

    @checked_arguments(window=Count())
    def visualize_loss(self, path: str | os.PathLike[str] | None = None, *, window: int | None = None) -> None:
        """Draws the mean loss of every training phase so far; see `visualize_reward`."""
        curve_plots.plot_loss(self._history, window, path)

    @checked_arguments(window=Count())
    def visualize_reward_loss(self, path: str | os.PathLike[str] | None = None, *, window: int | None = None) -> None:
        """Draws both, one above the other; see `visualize_reward`."""
        curve_plots.plot_reward_and_loss(self._history, window, path)

    @checked_arguments(path=film_files)
    def animate_agent(
        self,
        max_steps: int = 1000,
        path: FilmPath | Sequence[FilmPath] | None = None,
        *,
        seed: int = 0,
        acting_in: ActingIn | None = None,
    ) -> float:
        """Plays one episode, in a window, into a .gif or .mp4 file, or into a folder of pictures.

        Args:
            max_steps: Where it ends, if the episode does not end before.
            path: Of the file; one without a suffix is a folder of pictures. `FilmFile` says more, and a list of these
                keeps an episode in several ways. None: a window, or nothing where there is no screen.
            seed: Of the episode.
            acting_in: See `evaluate`.

        Returns:
            The return of what was played.

        Raises:
            EnvironmentMismatchError: The environment cannot be drawn.
            SettingsError: Another kind of file.
        """
        env = self._env_to_evaluate_in()
        files = None if path is None else film_files("path", path)
        return film(
            lambda make: self._evaluate(make, 1, seed, acting_in).mean, env, self._seen_as_one, max_steps, files
        )
