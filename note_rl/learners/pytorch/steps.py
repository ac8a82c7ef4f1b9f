"""The gradient steps of an update block: losses and gradients of each minibatch, optimizers, target updates."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any

import torch
from torch import Tensor

from note_rl.errors import AgentContractError
from note_rl.learners.adjustable import numbered
from note_rl.learners.losses import NOT_IN_A_LOSS, Losses, batch_attributes
from note_rl.learners.peers import Alone, Peers
from note_rl.learners.pytorch.optimizer_step import Stepper, present
from note_rl.learners.pytorch.snapshots import SELDOM
from note_rl.learners.pytorch.step_graph.choice import Replay, Traces
from note_rl.learners.pytorch.step_graph.eager import EagerWay, Undisturbed
from note_rl.learners.pytorch.step_graph.program import Includes
from note_rl.learners.pytorch.step_graph.replay_failures import StepError
from note_rl.learners.pytorch.step_result import Evaluated, averaged, taken, without_history
from note_rl.learners.pytorch.tensors import gradients_of
from note_rl.learners.reports import GRADIENT_NORM

Optimizers = Sequence[tuple[torch.optim.Optimizer, Sequence[Tensor]]]
"""Each with the parameters that it changes: one for all groups, or one per group."""


class GradientSteps:
    """Takes gradient steps of one agent, replayed from recordings where that is possible and pays.

    Args:
        agent: Whose parameters learn.
        groups: Its parameters.
        losses: Of the agent.
        undisturbed: See `Undisturbed`.

    Attributes:
        traces: The recordings.
        peers: Who takes the same steps, each along its share of the minibatches.
    """

    steps_between_copies = SELDOM

    def __init__(
        self,
        agent: Any,
        groups: Sequence[Sequence[Tensor]],
        losses: Losses,
        undisturbed: Undisturbed,
    ) -> None:
        self._agent = agent
        self._groups = groups
        self._losses = losses
        self._optimizers: Optimizers = []
        self._max_grad_norm: float | None = None
        self._steppers: list[Stepper] = []
        self.peers: Peers = Alone()
        self.traces = Traces(EagerWay(agent, self._evaluate, undisturbed))

    def prepare(
        self,
        optimizers: Optimizers,
        max_grad_norm: float | None,
        hyperparameters: Sequence[str],
        jit: Any,
        matmul: str,
    ) -> None:
        """Takes the optimizers; see `Learner.prepare`.

        `step_graph.choice` and `step_graph.products` say what `jit` and `matmul` mean.
        """
        self._optimizers = optimizers
        self._max_grad_norm = max_grad_norm
        if not self._are_known(optimizers):
            self._steppers = [Stepper(optimizer, parameters) for optimizer, parameters in optimizers]
        further = [max_grad_norm, self.peers, *(one for one, _ in optimizers)]
        together = self._steppers if self.peers.size == 1 else ()
        self.traces.prepare(jit, matmul, hyperparameters, further, together)

    def _are_known(self, optimizers: Optimizers) -> bool:
        """Whether there are steppers for these optimizers and parameters already."""
        known = [(stepper.optimizer, *stepper.parameters) for stepper in self._steppers]
        given = [(optimizer, *parameters) for optimizer, parameters in optimizers]
        return len(known) == len(given) and all(
            len(one) == len(other) and all(map(is_, one, other)) for one, other in zip(known, given, strict=True)
        )

    def take(
        self,
        columns: Mapping[str, Sequence[Tensor]],
        sync: Sequence[bool],
        hyperparameters: Mapping[str, float],
        careful: bool,
    ) -> Iterator[Evaluated]:
        """Takes the steps of an update block, each when it is asked for.

        Args:
            columns: K minibatches by name, [B, ...] each.
            sync: After which of them targets are updated.
            hyperparameters: Values by name.
            careful: Whether no step is taken any more once a loss is not finite.

        Yields:
            What each minibatch gave.

        Raises:
            StepError: The numbers that learn may be anything; no step is taken from a recording any more.
        """
        for stepper in self._steppers:
            stepper.begin()
        due = [synced or not self._losses.at_sync for synced in sync]
        replays = self.traces.of(columns, due, sync, hyperparameters)
        for k, batch in enumerate(zip(*columns.values(), strict=True)):
            evaluated, done = self._given(replays, columns, batch, due[k])
            step = taken(evaluated)
            if careful and not all(loss is None or math.isfinite(loss) for loss in step.losses):
                yield step
                return
            done.count()
            for stepper, direction in zip(self._steppers, evaluated.directions, strict=not done.optimizers):
                stepper.follow(direction)
            yield step
            if sync[k] and not done.targets:
                with torch.no_grad():
                    self._agent.update_param()
                if replays is not None and not self.traces.up_to_date():
                    replays = None  # in this update block; targets were exchanged rather than updated
            if self.traces.given_up:
                replays = None

    def _given(
        self, replays: Replay | None, columns: Iterable[str], batch: Sequence[Tensor], due: bool
    ) -> tuple[Evaluated, Includes]:
        """Returns what a minibatch gives, and what was done of its step already."""
        evaluated, done = None, Includes()
        if replays is not None:
            quick = all(stepper.adam is not None for stepper in self._steppers)
            try:
                evaluated, done = replays(batch, due, quick)
            except StepError as error:
                self.traces.fail(error)
                if error.spoiled:
                    raise
        if evaluated is None:
            evaluated = self._evaluate(dict(zip(columns, batch, strict=True)), due)
        return self._clipped(averaged(evaluated, self.peers)) if self.peers.size > 1 else evaluated, done

    def spoiled(self) -> bool:
        """Always False: parameters that are not finite are detected through the next loss."""
        return False

    def minimise(self, loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer) -> Tensor:
        """Refuses to; see `Learner.minimise`."""
        raise AgentContractError(NOT_IN_A_LOSS)

    def _evaluate(self, batch: Mapping[str, Tensor], due: bool) -> Evaluated:
        """Returns losses and gradients of a minibatch, clipped unless those of peers come first; changes no parameter.

        Args:
            batch: Columns by name.
            due: Whether the groups that wait for a sync learn, too.
        """
        vars(self._agent).update(batch_attributes(batch))
        losses, (td_error, ratio, told) = self._losses.in_training(batch)
        waiting = self._waiting(losses, due)
        gradients = self._gradients(losses, waiting)
        if len(self._optimizers) == 1:
            gradients = [[gradient for group in gradients for gradient in group]]
        learned = [None if index in waiting else loss for index, loss in enumerate(losses)]
        evaluated = Evaluated(
            learned, td_error, ratio, without_history(told, losses[0].device), list(map(present, gradients))
        )
        return self._clipped(evaluated) if self.peers.size == 1 else evaluated

    def _clipped(self, evaluated: Evaluated) -> Evaluated:
        """Returns it with directions that are scaled down to the norm that was asked for, and reports that norm."""
        reported, directions = dict(evaluated.reported), []
        for index, (stepper, one) in enumerate(zip(self._steppers, evaluated.directions, strict=True)):
            direction, norm = stepper.scaled(one, self._max_grad_norm)
            directions.append(direction)
            if norm is not None:
                reported[GRADIENT_NORM if len(self._steppers) == 1 else numbered(GRADIENT_NORM, index)] = norm
        return evaluated._replace(reported=reported, directions=directions)

    def _waiting(self, losses: Sequence[Tensor], due: bool) -> Sequence[int]:
        """Returns the groups that do not learn now; for a single loss of all, none waits."""
        return () if due or len(losses) != len(self._groups) else self._losses.at_sync

    def _gradients(self, losses: list[Tensor], waiting: Sequence[int]) -> list[list[Tensor | None]]:
        """Returns gradients per parameter group, along its own loss or the only one.

        They are None for groups that wait.
        """
        if len(losses) != len(self._groups):
            parameters = [parameter for group in self._groups for parameter in group]
            flat = iter(gradients_of(losses[0], parameters))
            return [[next(flat) for _ in group] for group in self._groups]
        learns = [index not in waiting for index in range(len(losses))]
        last = max((index for index, learning in enumerate(learns) if learning), default=0)
        return [
            # losses may share a part of the graph, which the last backward pass is free to drop
            gradients_of(loss, group, keep=index < last) if learns[index] else [None] * len(group)
            for index, (loss, group) in enumerate(zip(losses, self._groups, strict=True))
        ]
