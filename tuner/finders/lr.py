"""LRFinder: which learning rate an agent at hand should be trained with."""

import os
from typing import Any

from note_rl.learners.declarations import is_recurrent
from note_rl.settings import RolloutSettings
from tuner.errors import UserError
from tuner.finders import plots
from tuner.finders.find_arguments import check_call, shared_by, train_options_of
from tuner.finders.finder_study import FinderPlace
from tuner.finders.learning_rate.loss_curves import Suggestion, normalised
from tuner.finders.learning_rate.search import RateSearch, chosen_mode, search_rates
from tuner.finders.learning_rate.tests import RateSettings
from tuner.finders.subjects import live_subject

_SEARCH = ("num_seeds", "num_rates", "seed", "skip_begin", "skip_end", "group")


class LRFinder:
    """Finds a learning rate for an agent, in processes of their own; the agent is as it was afterwards.

        agent.optimizer = torch.optim.Adam(agent.parameters())
        finder = LRFinder(agent)
        finder.find(N=77, window_size=7, start_lr=0.0001, end_lr=1, episodes=77)
        finder.suggestion().rate
        finder.plot_loss()

    Args:
        agent: Its `optimizer` is set, and so are the settings by set().
        workplace: Where the runs take place; None: studies.db and studies/ in the working directory.

    Attributes:
        result: Of the last find().
    """

    def __init__(self, agent: Any, workplace: FinderPlace | None = None) -> None:
        self.agent = agent
        self.workplace = workplace or FinderPlace()
        self.result: RateSearch | None = None
        self._window_size: int | None = None

    def find(
        self,
        train_loss: Any = None,
        pool_network: bool = True,
        *,
        N: int = 100,  # noqa: N803 (the manuals' name)
        window_size: int | None = None,
        start_lr: float = 1e-6,
        end_lr: float = 1.0,
        episodes: int | None = None,
        total_steps: int | None = None,
        strategy: Any = None,
        metrics: str = "auto",
        **options: Any,
    ) -> RateSearch:
        """Tries learning rates. The same call goes on where a former one was stopped.

        The suggestion comes from tests in which nothing but the rate changes. With `episodes`, one run besides trains
        as the manuals have it, the rate growing from start_lr to end_lr while these episodes are played: that is what
        `plot_reward` shows.

        Args:
            train_loss: As in train(); losses are recorded in any case.
            pool_network: As in train(), for the runs that train.
            N: Steps of growth: each makes the rate (end_lr / start_lr) ** (1 / N) times as large.
            window_size: Episodes over whose mean and deviation `plot_reward` normalises returns; None: it does not.
            start_lr: First rate.
            end_lr: Last rate.
            episodes: Length of a training.
            total_steps: The same in environment steps, for metrics="return".
            strategy: Of each training with metrics="return": "ddp" for agents in PyTorch, "mirrored" or a
                `tf.distribute.MirroredStrategy` for those in Keras, or a `Distributed` of note_rl.settings.
            metrics: loss, kl or return ("reward" is the same): see `RateSettings.mode`; auto: kl for agents that learn
                from rollouts, else loss.
            **options: processes, processes_her, processes_pr, jit_compile of train(); num_seeds, num_rates, seed,
                skip_begin, skip_end and group of `RateSettings`.

        Raises:
            SettingsError: The agent or its optimizer cannot be made again in another process.
            UserError: A value out of range, or no run came to a good end.
        """
        check_call("LRFinder", strategy, train_loss, [self.agent])
        train = train_options_of(options, pool_network, _SEARCH) | shared_by(strategy)
        _check_numbers(N, window_size)
        settings = RateSettings(
            mode=metrics,
            start_lr=start_lr,
            end_lr=end_lr,
            num_steps=N,
            episodes=episodes,
            total_steps=total_steps,
            options=train,
            **options,
        )
        subject = live_subject(self.agent, getattr(self.agent, "optimizer", None), "LRFinder")
        experience, kind = self.agent.settings.experience, type(self.agent)
        mode = chosen_mode(settings.mode, experience, kind, is_recurrent(self.agent))
        if mode == "kl" and not isinstance(experience, RolloutSettings):
            raise UserError("metrics='kl' is for agents that learn from rollouts (PPO=True); use metrics='loss'")
        if mode == "return" and episodes is None and total_steps is None:
            raise UserError("metrics='return' trains at each rate: say for how long, with episodes=... or total_steps=")
        self.result = search_rates(subject, subject.at_rate, subject.name, mode, settings, self.workplace)
        self._window_size = window_size
        return self.result

    def suggestion(self) -> Suggestion:
        """The rate and the range in which to search further; `suggestion().space` is an entry of a search space."""
        return self._found.suggestion

    @property
    def lrs(self) -> list[float]:
        """Rates of the first seed's test, or of the rates that were trained with."""
        if self._found.comparison is not None:
            return sorted(float(one.name) for one in self._found.comparison.standings)
        rates: list[float] = self._found.curves[0]["rates"]
        return rates[: len(self.losses)]

    @property
    def losses(self) -> list[float]:
        """Losses of the first seed's test, after a step at each rate."""
        curves = self._found.curves
        return [loss for loss in curves[0]["losses"] if loss is not None] if curves else []

    @property
    def rewards(self) -> list[float]:
        """Returns of the episodes of the training with a rising rate, in order."""
        found: list[float] = (self._found.online or {}).get("rewards", [])
        return found

    def plot_loss(
        self,
        n_skip_beginning: int = 0,
        n_skip_end: int = 0,
        x_scale: str = "log",
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        """Draws the loss over the rate, with the suggestion.

        Args:
            n_skip_beginning: Points left out at the beginning.
            n_skip_end: Points left out at the end.
            x_scale: Of the rates: log or linear.
            path: File to write; None: a window.
        """
        view = plots.View(n_skip_beginning, n_skip_end, x_scale=x_scale)
        plots.plot_losses(self._found, view, path)

    def plot_reward(
        self,
        n_skip_beginning: int = 0,
        n_skip_end: int = 0,
        x_scale: str = "log",
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        """Draws the return over the rate; see `plot_loss`."""
        rates, rewards, label = self._rewards()
        plots.plot_curve(rates, rewards, label, plots.View(n_skip_beginning, n_skip_end, x_scale=x_scale), path)

    def plot_loss_change(
        self,
        sma: int = 1,
        n_skip_beginning: int = 0,
        n_skip_end: int = 0,
        y_lim: tuple[float, float] | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        """Draws how fast the loss changes from rate to rate.

        Args:
            sma: Points of the simple moving average.
            n_skip_beginning: Points left out at the beginning.
            n_skip_end: Points left out at the end.
            y_lim: Range of the vertical axis.
            path: File to write; None: a window.
        """
        if not self.losses:
            raise UserError("no losses were measured: they are in modes loss and kl")
        view = plots.View(n_skip_beginning, n_skip_end, sma, y_lim)
        plots.plot_change(self.lrs, self.losses, "loss", view, path)

    def plot_reward_change(
        self,
        sma: int = 1,
        n_skip_beginning: int = 0,
        n_skip_end: int = 0,
        y_lim: tuple[float, float] | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        """Draws how fast the return changes from rate to rate; see `plot_loss_change`."""
        rates, rewards, label = self._rewards()
        plots.plot_change(rates, rewards, label, plots.View(n_skip_beginning, n_skip_end, sma, y_lim), path)

    def _rewards(self) -> tuple[list[float], list[float], str]:
        comparison = self._found.comparison
        if comparison is not None:
            standings = sorted(comparison.standings, key=lambda one: float(one.name))
            return [float(one.name) for one in standings], [one.score for one in standings], "return of training"
        if not self.rewards:
            raise UserError("no episodes were played with a rising rate: give find() episodes=...")
        assert self._found.online is not None
        rates = self._found.online["reward_rates"]
        if len(set(rates)) < 3:
            raise UserError(
                f"{len(rates)} episodes were played at {len(set(rates))} rates, as a training phase of it holds "
                "many of them: give find() more episodes"
            )
        if self._window_size is None:
            return rates, self.rewards, "return of an episode"
        return rates, normalised(self.rewards, self._window_size).tolist(), "normalised return of an episode"

    @property
    def _found(self) -> RateSearch:
        if self.result is None:
            raise UserError("nothing was found yet: call find() first")
        return self.result


def _check_numbers(num_steps: Any, window_size: Any) -> None:
    """Under the manuals' names."""
    for name, value, least in (("N", num_steps, 5), ("window_size", window_size, 2)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise UserError(f"{name}={value!r} must be a whole number, at least {least}")
