"""Watches whether returns still rise, and lowers learning rates or ends training where they do not."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from note_rl.learners.adjustable import OptimizerNumbers, learning_rates, with_learning_rates
from note_rl.replay.experience import Clock
from note_rl.settings.plateau import Plateau


@dataclass(frozen=True)
class Reduction:
    """Learning rates that were lowered.

    Attributes:
        num_env_steps: When.
        before, after: What every learning rate was multiplied by before, and is from now on.
        threshold: The return that was not exceeded.
    """

    num_env_steps: int
    before: float
    after: float
    threshold: float

    def text(self, rates: Sequence[float], patience: int) -> str:
        """In words.

        Args:
            rates: The learning rates without reductions, by optimizer.
            patience: How many intervals it took.
        """
        before, after = (", ".join(f"{rate * factor:.4g}" for rate in rates) for factor in (self.before, self.after))
        which = "learning rate" if len(rates) == 1 else "learning rates"
        times = "interval" if patience == 1 else "intervals"
        return f"{which} {before} -> {after}: no return above {self.threshold:.4g} in {patience} {times}"


@dataclass
class PlateauWatch:
    """Where training stands with regard to a `Plateau`.

    Attributes:
        options: What was chosen; None: nothing is judged, and what was reduced before stays so.
        factor: What every learning rate is multiplied by.
        best: The highest return judged so far; None: there was none.
        num_flat: Intervals without an improvement since then, or since the last reduction.
        num_reductions: Since then.
        judged_at: The last interval that was judged, by its number or its environment steps.
        rates: Learning rates of the present phase without reductions, by optimizer.
    """

    options: Plateau | None
    factor: float = 1.0
    best: float | None = None
    num_flat: int = 0
    num_reductions: int = 0
    judged_at: float = 0.0
    rates: list[float] = field(default_factory=list)
    _news: list[Reduction] = field(default_factory=list)

    @property
    def scales(self) -> bool:
        """Whether learning rates are, or may come to be, others than those that are set."""
        return self.options is not None or self.factor != 1.0

    @property
    def is_over(self) -> bool:
        """Whether reductions have not helped, and training is to end."""
        limit = None if self.options is None else self.options.early_stop
        return limit is not None and self.num_reductions >= limit

    def scaled(
        self, hyperparameters: dict[str, float], numbers: Callable[[], list[OptimizerNumbers]]
    ) -> dict[str, float]:
        """The numbers that the learner takes in a phase.

        Args:
            hyperparameters: By name, as schedules and adaptation have them.
            numbers: Gives those that optimizers were made with.
        """
        if not self.scales:
            return hyperparameters
        self.rates = learning_rates(hyperparameters, numbers())
        return with_learning_rates(hyperparameters, [rate * self.factor for rate in self.rates])

    def end_of_phase(self, clock: Clock, mean_return: float | None) -> None:
        """Compares the mean return of the last episodes, if it is by these that is judged and an interval is over."""
        if self.options is None or self.options.by != "episodes" or mean_return is None:
            return
        self._judge(mean_return, clock.num_episodes // self.options.interval, clock)

    def note_evaluation(self, mean_return: float, at: int, clock: Clock) -> None:
        """Compares an evaluation that counts for a number of environment steps, if it is by these that is judged."""
        if self.options is not None and self.options.by == "evaluations":
            self._judge(mean_return, at, clock)

    def _judge(self, mean_return: float, at: float, clock: Clock) -> None:
        """Once for each interval: a run that is resumed tells of the last one again."""
        assert self.options is not None
        if at <= self.judged_at:
            return
        self.judged_at = at
        if self.best is None or mean_return > self.best + self.options.min_delta:
            self.best, self.num_flat, self.num_reductions = mean_return, 0, 0
        elif clock.num_env_steps >= self.options.start_steps:
            self.num_flat += 1
            if self.num_flat >= self.options.patience:
                self._reduce(self.options.factor, clock, self.best + self.options.min_delta)

    def _reduce(self, factor: float, clock: Clock, threshold: float) -> None:
        before, self.factor = self.factor, self.factor * factor
        self.num_flat, self.num_reductions = 0, self.num_reductions + 1
        if factor != 1.0:
            self._news.append(Reduction(clock.num_env_steps, before, self.factor, threshold))

    def news(self) -> list[Reduction]:
        """The reductions that were not announced yet; each is given once."""
        news, self._news = self._news, []
        return news

    def to_json(self) -> dict[str, Any]:
        """For checkpoints."""
        names = ("factor", "best", "num_flat", "num_reductions", "judged_at")
        return {name: getattr(self, name) for name in names}

    def take(self, stored: Mapping[str, Any]) -> None:
        """Goes on from what to_json() gave.

        Raises:
            ValueError: It holds something else than numbers in their range.
        """
        best = stored["best"]
        self.best = None if best is None else float(best)
        self.factor, self.judged_at = float(stored["factor"]), float(stored["judged_at"])
        self.num_flat, self.num_reductions = int(stored["num_flat"]), int(stored["num_reductions"])
        if not 0.0 < self.factor <= 1.0 or not math.isfinite(self.judged_at + (self.best or 0.0)):
            raise ValueError("what it says of a plateau are no numbers")
