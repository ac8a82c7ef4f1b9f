"""Updates that agents take by themselves, in place of gradient steps along a loss."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from note_rl.errors import AgentContractError, say_once
from note_rl.learners.peers import Alone, Peers
from note_rl.learners.pytorch.optimizer_step import Stepper
from note_rl.learners.pytorch.step_result import Evaluated, without_history
from note_rl.learners.pytorch.steps import Optimizers
from note_rl.learners.pytorch.tensors import gradients_of
from note_rl.learners.step_way import StepWay, Way
from note_rl.learners.update_contract import OwnUpdate
from note_rl.settings.switch_names import JIT_COMPILE

_log = logging.getLogger(__name__)


class NoTraces:
    """Stands where recordings are kept: there are none, as update() may branch on what it measures."""

    stages = (0, 0)
    refusals = ("", "")
    num_traces = 0
    way = StepWay(Way.EAGER, "update() may branch on what it measures, so it is not recorded")

    def graphs(self) -> list[str]:
        """Returns none."""
        return []

    def expect(self, num_gradient_steps: float) -> None:
        """Changes nothing."""

    def resume(self, stages: tuple[int, int], refusals: tuple[str, str]) -> None:
        """Changes nothing."""


class OwnUpdates:
    """Lets an agent take an update from each minibatch, eagerly; see `GradientSteps`, in whose place it stands.

    Args:
        agent: Which learns.
        update: Its update().
        parameters: All that it learns.
    """

    steps_between_copies = 0  # it is not seen beforehand where an update leads

    def __init__(self, agent: Any, update: OwnUpdate, parameters: Sequence[Tensor]) -> None:
        self._agent = agent
        self._update = update
        self._parameters = parameters
        self._optimizers: Optimizers = []
        self._max_grad_norm: float | None = None
        self._steppers: dict[int, Stepper] = {}  # of this update block, by optimizer
        self.peers: Peers = Alone()  # agents that take their updates by themselves have no others
        self.traces = NoTraces()

    def prepare(
        self,
        optimizers: Optimizers,
        max_grad_norm: float | None,
        hyperparameters: Sequence[str],
        jit: Any,
        matmul: str,
    ) -> None:
        """Takes the optimizers; see `Learner.prepare`. Nothing is recorded, so that `matmul` has no effect."""
        self._optimizers = optimizers
        self._max_grad_norm = max_grad_norm
        if jit is True:
            say_once(
                _log,
                "{}: update() of {} runs eagerly, as PyTorch records losses",
                *(JIT_COMPILE, type(self._agent).__name__),
            )

    def take(
        self,
        columns: Mapping[str, Sequence[Tensor]],
        sync: Sequence[bool],
        hyperparameters: Mapping[str, float],
        careful: bool,
    ) -> Iterator[Evaluated]:
        """Lets the agent take its updates, up to the first whose losses are not finite; see `GradientSteps.take`."""
        optimizers = [optimizer for optimizer, _ in self._optimizers]
        self._steppers = {id(optimizer): Stepper(optimizer, parameters) for optimizer, parameters in self._optimizers}
        try:
            for k, batch in enumerate(zip(*columns.values(), strict=True)):
                losses, (td_error, ratio, told) = self._update(dict(zip(columns, batch, strict=True)), optimizers)
                yield Evaluated(
                    [loss.detach() for loss in losses], td_error, ratio, without_history(told, losses[0].device), []
                )
                if not all(bool(torch.isfinite(loss)) for loss in losses):
                    return
                if sync[k]:
                    with torch.no_grad():
                        self._agent.update_param()
        finally:
            self._steppers = {}

    def minimise(self, loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer) -> Tensor:
        """Takes one step of an optimizer along the gradient of a loss; see `Learner.minimise`."""
        if id(optimizer) not in self._steppers:
            raise AgentContractError("minimise() takes steps of the optimizers that update() is given, within update()")
        stepper, value = self._steppers[id(optimizer)], loss()
        stepper.step(gradients_of(value, stepper.parameters), self._max_grad_norm)
        return value.detach()

    def spoiled(self) -> bool:
        """Whether parameters are not finite any more."""
        return not all(bool(torch.isfinite(parameter).all()) for parameter in self._parameters)
