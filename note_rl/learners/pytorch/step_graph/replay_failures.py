"""Recorded steps that fail are taken eagerly, from where they began."""

import textwrap
from collections.abc import Sequence

import torch
from torch import Tensor

from note_rl.learners.pytorch.step_graph.record import Recording
from note_rl.learners.pytorch.tensors import random_state, set_random_state

FAILURES = (RuntimeError, LookupError, TypeError, ValueError)
"""Errors that kernels and their bindings raise."""


class StepError(RuntimeError):
    """A recorded step has failed.

    Attributes:
        spoiled: Whether numbers that learn may be anything now; else all is as it was before.
    """

    def __init__(self, reason: str, spoiled: bool) -> None:
        super().__init__(reason)
        self.spoiled = spoiled


def in_short(error: Exception) -> str:
    """The text of an error, on one line."""
    return textwrap.shorten(str(error), 200, placeholder="...") or type(error).__name__


class Beginning:
    """Everything that a recorded step may change, as it is now.

    Args:
        recording: Of the step.
        inputs: Which it is given.
    """

    def __init__(self, recording: Recording, inputs: Sequence[Tensor]) -> None:
        self._device = inputs[0].device
        self._random = random_state(self._device) if recording.is_random else {}
        tensors = [*recording.captured, *inputs] if recording.written else []
        self._tensors = [(tensors[index], tensors[index].detach().clone()) for index in recording.written]

    def put_back(self) -> None:
        """Makes it so again."""
        set_random_state(self._device, self._random)
        with torch.no_grad():
            for tensor, values in self._tensors:
                tensor.copy_(values)
