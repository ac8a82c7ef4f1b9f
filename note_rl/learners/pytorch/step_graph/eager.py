"""Minibatches by which recorded steps are made, and compared with the eager way."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from note_rl.learners.base import temporary_attributes
from note_rl.learners.pytorch.step_graph.guards import Guards
from note_rl.learners.pytorch.step_result import Evaluated
from note_rl.types import TRANSITION_COLUMNS

# minibatch by name [B, ...], whether all groups learn -> what it gave; changes nothing but random numbers
Evaluate = Callable[[Mapping[str, Tensor], bool], Evaluated]
Undisturbed = Callable[..., AbstractContextManager[Any]]
"""Makes a context that puts back all that evaluating might have changed, or the given tensors."""


@dataclass(frozen=True)
class Example:
    """One minibatch, as a step has it.

    Attributes:
        batch: Columns [B, ...] by name.
        due: Whether all groups learn.
        scalars: Hyperparameters of the agent, [] each.
    """

    batch: Mapping[str, Tensor]
    due: bool
    scalars: Sequence[Tensor]

    @property
    def values(self) -> list[Tensor]:
        """The inputs of a recording: the columns and the hyperparameters."""
        return [*self.batch.values(), *self.scalars]

    def copied(self) -> "Example":
        """Returns the same in other memory: a loss may change its arguments."""
        return replace(self, batch={name: values.clone() for name, values in self.batch.items()})

    def another(self) -> "Example":
        """Returns the same samples in another order, with other rewards, advantages and so on."""
        as_they_are = {*TRANSITION_COLUMNS} - {"reward"}
        rolled = {name: values.roll(1, 0) for name, values in self.batch.items()}
        changed = {
            name: values if name in as_they_are or not values.is_floating_point() else 1.25 * values + 0.05
            for name, values in rolled.items()
        }
        return replace(self, batch=changed)


@dataclass
class EagerWay:
    """Evaluates examples by calling the agent.

    Args:
        agent: Whose losses.
        evaluate: A minibatch.
        undisturbed: See `Undisturbed`.

    Attributes:
        names: Of the hyperparameters.
        guards: Look at what recordings depend on; None before there is one.
    """

    agent: Any
    evaluate: Evaluate
    undisturbed: Undisturbed
    names: Sequence[str] = ()
    guards: Guards | None = None

    def watch(self, columns: Iterable[str]) -> None:
        """Looks at what the agent consists of, from now on; columns of minibatches and hyperparameters may change."""
        self.guards = Guards(self.agent, {*columns, *self.names})

    def noting(self) -> AbstractContextManager[None]:
        """Looks at what is read within the block, from now on; see `Guards.noting`."""
        return nullcontext() if self.guards is None else self.guards.noting()

    def note(self, example: Example) -> None:
        """Evaluates an example, and looks at what that reads from now on.

        Raises:
            ValueError: Something that is read could change unseen, or is changed.
        """
        with self.noting():
            self.evaluate(example.copied().batch, True)  # what is made at the first call is there then
        before = dict(vars(self.agent))
        with self.noting():
            self.evaluate(example.copied().batch, example.due)
        for name, value in vars(self.agent).items():
            if name not in example.batch and before.get(name, self) is not value:
                raise ValueError(f"__call__ sets self.{name}, which a recording cannot do")
        changed = None if self.guards is None else self.guards.changed_by_itself()
        if changed is not None:
            raise ValueError(f"__call__ changes {changed}, which a recording cannot do")

    def __call__(self, example: Example) -> Evaluated:
        """Returns what an example gives."""
        return self.evaluate(example.batch, example.due)

    def of_values(self, example: Example, values: Sequence[Tensor]) -> Evaluated:
        """Returns the same where these take the place of the example's own values, hyperparameters included."""
        batch = dict(zip(example.batch, values, strict=False))
        numbers = dict(zip(self.names, values[len(batch) :], strict=True))
        with temporary_attributes(self.agent, numbers):
            return self(replace(example, batch=batch))
