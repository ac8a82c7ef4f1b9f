"""Asking an agent for its losses of a minibatch; the same in both frameworks."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from note_rl.errors import AgentContractError
from note_rl.learners.base import CALL_ARGUMENTS, temporary_attributes
from note_rl.learners.declarations import check_loss, has_loss
from note_rl.learners.loss_checks import explaining_what_is_not_offered
from note_rl.types import BoolArray, FloatArray

Batch = Mapping[str, Any]
"""A minibatch: tensors [B, ...] by name."""


NOT_IN_A_LOSS = "minimise() takes a step within update(); where there is a loss, __call__, the learner takes the steps"


class HandedOver(NamedTuple):
    """Values that an agent hands over in its loss besides the loss.

    Attributes:
        td_error: What was given to `prioritized_replay.update`, [B]; None: nothing.
        ratio: The same.
        reported: What was given to `report`, tensors of any shape, or numbers, by name.
    """

    td_error: Any
    ratio: Any
    reported: dict[str, Any]


class Arithmetic(Protocol):
    """The operations that `Losses` uses of a framework."""

    def is_tensor(self, value: object) -> bool:
        """Whether this is one of its tensors."""

    def can_be_learned(self, loss: Any) -> bool:
        """Whether a loss may have a gradient, as far as that can be said before asking for it."""

    def answer(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns what a function of the agent answers, called as the framework has such code called."""

    def ones(self, num: int) -> Any:
        """Returns a tensor [num]."""

    def mean(self, values: Any) -> Any:
        """Returns the mean [] of values [B]."""

    def total(self, losses: Sequence[Any]) -> Any:
        """Returns the sum [] of losses []."""


class Losses:
    """The results of an agent's __call__, as one loss per parameter group or one for all.

    Args:
        agent: Whose.
        num_groups: Of parameters.
        arithmetic: Of the agent's framework.

    Attributes:
        num_optimizers: One for all groups, or one each; a single one follows the sum of all losses.
        at_sync: The groups that learn only in the steps that also move the targets.
        as_columns: Whether the loss gets r and d as [B, 1]; else [B].
    """

    def __init__(self, agent: Any, num_groups: int, arithmetic: Arithmetic) -> None:
        self._agent = agent
        self._num_groups = num_groups
        self._arithmetic = arithmetic
        self._weighted = takes_weights(agent)
        self.num_optimizers = 1
        self.as_columns = False
        self.at_sync: Sequence[int] = getattr(agent, "groups_at_sync", ())
        self._each_its_own = False  # whether the losses that were returned last are one per group

    def __call__(self, batch: Batch) -> list[Any]:
        """Returns the means over a minibatch, [] each.

        Raises:
            AgentContractError: The agent returned something else than losses, or too many or too few, or it has none.
        """
        check_loss(type(self._agent))
        arguments = [self._argument(name, batch[name]) for name in CALL_ARGUMENTS]
        weights = batch.get("weights")
        batch_size: int = batch["reward"].shape[0]
        if self._weighted:
            arguments.append(weights if weights is not None else self._arithmetic.ones(batch_size))
        with explaining_what_is_not_offered(self._agent):
            returned = self._arithmetic.answer(self._agent, *arguments)
        losses = [self._mean(loss, weights, batch_size) for loss in self._tensors(returned)]
        self._each_its_own = len(losses) == self._num_groups > 1
        if len(losses) in (1, self._num_groups):
            return losses
        if self.num_optimizers == 1:
            return [self._arithmetic.total(losses)]
        raise AgentContractError(
            f"__call__ returned {len(losses)} losses for {self._num_groups} parameter groups; "
            "give one each, or one in all"
        )

    def _argument(self, name: str, values: Any) -> Any:
        return values[:, None] if self.as_columns and name in ("reward", "terminated") else values

    def in_training(self, batch: Batch) -> tuple[list[Any], HandedOver]:
        """Returns the same, and what the agent has handed over meanwhile."""
        replay, reports = self._agent.prioritized_replay, self._agent._reports
        replay.begin(batch["reward"].shape[0])
        reports.begin()
        losses = self(batch)
        td_error, ratio = replay.take()
        return losses, HandedOver(td_error, ratio, reports.take())

    def beside_training(self, batch: Batch) -> list[Any]:
        """Returns the losses where nothing is learned: what the agent hands over is dropped."""
        with temporary_attributes(self._agent, batch_attributes(batch)):
            return self.in_training(batch)[0]

    @property
    def num_columns(self) -> int:
        """How many losses are returned for each step; see `columns`."""
        return self._num_groups if self.at_sync else self.num_optimizers

    def columns(self, losses: list[Any]) -> list[Any]:
        """Returns the losses of a step: one per optimizer, or one per group where some groups wait."""
        if not self.at_sync:
            return self.per_optimizer(losses)
        if len(losses) == self._num_groups:
            return losses
        return [losses[0], *[losses[0] * 0.0] * (self._num_groups - 1)]  # a single one, for which no group waits

    def without_waiting(self, losses: FloatArray, sync: BoolArray) -> FloatArray:
        """Returns the losses of K steps, [K, G], nan where a group has waited.

        Args:
            losses: Of all groups.
            sync: After which steps targets were updated, [K].
        """
        if not (self._each_its_own and self.at_sync):
            return losses
        waited = np.zeros(losses.shape, np.bool_)
        waited[:, list(self.at_sync)] = ~np.asarray(sync, np.bool_)[:, None]
        return np.where(waited, np.float32(np.nan), losses)

    def per_optimizer(self, losses: list[Any]) -> list[Any]:
        """Returns one loss per optimizer: one for all groups counts for each, a single optimizer has their sum."""
        if self.num_optimizers == 1:
            return losses if len(losses) == 1 else [self._arithmetic.total(losses)]
        return losses * self.num_optimizers if len(losses) == 1 else losses

    def _mean(self, loss: Any, weights: Any, batch_size: int) -> Any:
        shape = tuple(loss.shape)
        check_loss_shape(shape, batch_size)
        if not self._arithmetic.can_be_learned(loss):
            raise without_gradient()
        if shape == ():
            return loss
        return self._arithmetic.mean(loss * weights if weights is not None and not self._weighted else loss)

    def _tensors(self, returned: Any) -> list[Any]:
        losses = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        for loss in losses:
            if not self._arithmetic.is_tensor(loss):
                hint = ": it has no return" if loss is None else ""
                raise AgentContractError(
                    "__call__ must return the loss as a tensor, one or one per parameter group; it returned "
                    f"{'None' if loss is None else type(loss).__name__}{hint}"
                )
        return losses


def batch_attributes(batch: Batch) -> dict[str, Any]:
    """Returns what the agent can read as attributes while its loss is evaluated."""
    return {name: values for name, values in batch.items() if name not in CALL_ARGUMENTS}


def takes_weights(agent: Any) -> bool:
    """Whether the agent's __call__ wants the importance weights as its sixth argument."""
    if not has_loss(type(agent)):
        return False
    parameters = inspect.signature(agent.__call__).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(positional) >= 6


def without_gradient() -> AgentContractError:
    """Makes the error about a loss along which nothing can be learned."""
    return AgentContractError(
        "the loss that __call__ returned has no gradient: it was cut off (detach(), item(), torch.no_grad(); "
        "stop_gradient(), numpy(); a tensor made anew), or it depends on no parameter of its group but such that are "
        "frozen (requires_grad_(False))"
    )


def check_loss_shape(shape: tuple[int | None, ...], batch_size: int) -> None:
    """Refuses losses that are neither one number nor one per sample.

    Raises:
        AgentContractError: The usual cause of a [B, B] or [B, 1] loss is named.
    """
    if shape in ((), (batch_size,)):
        return
    hint = ""
    if len(shape) == 2 and shape[0] == batch_size and shape[1] not in (1, batch_size):
        hint = "; a loss of sequences is one number for each: take the mean over their steps, .mean(1)"
    elif len(shape) == 2 and shape[0] == batch_size:
        hint = (
            "; r and d have the shape [B], so Q-values of shape [B, 1] broadcast against them to [B, B]: "
            "drop the last axis first"
        )
    raise AgentContractError(
        f"__call__ must return one loss or one per sample, [] or [{batch_size}]; it returned the shape "
        f"{list(shape)}{hint}"
    )
