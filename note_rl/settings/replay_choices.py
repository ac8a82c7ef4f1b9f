"""Choices about replay, one frozen dataclass per choice, each refusing nonsense."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from note_rl.errors import SettingsError
from note_rl.errors.wording import Name
from note_rl.settings.window_functions import WindowFunction
from note_rl.support.setting_fields import check_fields, documented, given, setting
from note_rl.support.value_kinds import SHARE, Count, Described, Number, OneOf, count_or_function, flag, window

Strategy = Literal["future", "final", "episode"]


@documented
@dataclass(frozen=True, kw_only=True)
class Priority:
    """Prioritized replay, proportional variant (Schaul et al. 2016, https://arxiv.org/abs/1511.05952)."""

    alpha: float = setting(
        0.7, SHARE, text="Exponent of priorities: 0 samples uniformly, 1 in proportion to the TD error."
    )
    beta: float = setting(
        0.4, SHARE, text="Exponent of importance weights at the start; it reaches 1 with the end of training."
    )
    initial_td: float = setting(
        7.0,
        Number(0.0),
        manual="initial_TD",
        text="TD error that a transition is taken to have before it is known; the largest seen, if that is more.",
    )
    epsilon: float = setting(
        1e-6,
        Number(0.0, above=True, hint=", or a TD error of 0 is for ever"),
        manual=None,
        text="Added to every absolute TD error, so that nothing is never sampled again.",
    )

    def __post_init__(self) -> None:
        """Refuses values out of range."""
        check_fields(self)
        if self.initial_td <= 0.0:
            raise SettingsError("{} must be above 0, or nothing new is read", given(self, "initial_td"))


@documented
@dataclass(frozen=True, kw_only=True)
class RolloutPriority:
    """Prioritized minibatches within a rollout: score = lambda_ * |TD| + (1 - lambda_) * |ratio - 1|."""

    initial_ratio: float = setting(
        1.0, Number(0.0), text="Ratio of new to old probability before it is known, in prioritized rollouts."
    )
    initial_td: float = setting(
        Priority.initial_td,
        Number(0.0),
        manual="initial_TD",
        text="TD error before it is known.",
    )
    lambda_: float = setting(
        0.5, SHARE, text="Weight of the TD error against the ratio's deviation, in prioritized rollouts."
    )
    alpha: float = setting(Priority.alpha, SHARE, text="Exponent of scores: 0 samples uniformly.")
    epsilon: float = setting(
        Priority.epsilon,
        Number(0.0, above=True, hint=": a score of 0 would never be read again"),
        manual=None,
        text="Added to every score.",
    )

    def __post_init__(self) -> None:
        """Refuses values out of range."""
        check_fields(self)


@documented
@dataclass(frozen=True, kw_only=True)
class Hindsight:
    """Hindsight experience replay (Andrychowicz et al. 2017, https://arxiv.org/abs/1707.01495)."""

    strategy: Strategy = setting(
        "future",
        OneOf(get_args(Strategy)),
        manual=None,
        text='Which achieved goal of the same episode stands in: one not earlier than the transition ("future"), the '
        'last ("final") or any ("episode").',
    )
    fraction: float = setting(0.8, SHARE, manual=None, text="Share of a minibatch that gets another goal.")

    def __post_init__(self) -> None:
        """Refuses unknown strategies and shares out of range."""
        check_fields(self)


def _flag_or_priority(name: Name, value: Any) -> Any:
    return value if isinstance(value, Priority | RolloutPriority) else flag(name, value)


def _flag_or_hindsight(name: Name, value: Any) -> Any:
    """A strategy by its name is looked at by `Hindsight`."""
    return value if isinstance(value, Hindsight | str) else flag(name, value)


flag_or_priority = Described("True, False, Priority(...), or RolloutPriority(...) with PPO=True", _flag_or_priority)
flag_or_hindsight = Described(f"True, False, {OneOf(get_args(Strategy)).range}, or Hindsight(...)", _flag_or_hindsight)


@documented
@dataclass(frozen=True, kw_only=True)
class Window:
    """How the pool is kept shorter than its capacity."""

    size: int | float | WindowFunction | None = setting(
        None,
        window,
        manual="window_size",
        text="Newest transitions kept after each collection: a number, a share of the capacity in (0, 1), or a "
        "function that is asked for the number; None: all.",
    )
    clearing_freq: int | None = setting(
        None, Count(), text="Stored transitions after which the oldest `window_size_` are dropped; None: never."
    )
    clear_size: int | None = setting(
        None,
        Count(),
        manual="window_size_",
        text="Number of the oldest transitions that are dropped after every `clearing_freq` stored; None: none.",
    )
    on_sync: int | WindowFunction | None = setting(
        None,
        count_or_function,
        manual="window_size_pr",
        text="Transitions kept whenever the targets are updated, those of the highest priority where there are "
        "priorities, else the newest: a number, or a function that is asked for it; None: all.",
    )

    def __post_init__(self) -> None:
        """Refuses values out of range and halves of a pair."""
        check_fields(self)
        if (self.clearing_freq is None) != (self.clear_size is None):
            raise SettingsError(
                "{} and {} belong together: every how many stored transitions, and how many of the oldest are dropped "
                "then",
                *(given(self, "clearing_freq"), given(self, "clear_size")),
            )
        if self.clearing_freq is not None and self.clear_size is not None and self.clear_size >= self.clearing_freq:
            raise SettingsError(
                "{} transitions dropped for every {} stored would empty the pool; drop fewer than are stored",
                *(given(self, "clear_size"), given(self, "clearing_freq")),
            )

    def least(self, capacity: int) -> int | None:
        """The smallest number of transitions that is known beforehand to be kept in a full pool."""
        known = [number for number in (self.size, self.on_sync) if isinstance(number, int)]
        if isinstance(self.size, float):
            known.append(int(self.size * capacity))
        if self.clear_size is not None:
            known.append(capacity - self.clear_size)
        return min(known, default=None)
