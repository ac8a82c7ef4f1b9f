"""Agents that take their updates by themselves, by `update(self, batch, optimizers)` in place of a loss.

That is the door for what is no descent along the gradient of a loss: natural gradients, line searches, updates that
alternate. Around it everything stays as it is for losses; the same in both frameworks.
"""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from note_rl.errors import AgentContractError
from note_rl.learners.declarations import BATCH_ATTRIBUTES, has_loss, updates_itself
from note_rl.learners.losses import Arithmetic, HandedOver

_ARGUMENTS = ("batch", "optimizers")


class TrainingBatch:
    """Argument of update(): the tensors of a minibatch as attributes.

    `obs`, `action`, `reward`, `next_obs`, `terminated` and `discount` are always there, [B, ...] each; what else there
    may be stands in `note_rl.learners.declarations.BATCH_ATTRIBUTES`, such as `advantage`. `action_mask` and
    `next_action_mask` [B, A] are None where the environment does not tell which actions it allows, `importance_ratio`
    [B] where actions were drawn from the agent's own probabilities.
    """

    action_mask: Any = None
    next_action_mask: Any = None
    importance_ratio: Any = None

    def __init__(self, columns: Mapping[str, Any]) -> None:
        vars(self).update(columns)

    def __len__(self) -> int:
        """B."""
        return int(vars(self)["reward"].shape[0])


class OwnUpdate:
    """One call of an agent's update().

    Args:
        agent: Whose.
        num_groups: Of parameters.
        arithmetic: Of the agent's framework.
    """

    def __init__(self, agent: Any, num_groups: int, arithmetic: Arithmetic) -> None:
        self._agent = agent
        self._num_groups = num_groups
        self._arithmetic = arithmetic

    def __call__(self, columns: Mapping[str, Any], optimizers: list[Any]) -> tuple[list[Any], HandedOver]:
        """Lets the agent take one update.

        Args:
            columns: A minibatch, tensors [B, ...] by name.
            optimizers: That train() was given.

        Returns:
            Its losses, [] each, one per parameter group or one for all; and what it handed over meanwhile.

        Raises:
            AgentContractError: It returned something else.
        """
        batch, replay, reports = TrainingBatch(columns), self._agent.prioritized_replay, self._agent._reports
        replay.begin(len(batch))
        reports.begin()
        with _explaining_what_is_not_offered(batch):
            returned = self._arithmetic.answer(self._agent.update, batch, optimizers)
        td_error, ratio = replay.take()
        return self._checked(returned), HandedOver(td_error, ratio, reports.take())

    def _checked(self, returned: Any) -> list[Any]:
        losses = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        for loss in losses:
            shape = tuple(loss.shape) if self._arithmetic.is_tensor(loss) else type(loss).__name__
            if shape != ():
                raise AgentContractError(
                    "update() must return what it has reached as tensors of one number, a loss in all or one per "
                    f"parameter group; it returned {shape if isinstance(shape, str) else f'the shape {list(shape)}'}"
                )
        if len(losses) not in (1, self._num_groups):
            raise AgentContractError(
                f"update() returned {len(losses)} losses for {self._num_groups} parameter groups; "
                "give one each, or one in all"
            )
        return losses


def check_own_update(agent: Any) -> None:
    """Refuses agents of which it is not clear how they learn (AgentContractError)."""
    name = type(agent).__name__
    if has_loss(type(agent)) and _takes_updates(getattr(agent, "update", None)):
        raise AgentContractError(
            f"{name} has both a loss, __call__, and update(batch, optimizers), which stands in its place: leave one of "
            "them out, or write __call__ = None in the class if it inherits the loss"
        )
    if updates_itself(type(agent)) and agent.groups_at_sync:
        raise AgentContractError(
            f"{name} has groups_at_sync, which says what losses wait for; its update() decides itself what learns when"
        )


def _takes_updates(method: Any) -> bool:
    """Whether it is meant for updates; agents may have methods of that name for something else."""
    if not callable(method):
        return False
    try:
        return tuple(inspect.signature(method).parameters) == _ARGUMENTS
    except (ValueError, TypeError):  # some that are not written in Python do not tell
        return False


@contextmanager
def _explaining_what_is_not_offered(batch: TrainingBatch) -> Iterator[None]:
    """Around update(): names the setting that brings what it reads and the minibatch does not have.

    Raises:
        AgentContractError: In place of an AttributeError about one of these.
    """
    try:
        yield
    except AttributeError as error:
        attribute = BATCH_ATTRIBUTES.get(error.name or "")
        if error.obj is not batch or attribute is None:
            raise
        raise AgentContractError("update() reads batch.{}, which {}", error.name, attribute.comes_with) from error
