"""What can be chosen about replay, one frozen dataclass per choice, each refusing nonsense."""

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from note_rl.checking import Count, check_fields, checked, window
from note_rl.errors import SettingsError, say_once

_log = logging.getLogger(__name__)
WindowFunction = Callable[..., int | float]
Strategy = Literal["future", "final", "episode"]


@dataclass(frozen=True, kw_only=True)
class Priority:
    """Prioritized replay, proportional variant (Schaul et al. 2016, https://arxiv.org/abs/1511.05952).

    Attributes:
        alpha: Exponent of priorities: 0 samples uniformly, 1 in proportion to the TD error.
        beta: Exponent of importance weights at the start; it reaches 1 with the end of training.
        initial_td: TD error that a transition is taken to have before it is known; the largest seen, if that is more.
        epsilon: Added to every absolute TD error, so that nothing is never sampled again.
    """

    alpha: float = 0.7
    beta: float = 0.4
    initial_td: float = 7.0
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        """Refuses values out of range."""
        check_fields(self)
        checked(initial_TD=self.initial_td)
        if self.initial_td <= 0.0:
            raise SettingsError(f"initial_TD must be above 0, got {self.initial_td}, or nothing new is read")
        if self.epsilon <= 0.0:
            raise SettingsError(f"epsilon must be above 0, got {self.epsilon}, or a TD error of 0 is for ever")


@dataclass(frozen=True, kw_only=True)
class RolloutPriority:
    """Prioritized minibatches within a rollout: score = lambda_ * |TD| + (1 - lambda_) * |ratio - 1|.

    Attributes:
        initial_ratio: Ratio of new to old probability before it is known.
        initial_td: TD error before it is known.
        lambda_: Weight of the TD error against the ratio's deviation.
        alpha: Exponent of scores: 0 samples uniformly.
        epsilon: Added to every score.
    """

    initial_ratio: float = 1.0
    initial_td: float = 7.0
    lambda_: float = 0.5
    alpha: float = 0.7
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        """Refuses values out of range."""
        check_fields(self)
        checked(initial_TD=self.initial_td)
        if self.epsilon <= 0.0:
            raise SettingsError(f"epsilon must be above 0, got {self.epsilon}: a score of 0 would never be read again")


@dataclass(frozen=True, kw_only=True)
class Hindsight:
    """Hindsight experience replay (Andrychowicz et al. 2017, https://arxiv.org/abs/1707.01495).

    Attributes:
        strategy: Which achieved goal of the same episode stands in: one not earlier than the transition ("future"),
            the last ("final") or any ("episode").
        fraction: Share of a minibatch that gets another goal.
    """

    strategy: Strategy = "future"
    fraction: float = 0.8

    def __post_init__(self) -> None:
        """Refuses unknown strategies and shares out of range."""
        if self.strategy not in get_args(Strategy):
            raise SettingsError(f"strategy must be one of {', '.join(get_args(Strategy))}, got {self.strategy!r}")
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Window:
    """How the pool is kept shorter than its capacity.

    Attributes:
        size: Newest transitions kept after each collection: a number, a share of the capacity in (0, 1), or a function
            that is asked for the number.
        clearing_freq: After so many stored transitions, ...
        clear_size: ... the so many oldest are dropped.
        on_sync: Transitions kept whenever the targets are updated, those of the highest priority where there are
            priorities, else the newest: a number, or a function that is asked for it.
    """

    size: int | float | WindowFunction | None = None
    clearing_freq: int | None = None
    clear_size: int | None = None
    on_sync: int | WindowFunction | None = None

    def __post_init__(self) -> None:
        """Refuses values out of range and halves of a pair."""
        object.__setattr__(self, "size", checked(window_size=self.size)["window_size"])
        if not callable(self.on_sync):
            object.__setattr__(self, "on_sync", checked(window_size_pr=self.on_sync)["window_size_pr"])
        if (self.clearing_freq is None) != (self.clear_size is None):
            raise SettingsError(
                f"clearing_freq={self.clearing_freq} and window_size_={self.clear_size} belong together: every how "
                "many stored transitions, and how many of the oldest are dropped then"
            )
        if self.clearing_freq is not None and self.clear_size is not None:
            checked(clearing_freq=self.clearing_freq, window_size_=self.clear_size)
            if self.clear_size >= self.clearing_freq:
                raise SettingsError(
                    f"window_size_={self.clear_size} transitions dropped for every clearing_freq={self.clearing_freq} "
                    "stored would empty the pool; drop fewer than are stored"
                )

    def least(self, capacity: int) -> int | None:
        """The smallest number of transitions that is known beforehand to be kept in a full pool."""
        known = [number for number in (self.size, self.on_sync) if isinstance(number, int)]
        if isinstance(self.size, float):
            known.append(int(self.size * capacity))
        if self.clear_size is not None:
            known.append(capacity - self.clear_size)
        return min(known, default=None)


class Removal(int):
    """A number of the oldest transitions to remove, as the manuals' window functions give it.

    A plain int from such a function is the number to keep; this says by its type that it is the other one. It stays
    what it is when it is added to, multiplied or rounded down.
    """


def _staying(name: str) -> Callable[[int, Any], Any]:
    plain = getattr(int, name)

    def method(self: int, other: Any) -> Any:
        result = plain(self, other)
        return Removal(result) if type(result) is int else result

    return method


for _name in ("__add__", "__radd__", "__sub__", "__mul__", "__rmul__", "__floordiv__"):
    setattr(Removal, _name, _staying(_name))


def ask(function: WindowFunction, process: Any = None) -> int:
    """The number that a window function gives; it may take the number of a process (None: the whole pool).

    Returns:
        How many to keep; as a `Removal`, which is what agents' adjust_window_size() gives, how many of the oldest go.
    """
    told = _given(function, process)
    return told if isinstance(told, Removal) else Count(0)(_ASKED, told)


def kept(size: int | float | WindowFunction, capacity: int, fewest: int, stored: int = 0) -> int:
    """How many transitions of a pool a window keeps: what it says, but never less than a minibatch.

    Args:
        size: A number, a share of the capacity, or a function that is asked for either.
        capacity: Of the pool.
        fewest: In a minibatch.
        stored: Transitions by now.
    """
    told: Any = size
    if callable(size):
        told = _given(size, None)
        told = max(stored - told, 0) if isinstance(told, Removal) else told
        told = told if told == 0 else window(_ASKED, told)
    keep = int(told * capacity) if isinstance(told, float) else told
    if keep < fewest:
        say_once(_log, f"a window leaves less than a minibatch of {fewest} transitions: so many are kept")
    return max(keep, fewest)


_ASKED = "what the window function gives"


def _given(function: WindowFunction, process: Any) -> Any:
    return function(process) if inspect.signature(function).parameters else function()
