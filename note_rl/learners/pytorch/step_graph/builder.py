"""Makes programs: records what they are to include, compiles it, and compares each with the eager way.

Small networks spend more time in the calls around their arithmetic than in it: the more of a step is one call, the
better. For large ones the kernels of torch are as quick, and to compile more than gradients would only take longer.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from note_rl.learners.pytorch.adam import PlainAdam, Slots, adam_step
from note_rl.learners.pytorch.optimizer_step import Stepper
from note_rl.learners.pytorch.step_graph.compiler import compiled
from note_rl.learners.pytorch.step_graph.device_graph import DeviceGraph, captured_by_cuda, why_not_captured
from note_rl.learners.pytorch.step_graph.eager import EagerWay, Example
from note_rl.learners.pytorch.step_graph.products import MKL, ONEDNN
from note_rl.learners.pytorch.step_graph.program import Includes, Program, Trace
from note_rl.learners.pytorch.step_graph.record import Recording, recorded
from note_rl.learners.pytorch.step_graph.replay import replay
from note_rl.learners.pytorch.step_graph.replay_failures import in_short
from note_rl.learners.pytorch.step_result import Evaluated, flattened, form_of
from note_rl.learners.pytorch.tensors import named_tensors
from note_rl.learners.pytorch.torch_internals import foreach_add_

_log = logging.getLogger(__name__)

_NO_SLOTS = "the optimizer has not taken its first step"
_OTHER_NUMBERS = "gives other numbers"
_LARGEST = 30_000  # numbers that learn, in a program that includes their optimizers' steps


class Builder:
    """Makes the programs of one agent, each compared with the eager way.

    Args:
        eager: The way in which its losses are evaluated otherwise.

    Attributes:
        steppers: The optimizers whose steps may become a part of programs; none: they are not to.
        matmul: Who takes large products of matrices; see `products`.
    """

    def __init__(self, eager: EagerWay) -> None:
        self.steppers: Sequence[Stepper] = ()
        self.matmul = MKL
        self._eager = eager
        self._agent = eager.agent
        self._uncompilable = ""  # why not
        self._apart = ""  # why optimizers' steps cannot be a part

    @property
    def refusals(self) -> tuple[str, str]:
        """See `Staged.refusals`; a compiler that is missing here may be there on another machine."""
        apart, uncompilable = (text if _OTHER_NUMBERS in text else "" for text in (self._apart, self._uncompilable))
        return apart, uncompilable

    @refusals.setter
    def refusals(self, refusals: tuple[str, str]) -> None:
        self._apart, self._uncompilable = refusals

    def replayed(self, example: Example) -> Program:
        """Returns losses and gradients as a replay.

        Raises:
            ValueError: It does not agree, or what `__call__` reads or changes cannot be seen.
            RuntimeError: What `__call__` does cannot be recorded.
        """
        with self._eager.undisturbed():
            self._eager.note(example)
            recording, form = self._recorded(example, Includes())
        with self._eager.undisturbed():  # replaying tries the kernels, and random ones draw
            run = replay(recording, example.values, self.matmul)
        program = Program(run, form, recording)
        rounds_otherwise = self.matmul == ONEDNN and recording.large_products
        self._check(program, example, 1e-4 if rounds_otherwise else 1e-5)
        return program

    def capture(self, trace: Trace, example: Example) -> None:
        """Has a trace run its replay as one CUDA graph, on a GPU; else notes why not, and it goes on as it is.

        Args:
            trace: Which replays.
            example: One of its minibatches.
        """
        replayed, device = trace.replayed, example.batch["reward"].device
        reason = why_not_captured(replayed.recording, device)
        if reason:
            trace.why_not_captured = "" if device.type == "cpu" else reason
            return
        num_copied = len(flattened(replayed.form))  # all but gradients, which are followed at once
        try:
            with self._eager.undisturbed():
                captured, values = replayed.recording.captured, example.copied().values
                graph = DeviceGraph(replayed.run, captured, values, num_copied, lambda f: captured_by_cuda(f, device))
            program = replace(replayed, run=graph, is_captured=True)
            self._check(program, example, 1e-5)
        except Exception as error:  # noqa: BLE001 - a driver fails in all kinds of ways
            trace.why_not_captured = f"it cannot be captured as a CUDA graph: {in_short(error)}"
            _log.warning("the update is replayed: %s", trace.why_not_captured)
            return
        trace.program = program

    def compile(self, trace: Trace, example: Example, targets_may_move: bool) -> None:
        """Has a trace run the compiled code that includes most; else says once why not, and it goes on as it is.

        On a GPU it goes on as it is: one CUDA graph is what a compiled program is on a CPU.

        Args:
            trace: Nothing happens if it does so already.
            example: One of its minibatches.
            targets_may_move: Whether update_param() may be a part of the step.
        """
        device = example.batch["reward"].device
        if device.type != "cpu":
            if not trace.program.is_captured:
                trace.why_not_quicker = trace.why_not_captured or f"parameters are on {device.type}"
            return
        targets, now = targets_may_move and self._can_move_targets(), trace.program.includes
        if now.optimizers and now.fit() and now.targets == targets:
            return
        if now.optimizers:
            trace.program = trace.replayed
        optimizers, apart = ([], self._apart) if self._apart else self._optimizers(trace.replayed.form)
        if apart == _NO_SLOTS:
            trace.why_not_quicker = apart
            return
        if not apart:
            error = self._compile(trace, example, Includes(optimizers, targets))
            if not error:
                return
            apart = self._apart = f"the optimizer's step cannot be a part of the program: {error}"
            _log.info("losses and gradients are compiled without the optimizer's step: %s", error)
        if not trace.program.is_compiled and not self._uncompilable:
            error = self._compile(trace, example, Includes())
            if error:
                self._uncompilable = f"it cannot be compiled: {error}"
                _log.warning("the update cannot be compiled, it is replayed instead: %s", error)
        trace.why_not_quicker = apart if trace.program.is_compiled else self._uncompilable

    def _compile(self, trace: Trace, example: Example, includes: Includes) -> str:
        """Has a trace run compiled code that includes this; returns why that is not possible, or an empty text."""
        try:
            program = self._compiled(trace.replayed, example, includes)
            self._check(program, example, 1e-3)
        except Exception as error:  # noqa: BLE001 - a compiler and a disk fail in all kinds of ways, as may update_param()
            return in_short(error)
        trace.program, trace.why_not_quicker = program, ""
        return ""

    def _compiled(self, replayed: Program, example: Example, includes: Includes) -> Program:
        recording, form = replayed.recording, replayed.form
        if includes.optimizers:
            recording, form = self._recorded(example, includes)
            recording = replace(recording, written=[])  # no copy for each step: the learner has some, see `Snapshots`
        with self._eager.undisturbed(self._tensors(includes)):
            run = compiled(recording, [*example.values, *includes.numbers], self.matmul)
        return Program(run, form, recording, includes, is_compiled=True)

    def _optimizers(self, form: Evaluated) -> tuple[list[tuple[PlainAdam, Slots]], str]:
        """Returns the optimizers with their slots, or why their steps can be no part of a program."""
        if not self.steppers:
            return [], "gradients are averaged over replicas before the optimizer's step"
        followed = [(one, kept) for one, (kept, _) in zip(self.steppers, form.directions, strict=True) if kept]
        num_learning = sum(parameter.numel() for stepper, _ in followed for parameter in stepper.parameters)
        if not num_learning:
            return [], "no parameter learns"
        if num_learning > _LARGEST:
            reason = (
                f"of {num_learning:,} parameters, more than {_LARGEST:,}, the optimizer's step is as quick by torch"
            )
            return [], reason
        adams = [(one.adam, one.adam.slots(kept)) for one, kept in followed if one.adam is not None]
        others = [type(one.optimizer).__name__ for one, kept in followed if not _suits(one, kept)]
        if others:
            return [], f"the step of {', '.join(dict.fromkeys(others))} is not compiled"
        found = [(adam, slots) for adam, slots in adams if slots is not None]
        return found, "" if len(found) == len(followed) else _NO_SLOTS

    def _can_move_targets(self) -> bool:
        """Whether update_param() does nothing but what a recording of it does: its very class declares so."""
        kind = next((kind for kind in type(self._agent).__mro__ if "update_param" in vars(kind)), object)
        return bool(vars(kind).get("traceable", False))

    def _recorded(self, example: Example, includes: Includes) -> tuple[Recording, Evaluated]:
        """Returns a step that includes this as kernel calls, and the form of what it gives."""
        forms: list[Evaluated] = []
        tensors, num_values = self._tensors(includes), len(example.values)
        targets = self._targets(includes) if includes.targets else []

        def step(*values: Tensor) -> list[Tensor]:
            evaluated = self._eager.of_values(example, values[:num_values])
            if includes.optimizers:
                evaluated = self._followed(evaluated, includes, values[num_values:], targets)
            forms.append(evaluated)
            return flattened(evaluated)

        with self._eager.undisturbed(tensors):
            recording = recorded(step, tensors, [*example.copied().values, *includes.numbers])
        return recording, form_of(forms[-1])

    def _followed(
        self, evaluated: Evaluated, includes: Includes, numbers: Sequence[Tensor], targets: Sequence[Tensor]
    ) -> Evaluated:
        """Takes the optimizers' steps and calls update_param(), which change nothing where a loss is not finite."""
        losses = [loss.detach() for loss in evaluated.losses if loss is not None]
        directions = [gradients for kept, gradients in evaluated.directions if kept]
        with torch.no_grad():
            sound = torch.isfinite(torch.stack(losses)).all()
            for (adam, slots), gradients, of_adam in zip(includes.optimizers, directions, numbers, strict=True):
                adam_step(slots, gradients, of_adam, adam.decoupled, sound)
            if targets:
                before = [tensor.clone() for tensor in targets]
                self._agent.update_param()
                for tensor, values in zip(targets, before, strict=True):
                    tensor.copy_(torch.where(sound, tensor, values))
        return evaluated._replace(directions=[])

    def _tensors(self, includes: Includes) -> list[Tensor]:
        """Returns all tensors that a step may change."""
        tensors = [*(tensor for _, tensor in named_tensors(self._agent)), *includes.slots]
        return list({id(tensor): tensor for tensor in tensors}.values())

    def _targets(self, includes: Includes) -> list[Tensor]:
        """Returns the tensors that update_param() changes, found out by calling it after what learns has changed."""
        learning = [parameter for _, slots in includes.optimizers for parameter in slots.parameters]
        ours = set(map(id, learning))
        others = [tensor for _, tensor in named_tensors(self._agent) if id(tensor) not in ours]
        with self._eager.undisturbed([*learning, *others]), torch.no_grad():
            foreach_add_(learning, 1.0)
            before = [tensor.clone() for tensor in others]
            with self._eager.noting():
                self._agent.update_param()
            return [tensor for tensor, values in zip(others, before, strict=True) if not torch.equal(tensor, values)]

    def _check(self, program: Program, example: Example, rtol: float) -> None:
        """Compares with the eager way, on another minibatch than the recorded one.

        Raises:
            ValueError: They disagree.
        """
        includes = program.includes

        def eagerly() -> Evaluated:
            evaluated = self._eager(example.another())
            if not includes.optimizers:
                return evaluated
            for stepper, direction in zip(self.steppers, evaluated.directions, strict=True):
                stepper.follow(direction)
            if includes.targets:
                with torch.no_grad():
                    self._agent.update_param()
            return evaluated._replace(directions=[])

        adams = {id(adam) for adam, _ in includes.optimizers}
        with smooth_steps([stepper for stepper in self.steppers if id(stepper.adam) in adams]):
            expected = self._outcome(eagerly, includes)
            found = self._outcome(lambda: program(example.another().values, quick=False), includes)
        check_near(found, expected, rtol)

    def _outcome(self, step: Callable[[], Evaluated], includes: Includes) -> list[Tensor]:
        """Returns what a step gives, and what it makes of all tensors if it includes optimizers; then puts these back.

        What is reported counts for nothing: it is only looked at, and may be all rounding, as differences of nearly
        equal numbers are.
        """
        tensors = self._tensors(includes)
        left_out = {id(counter) for _, slots in includes.optimizers for counter in slots.counters}
        changed = [tensor for tensor in tensors if id(tensor) not in left_out] if includes.optimizers else []
        with self._eager.undisturbed(tensors):
            given = flattened(step()._replace(reported={}))
            return [tensor.detach().clone() for tensor in (*given, *changed)]


def _suits(stepper: Stepper, kept: tuple[int, ...]) -> bool:
    if stepper.adam is None or stepper.parameters[0].device.type != "cpu":
        return False
    slots = stepper.adam.slots(kept)
    return slots is None or slots.alike is not None


@contextmanager
def smooth_steps(steppers: Sequence[Stepper]) -> Iterator[None]:
    """Gives optimizers a rate and an epsilon of 1 for the block, with which a step depends smoothly on the gradient.

    With the usual ones it is all sign, where gradients are nothing but rounding.
    """
    groups = [stepper.optimizer.param_groups[0] for stepper in steppers]
    before: list[Mapping[str, Any]] = [dict(group) for group in groups]
    try:
        for group, stepper in zip(groups, steppers, strict=True):
            group.update(lr=1.0, eps=1.0)
            stepper.begin()
        yield
    finally:
        for group, former, stepper in zip(groups, before, steppers, strict=True):
            group.update(former)
            stepper.begin()


def check_near(found: Sequence[Tensor], wanted: Sequence[Tensor], rtol: float) -> None:
    """Compares tensors, each to this share of its largest number.

    Raises:
        ValueError: They disagree.
    """
    for values, expected in zip(found, wanted, strict=True):
        scale = float(expected.detach().abs().nan_to_num(0.0, 0.0, 0.0).max()) if expected.numel() else 0.0
        if not torch.allclose(values, expected, rtol=rtol, atol=rtol * max(scale, 1e-6), equal_nan=True):
            raise ValueError(f"the recorded step {_OTHER_NUMBERS} than the loss itself")
