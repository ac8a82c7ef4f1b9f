"""A gradient step as one program, which says what it includes: gradients, optimizers' steps, targets that follow."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor

from note_rl.learners.pytorch.adam import PlainAdam, Slots
from note_rl.learners.pytorch.optimizer_step import FlushedSubnormals
from note_rl.learners.pytorch.step_graph.record import Recording
from note_rl.learners.pytorch.step_graph.replay_failures import FAILURES, Beginning, StepError, in_short
from note_rl.learners.pytorch.step_result import Evaluated, unflattened
from note_rl.learners.step_way import StepWay, Way


@dataclass(frozen=True)
class Includes:
    """Work of a program besides losses and gradients, which are clipped where that is asked for.

    Attributes:
        optimizers: Whose steps it takes, and what these change.
        targets: Whether it calls update_param(), too.
    """

    optimizers: Sequence[tuple[PlainAdam, Slots]] = ()
    targets: bool = False

    @property
    def numbers(self) -> list[Tensor]:
        """Further inputs: of each Adam, what the step to come depends on."""
        return [adam.numbers for adam, _ in self.optimizers]

    @property
    def slots(self) -> list[Tensor]:
        """The tensors that the optimizers change."""
        kept = [slots for _, slots in self.optimizers]
        return [one for own in kept for one in (*own.parameters, *own.first, *own.second, *own.counters)]

    def fit(self) -> bool:
        """Whether the optimizers, whose update block has begun, are as they were when the program was made."""
        return all(adam.is_there(slots) and slots.alike is not None for adam, slots in self.optimizers)

    def count(self) -> None:
        """Notes that the step counts: its losses were finite, or were not checked."""
        for adam, slots in self.optimizers:
            adam.count(slots)


@dataclass(frozen=True)
class Program:
    """A recorded step as a function of the columns of a minibatch and the hyperparameters.

    Attributes:
        run: Replays the recording call by call, or is compiled code. Takes the numbers of each Adam, too.
        form: Of what it returns; only where there is something matters, not what.
        recording: What it was made from.
        includes: What it does besides losses and gradients.
        is_compiled: Whether it is compiled code.
        is_captured: Whether `run` is a CUDA graph, which overwrites the gradients that it gave before.
    """

    run: Callable[..., list[Tensor]]
    form: Evaluated
    recording: Recording
    includes: Includes = Includes()
    is_compiled: bool = False
    is_captured: bool = False

    @property
    def stage(self) -> int:
        """1 replayed, 2 compiled, 3 with the target update."""
        return 1 + self.is_compiled + self.includes.targets

    @property
    def way(self) -> Way:
        """The way in which it takes a step."""
        if self.includes.optimizers:
            return Way.WHOLE
        if self.is_captured:
            return Way.CAPTURED
        return Way.COMPILED if self.is_compiled else Way.REPLAYED

    def __call__(self, values: Sequence[Tensor], quick: bool) -> Evaluated:
        """Returns what a minibatch gives, without directions if these were followed: only if losses were finite.

        Args:
            values: Columns and hyperparameters.
            quick: Whether only kernels see the answer, which then never mixes with what autograd knows.

        Raises:
            StepError: It has failed.
        """
        followed = bool(self.includes.optimizers)
        beginning = Beginning(self.recording, values)
        for adam, slots in self.includes.optimizers:
            adam.announce(slots)
        try:
            with (
                torch.inference_mode() if quick or followed else torch.no_grad(),
                FlushedSubnormals() if followed else nullcontext(),
            ):
                given = self.run(*values, *self.includes.numbers)
                if self.is_captured and not quick:  # others than our kernels might keep the gradients
                    given = [tensor.clone() for tensor in given]
                return unflattened(given, self.form)
        except FAILURES as error:
            beginning.put_back()
            raise StepError(in_short(error), spoiled=followed) from error


@dataclass
class Trace:
    """How the steps of one kind of minibatch are taken.

    Attributes:
        replayed: Replays losses and gradients.
        program: The quickest there is.
        why_not_quicker: Why there is none that is quicker.
        why_not_captured: Why the replay is no CUDA graph; empty: it is, or parameters are on the CPU.
        targets_stay: Whether targets are not updated after some of these steps.
    """

    replayed: Program
    program: Program = field(init=False)
    why_not_quicker: str = ""
    why_not_captured: str = ""
    targets_stay: bool = False

    def __post_init__(self) -> None:
        self.program = self.replayed

    @property
    def way(self) -> StepWay:
        """The way in which such steps are taken."""
        return StepWay(self.program.way, self.why_not_quicker)
