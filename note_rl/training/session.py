"""One call of train(): what it gathers, whom it tells, and when it is over."""

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from note_rl.environments.long_episodes import say_if_none_ends
from note_rl.errors import DivergedError
from note_rl.replay.experience import Clock
from note_rl.settings import Budget
from note_rl.training.callbacks import Hooks
from note_rl.training.curve_plots import History
from note_rl.training.plateau_watch import PlateauWatch
from note_rl.types import Episode, TrainResult, Update

_DEFAULT_TRIAL_COUNT = 10


class RecentReturns:
    """Returns of the last episodes of an agent's life.

    Args:
        trial_count: How many (None: 10).
        criterion: Mean at which training stops; None: at none.
        returns: Of episodes so far.
    """

    def __init__(self, trial_count: int | None, criterion: float | None, returns: Iterable[float] = ()) -> None:
        self._criterion = criterion
        self._returns: deque[float] = deque(maxlen=trial_count or _DEFAULT_TRIAL_COUNT)
        self._mean: float | None = None
        self.replace(returns)

    def __iter__(self) -> Iterator[float]:
        return iter(self._returns)

    def add(self, *returns: float) -> None:
        """Takes in what is newer than all others."""
        self._returns.extend(returns)
        full = len(self._returns) == self._returns.maxlen
        self._mean = float(np.mean(self._returns)) if full else None  # asked for more often than episodes end

    def replace(self, returns: Iterable[float]) -> None:
        """Forgets all others."""
        self._returns.clear()
        self.add(*returns)

    def mean(self) -> float | None:
        """None before there are enough."""
        return self._mean

    @property
    def good_enough(self) -> bool:
        """Whether the criterion is reached."""
        return self._criterion is not None and self._mean is not None and self._mean >= self._criterion


@dataclass(frozen=True)
class EpisodeEnd:
    """When an episode has ended: in environment steps of the agent's life, and by time.perf_counter()."""

    num_env_steps: int
    time: float


@dataclass
class Session:
    """Keeps the account of one call.

    Attributes:
        agent: Whose `stop_training` is heeded.
        clock: Of its life.
        budget: How long the call goes on.
        recent: Returns by which it may end earlier.
        plateau: Whether returns still rise, by which it may, too.
        hooks: Gets all events.
        history: Of the agent's life; what happens is added to it.
        loss: Of the last training phase that has one.
        beginning: The clock from which progress is counted: of a life where the budget is of one, so that what pays
            does not depend on interruptions; else of this call.
    """

    agent: Any
    clock: Clock
    budget: Budget
    recent: RecentReturns
    plateau: PlateauWatch
    hooks: Hooks
    history: History
    loss: float
    _of_phase: float = math.nan  # the loss of the last training phase; nan: it has none
    _returns: list[float] = field(default_factory=list)
    _lengths: list[int] = field(default_factory=list)
    _episode_steps: list[int] = field(default_factory=list)
    _losses: list[float] = field(default_factory=list)
    _unannounced: int | None = 0  # episode whose beginning was not announced yet
    _last_end: int = 0  # environment steps at the end of the last episode, or at the beginning of the call
    _began: float = field(default_factory=time.perf_counter)
    _timed: float = field(default_factory=time.perf_counter)  # until when the history knows of the time spent

    def __post_init__(self) -> None:
        """Notes where the call begins."""
        of_a_life = self.budget.total_steps is not None
        self._last_end = self.clock.num_env_steps
        self.beginning = Clock() if of_a_life else replace(self.clock, progress=self.progress)

    @property
    def progress(self) -> float:
        """Share of the budget that is used."""
        return self.budget.progress(self.clock.num_env_steps, len(self._returns))

    @property
    def steps_left(self) -> int | None:
        """Environment steps; None: no such limit."""
        total = self.budget.total_steps
        return None if total is None else max(total - self.clock.num_env_steps, 0)

    @property
    def stop_reason(self) -> str | None:
        """Why it is over; None: it goes on."""
        if self.agent.stop_training:
            return "stop_training"
        if self.steps_left == 0:
            return "total_steps"
        if self.budget.episodes is not None and len(self._returns) >= self.budget.episodes:
            return "episodes"
        if self.recent.good_enough:
            return "criterion"
        return "early_stopping" if self.plateau.is_over else None

    def announce_episode(self) -> None:
        """Announces the episode that begins, unless that was done."""
        self._announce_episode(self.clock.num_env_steps)

    def _announce_episode(self, num_env_steps: int) -> None:
        if self._unannounced is not None:
            self.hooks("on_episode_begin", self._unannounced, {"num_env_steps": float(num_env_steps)})
            self._unannounced = None

    def note_episode(self, episode: Episode, end: EpisodeEnd) -> None:
        """One has ended, and another begins unless this was the last."""
        self._announce_episode(end.num_env_steps)
        number = len(self._returns)
        self._returns.append(episode.return_)
        self._episode_steps.append(end.num_env_steps)
        self._last_end = end.num_env_steps
        self.history.note_episode(episode.return_, end.num_env_steps)
        self._lengths.append(episode.length)
        self.recent.add(episode.return_)
        self.clock.num_episodes += 1
        logs = {"reward": episode.return_, "length": float(episode.length), "loss": self.loss}
        self.hooks("on_episode_end", number, {**logs, "num_env_steps": float(end.num_env_steps), "time": end.time})
        self._unannounced = number + 1
        if self.stop_reason is None:
            self._announce_episode(end.num_env_steps)

    def note_steps(self, num_envs: int) -> None:
        """Says once that episodes are counted and none ends, after steps of this number of environments."""
        wanted = self.budget.episodes
        if wanted is not None:
            say_if_none_ends(
                (self.clock.num_env_steps - self._last_end) // num_envs,
                f"train(episodes={wanted}) goes on until {wanted} have: total_steps= ends it without",
            )

    def note_phase(self, loss: float) -> None:
        """A phase has trained with this mean loss; nan: it has none."""
        self._of_phase = loss
        self.loss = self.loss if math.isnan(loss) else loss
        self._losses.append(loss)
        self.history.note_phase(loss, self.clock.num_env_steps)
        self._note_time()
        self.clock.num_phases += 1

    def _note_time(self) -> None:
        now = time.perf_counter()
        self.history.seconds += now - self._timed
        self._timed = now

    def tell_phase(self, values: Mapping[str, float]) -> None:
        """Tells of the phase that was noted, with what hyperparameters were."""
        counts = {"num_env_steps": self.clock.num_env_steps, "num_gradient_steps": self.clock.num_gradient_steps}
        self.hooks("on_phase_end", self.clock.num_phases, {**counts, "loss": self._of_phase, **values})

    def logs(self) -> dict[str, float]:
        """The logs that every hook is given."""
        return {"num_env_steps": float(self.clock.num_env_steps)}

    def result(self, stop_reason: str) -> TrainResult:
        """Result of the call."""
        self._note_time()
        return TrainResult(
            returns=self._returns,
            lengths=self._lengths,
            episode_steps=self._episode_steps,
            losses=self._losses,
            num_env_steps=self.clock.num_env_steps,
            num_gradient_steps=self.clock.num_gradient_steps,
            seconds=time.perf_counter() - self._began,
            stop_reason=stop_reason,
        )


def diverged(first: int, update: Update) -> DivergedError:
    """The error for an update block that began with this gradient step."""
    finite = np.isfinite(update.loss).all(axis=-1)
    what, step = ("loss is", int(np.argmin(finite))) if not finite.all() else ("parameters are", len(update.loss))
    return DivergedError(
        f"the {what} no longer finite at gradient step {first + step}, and the agent is as it was before; a "
        "lower learning rate or gradient clipping (max_grad_norm) usually helps"
    )
