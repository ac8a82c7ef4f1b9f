"""How many steps an optimizer has taken, where some parameter groups learn at once and others wait.

One optimizer may serve both. Adam corrects its means by the number of steps that they were taken over, which is another
one for each kind of group.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

import keras

from note_rl.learners.base import WAITING_STEPS
from note_rl.learners.keras.keras_internals import count_of, counting_in, rate_of

_KINDS: Final = (keras.optimizers.Adam, keras.optimizers.AdamW, keras.optimizers.Adamax, keras.optimizers.Lamb)


@dataclass(frozen=True)
class StepCounts:
    """The two counts of one optimizer.

    Attributes:
        optimizer: Whose.
        own: Of the steps of groups that learn at once.
        waiting: Of the steps of groups that wait.
    """

    optimizer: Any
    own: Any
    waiting: Any

    def of_waiting(self) -> AbstractContextManager[None]:
        """A block in which the optimizer takes steps of groups that wait."""
        return counting_in(self.optimizer, self.waiting, self.own)


def counts_for(optimizers: Sequence[Any], waiting: Sequence[int]) -> StepCounts | None:
    """The counts of the only optimizer; None: there are several, no group waits, or groups share more than a count.

    Args:
        optimizers: One for all groups, or one each.
        waiting: The groups that wait.
    """
    if len(optimizers) > 1 or not waiting or not _corrects_by_steps(optimizers[0]):
        return None
    return counted_apart(optimizers[0])


def _corrects_by_steps(optimizer: Any) -> bool:
    """Whether an optimizer corrects its means by the number of steps, and keeps nothing else for all variables."""
    keeps = optimizer.use_ema, optimizer.gradient_accumulation_steps, optimizer.global_clipnorm
    is_known = type(optimizer).__module__.startswith(("keras.", "note_rl."))  # another subclass may keep more
    return (
        is_known and isinstance(optimizer, _KINDS) and isinstance(rate_of(optimizer), keras.Variable) and not any(keeps)
    )


def counted_apart(optimizer: Any) -> StepCounts:
    """Has an optimizer count the steps of groups that wait, too; those taken before count for both."""
    own, *waiting = counts_of(optimizer)
    if not waiting:
        waiting = [optimizer.add_variable((), dtype="int", aggregation="only_first_replica", name=WAITING_STEPS)]
        waiting[0].assign(own)
    return StepCounts(optimizer, own, *waiting)


def counts_of(optimizer: Any) -> list[Any]:
    """The variables in which an optimizer counts steps, its own first."""
    return [count_of(optimizer), *(variable for variable in optimizer.variables if variable.name == WAITING_STEPS)]
