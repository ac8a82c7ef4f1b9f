"""Counts over an agent's life, under our names and under the manuals'."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from note_rl.training.checkpoint_saver import Snapshot
from note_rl.training.curve_plots import History
from note_rl.training.trainer import Trainer

_T = TypeVar("_T")


class Shown(Generic[_T]):
    """An attribute that is worked out when it is read, and that gives way to an agent's own of the same name."""

    def __init__(self, read: Callable[[Any], _T]) -> None:
        self._read = read
        self.__doc__ = read.__doc__

    @overload
    def __get__(self, agent: None, kind: type) -> "Shown[_T]": ...

    @overload
    def __get__(self, agent: object, kind: type) -> _T: ...

    def __get__(self, agent: object | None, kind: type) -> "Shown[_T] | _T":
        return self if agent is None else self._read(agent)


class Counted:
    """The part of an agent that tells of its life, calls of train() before and after restore() included.

    An agent may have attributes of its own called history, reward_list, ...; training does not read these.
    """

    _history: History
    _trainer: Trainer | None
    _restored: Snapshot | None

    @property
    def num_env_steps(self) -> int:
        """Environment steps taken over the agent's life."""
        return self._count("num_env_steps")

    @property
    def num_gradient_steps(self) -> int:
        """Gradient steps taken over the agent's life."""
        return self._count("num_gradient_steps")

    @property
    def num_episodes(self) -> int:
        """Episodes finished over the agent's life."""
        return self._count("num_episodes")

    def _count(self, name: str) -> int:
        if self._trainer is not None:
            return int(getattr(self._trainer.clock, name))
        return int(self._restored.head["trainer"]["clock"][name]) if self._restored is not None else 0

    @Shown
    def history(self) -> History:
        """Returns of episodes and losses of training phases, with the environment steps at which they ended."""
        return self._history

    @Shown
    def reported(self) -> dict[str, float]:
        """Values of the last training phase, by name; see `reported_by`."""
        return reported_by(self)

    @Shown
    def reward_list(self) -> list[float]:
        """Undiscounted return of every finished episode; the same list as `history.returns`."""
        return self._history.returns

    @Shown
    def loss_list(self) -> list[float]:
        """By episode, the mean loss of the training phases that belong to it; see `History.episode_losses`."""
        return self._history.episode_losses

    @Shown
    def total_episode(self) -> int:
        """Episodes finished, as `num_episodes`."""
        return self._count("num_episodes")

    @Shown
    def step_counter(self) -> int:
        """Environment steps taken, as `num_env_steps`; update_steps goes by it."""
        return self._count("num_env_steps")

    @Shown
    def batch_counter(self) -> int:
        """Minibatches learned from, as `num_gradient_steps`; update_batches goes by it."""
        return self._count("num_gradient_steps")

    @Shown
    def time(self) -> float:
        """Seconds spent in train()."""
        return self._history.seconds


def reported_by(agent: Any) -> dict[str, float]:
    """Values of an agent's last training phase that had gradient steps; worked out when they are asked for.

    Returns:
        By name: means over these steps of what its loss has given to `report(...)`; `approx_kl`, where it has given
        ratios; `gradient_norm` before clipping, where gradients are clipped; `learning_rate`; with rollouts,
        `explained_variance` of the values that advantages were made with, and with `target_kl` the `num_epochs` that
        were taken. What belongs to one of several optimizers has its number behind its name: `gradient_norm:0`.
    """
    return {} if agent._trainer is None else agent._trainer.reported()
