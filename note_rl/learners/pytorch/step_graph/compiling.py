"""Has recorded steps run compiled code: as a whole where they suit that, else their losses and gradients alone."""

import logging
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from note_rl.learners.pytorch.evaluated import Evaluated, unflattened
from note_rl.learners.pytorch.optimizer_step import Stepper
from note_rl.learners.pytorch.step_graph.compiler import compiled
from note_rl.learners.pytorch.step_graph.eager import EagerWay, Example
from note_rl.learners.pytorch.step_graph.failures import FAILURES, Beginning, ReplayError
from note_rl.learners.pytorch.step_graph.record import Recording
from note_rl.learners.pytorch.step_graph.whole import WholeStep, WholeSteps
from note_rl.learners.step_way import StepWay, Way

_log = logging.getLogger(__name__)


@dataclass
class Trace:
    """A recorded step: losses and gradients as a function of the columns of a minibatch and the hyperparameters.

    Attributes:
        run: The function.
        form: Of what it returns; only where there is something matters, not what.
        recording: What it was made from.
        is_compiled: Whether it is compiled code.
        whole: What takes such steps as a whole, in place of it.
        why_not_quicker: Why it is not compiled, or not as a whole.
        targets_stay: Whether targets are not updated after some of these steps.
    """

    run: Callable[..., list[Tensor]]
    form: Evaluated
    recording: Recording
    is_compiled: bool = False
    whole: WholeStep | None = None
    why_not_quicker: str = ""
    targets_stay: bool = False

    @property
    def stage(self) -> int:
        """1 replayed, 2 compiled, 3 with the target update."""
        if self.whole is not None:
            return 3 if self.whole.moves_targets else 2
        return 2 if self.is_compiled else 1

    @property
    def way(self) -> StepWay:
        """The way in which such steps are taken."""
        if self.whole is not None:
            return StepWay(Way.WHOLE)
        return StepWay(Way.COMPILED if self.is_compiled else Way.REPLAYED, self.why_not_quicker)

    def __call__(self, values: Sequence[Tensor], quick: bool) -> Evaluated:
        """Returns what a minibatch gives; see `Replays`."""
        beginning = Beginning(self.recording, values)
        try:
            with torch.inference_mode() if quick else torch.no_grad():
                return unflattened(self.run(*values), self.form)
        except FAILURES as error:
            beginning.put_back()
            raise ReplayError(in_short(error)) from error


class Compiling:
    """Compiles the steps of one agent.

    Args:
        eager: The way in which they are evaluated otherwise.

    Attributes:
        steppers: The optimizers whose steps may become a part of compiled code; none: they are not to.
    """

    def __init__(self, eager: EagerWay) -> None:
        self.steppers: Sequence[Stepper] = ()
        self._eager = eager
        self._whole_steps = WholeSteps(eager)
        self._uncompilable = ""  # why not
        self._in_parts = ""  # why whole steps cannot be made

    def __call__(self, trace: Trace, example: Example, targets_may_move: bool) -> None:
        """Has the trace run compiled code, if that can be had; else says once why not, and it goes on replaying.

        Args:
            trace: As it is already, nothing happens.
            example: One of its minibatches.
            targets_may_move: Whether update_param() may be a part of the step.
        """
        moves_targets = targets_may_move and self._whole_steps.can_move_targets()
        if trace.whole is not None and trace.whole.fits() and trace.whole.moves_targets == moves_targets:
            return
        trace.whole = None
        why_in_parts = self._in_parts or self._whole_steps.why_not(self.steppers, trace.form)
        if not why_in_parts:
            self._compile_whole(trace, example, moves_targets)
            if not self._in_parts:
                return
            why_in_parts = self._in_parts
        trace.why_not_quicker = why_in_parts if trace.is_compiled else self._uncompilable
        if trace.is_compiled or self._uncompilable:
            return
        try:
            with self._eager.undisturbed():
                run = compiled(trace.recording, example.values)
            self._eager.check(run, example, 1e-3)
        except Exception as error:  # noqa: BLE001 - a compiler and a disk fail in all kinds of ways; replaying does not
            self._uncompilable = trace.why_not_quicker = f"it cannot be compiled: {in_short(error)}"
            _log.warning("the update cannot be compiled, it is replayed instead: %s", in_short(error))
        else:
            trace.run, trace.is_compiled, trace.why_not_quicker = run, True, why_in_parts

    def _compile_whole(self, trace: Trace, example: Example, moves_targets: bool) -> None:
        """As soon as the optimizers have taken their first steps."""
        followed = self._whole_steps.followed(self.steppers, trace.form)
        if followed is None:
            trace.why_not_quicker = "the optimizer has not taken its first step"
            return
        try:
            whole = self._whole_steps.made(example, followed, moves_targets)
            self._whole_steps.check(whole, example, self.steppers)
        except Exception as error:  # noqa: BLE001 - see above; and update_param() may do what cannot be recorded
            self._in_parts = f"the optimizer's step cannot be a part of the program: {in_short(error)}"
            _log.info("losses and gradients are compiled without the optimizer's step: %s", in_short(error))
        else:
            trace.whole = whole


def in_short(error: Exception) -> str:
    """What an error says, on one line."""
    return textwrap.shorten(str(error), 200, placeholder="...")
