"""A whole gradient step as one compiled program: losses, gradients, Adam's step, and targets that follow each step.

Small networks spend more time in the calls around their arithmetic than in it: here, all of a step is one call. For
large ones the kernels of torch are as quick, and compiling would only take longer.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from note_rl.learners.pytorch.adam import Adam, Slots, adam_step
from note_rl.learners.pytorch.evaluated import Evaluated, TakenStep, flattened, form_of, unflattened
from note_rl.learners.pytorch.optimizer_step import FlushedSubnormals, Stepper
from note_rl.learners.pytorch.step_graph.compiler import compiled
from note_rl.learners.pytorch.step_graph.eager import EagerWay, Example, check_near
from note_rl.learners.pytorch.step_graph.failures import FAILURES, WholeStepError
from note_rl.learners.pytorch.step_graph.record import recorded
from note_rl.learners.pytorch.tensors import named_tensors, random_state, set_random_state
from note_rl.learners.pytorch.torch_internals import foreach_add_

_LARGEST = 30_000  # numbers that learn


@dataclass(frozen=True)
class WholeStep:
    """A gradient step in one call.

    Attributes:
        run: The program, of columns, hyperparameters and the numbers of each Adam.
        form: Of what it returns.
        followed: The optimizers whose step it takes, and what that changes.
        moves_targets: Whether it calls update_param(), too.
        is_random: Whether it draws random numbers.
    """

    run: Callable[..., list[Tensor]]
    form: Evaluated
    followed: Sequence[tuple[Adam, Slots]]
    moves_targets: bool
    is_random: bool

    def fits(self) -> bool:
        """Whether the optimizers, whose update block has begun, are as they were when it was made."""
        return all(adam.is_there(slots) and slots.alike is not None for adam, slots in self.followed)

    def __call__(self, values: Sequence[Tensor]) -> TakenStep:
        """Takes the step, unless a loss is not finite; `count` has to follow if it was taken.

        Raises:
            WholeStepError: The program has failed, after it may have changed something.
        """
        device = values[0].device
        random = random_state(device) if self.is_random else {}
        for adam, slots in self.followed:
            adam.announce(slots)
        numbers = [adam.numbers for adam, _ in self.followed]
        try:
            with torch.inference_mode(), FlushedSubnormals():
                given = unflattened(self.run(*values, *numbers), self.form)
        except FAILURES as error:
            set_random_state(device, random)
            raise WholeStepError(str(error)) from error
        return TakenStep(given.losses, given.td_error, given.ratio, given.reported)

    def count(self) -> None:
        """Hears that the step counts as one: its losses were finite, or nobody asks."""
        for adam, slots in self.followed:
            adam.count(slots)


class WholeSteps:
    """Makes whole steps of one agent.

    Args:
        eager: The way in which they are evaluated otherwise.
    """

    def __init__(self, eager: EagerWay) -> None:
        self._eager = eager
        self._agent = eager.agent
        self._undisturbed = eager.undisturbed

    def why_not(self, steppers: Sequence[Stepper], form: Evaluated) -> str:
        """Why the steps of these optimizers can be no part of the program; empty: now or after their first ones."""
        if not steppers:
            return "gradients are averaged over replicas before the optimizer's step"
        followed = [(one, kept) for one, (kept, _) in zip(steppers, form.directions, strict=True) if kept]
        num_learning = sum(parameter.numel() for stepper, _ in followed for parameter in stepper.parameters)
        if not num_learning:
            return "no parameter learns"
        if num_learning > _LARGEST:
            return f"of {num_learning:,} parameters, more than {_LARGEST:,}, the optimizer's step is as quick by torch"
        others = [type(stepper.optimizer).__name__ for stepper, kept in followed if not _suits(stepper, kept)]
        return f"the step of {', '.join(dict.fromkeys(others))} is not compiled" if others else ""

    def followed(self, steppers: Sequence[Stepper], form: Evaluated) -> list[tuple[Adam, Slots]] | None:
        """Returns the optimizers, which `suit`, with their slots; None before these are there."""
        found: list[tuple[Adam, Slots]] = []
        for stepper, (kept, _) in zip(steppers, form.directions, strict=True):
            if not kept:
                continue
            slots = None if stepper.adam is None else stepper.adam.slots(kept)
            if stepper.adam is None or slots is None:
                return None
            found.append((stepper.adam, slots))
        return found

    def can_move_targets(self) -> bool:
        """Whether update_param() does nothing but what a recording of it does: its very class declares so."""
        for kind in type(self._agent).__mro__:
            if "update_param" in vars(kind):
                return bool(vars(kind).get("traceable", False))
        return False

    def made(self, example: Example, followed: Sequence[tuple[Adam, Slots]], moves_targets: bool) -> WholeStep:
        """Records and compiles a step.

        Args:
            example: Of its minibatches.
            followed: The optimizers whose parameters change.
            moves_targets: Whether update_param() follows each such step.

        Raises:
            Exception: Of any kind: it cannot be recorded or compiled.
        """
        inputs = example.copied().values
        forms: list[Evaluated] = []
        everything = self._everything(followed)
        targets = self._targets(followed) if moves_targets else []

        def step(*values: Tensor) -> list[Tensor]:
            evaluated = self._eager.of_values(example, values[: len(inputs)])
            losses = [loss.detach() for loss in evaluated.losses if loss is not None]
            directions = [gradients for kept, gradients in evaluated.directions if kept]
            with torch.no_grad():
                sound = torch.isfinite(torch.stack(losses)).all()
                for (adam, slots), gradients, numbers in zip(followed, directions, values[len(inputs) :], strict=True):
                    adam_step(slots, gradients, numbers, adam.decoupled, sound)
                if targets:
                    self._move(targets, sound)
            forms.append(evaluated._replace(directions=[]))
            return flattened(forms[-1])

        all_inputs = [*inputs, *(adam.numbers for adam, _ in followed)]
        with self._undisturbed(everything):
            recording = recorded(step, everything, all_inputs)
        with self._undisturbed(everything):
            run = compiled(recording, all_inputs)
        return WholeStep(run, form_of(forms[-1]), followed, moves_targets, recording.is_random)

    def _everything(self, followed: Sequence[tuple[Adam, Slots]]) -> list[Tensor]:
        """Returns all tensors that a step may change."""
        slots = [
            tensor
            for _, of_adam in followed
            for tensor in (*of_adam.parameters, *of_adam.first, *of_adam.second, *of_adam.counters)
        ]
        tensors = [*(tensor for _, tensor in named_tensors(self._agent)), *slots]
        return list({id(tensor): tensor for tensor in tensors}.values())

    def _targets(self, followed: Sequence[tuple[Adam, Slots]]) -> list[Tensor]:
        """Returns the tensors that update_param() changes, found out by calling it after what learns has changed."""
        learning = [parameter for _, slots in followed for parameter in slots.parameters]
        ours = set(map(id, learning))
        others = [tensor for _, tensor in named_tensors(self._agent) if id(tensor) not in ours]
        with self._undisturbed([*learning, *others]), torch.no_grad():
            foreach_add_(learning, 1.0)
            before = [tensor.clone() for tensor in others]
            with self._eager.noting():
                self._agent.update_param()
            return [tensor for tensor, values in zip(others, before, strict=True) if not torch.equal(tensor, values)]

    def _move(self, targets: Sequence[Tensor], sound: Tensor) -> None:
        """Calls update_param(), and takes back what it did if the step was not sound."""
        before = [tensor.clone() for tensor in targets]
        self._agent.update_param()
        for tensor, values in zip(targets, before, strict=True):
            tensor.copy_(torch.where(sound, tensor, values))

    def check(self, whole: WholeStep, example: Example, steppers: Sequence[Stepper]) -> None:
        """Compares with the eager way, on another minibatch than the recorded one: all that it gives and changes.

        Raises:
            ValueError: They disagree.
        """

        def ordinary() -> Evaluated:
            evaluated = self._eager(example.another())
            for stepper, direction in zip(steppers, evaluated.directions, strict=True):
                stepper.follow(direction)
            if whole.moves_targets:
                with torch.no_grad():
                    self._agent.update_param()
            return evaluated

        adams = {id(adam) for adam, _ in whole.followed}
        with smooth_steps([stepper for stepper in steppers if id(stepper.adam) in adams]):
            expected = self._outcome(ordinary, whole.followed)
            found = self._outcome(lambda: whole(example.another().values), whole.followed)
        check_near(found, expected, 1e-3)

    def _outcome(
        self, step: Callable[[], Evaluated | TakenStep], followed: Sequence[tuple[Adam, Slots]]
    ) -> list[Tensor]:
        """Returns what a step gives and what it makes of all tensors; afterwards these are as they were."""
        everything = self._everything(followed)
        counters = {id(counter) for _, slots in followed for counter in slots.counters}
        with self._undisturbed(everything):
            given = step()
            told = Evaluated(given.losses, given.td_error, given.ratio, {}, [])
            changed = [tensor for tensor in everything if id(tensor) not in counters]
            return [tensor.detach().clone() for tensor in (*flattened(told), *changed)]


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
