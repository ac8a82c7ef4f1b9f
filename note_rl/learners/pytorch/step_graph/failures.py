"""Steps that fail while they are repeated: the eager way takes them, from where they began."""

from collections.abc import Sequence

import torch
from torch import Tensor

from note_rl.learners.pytorch.step_graph.record import Recording
from note_rl.learners.pytorch.tensors import random_state, set_random_state

FAILURES = (RuntimeError, LookupError, TypeError, ValueError)
"""What kernels raise, and their bindings."""


class ReplayError(Exception):
    """A recorded step could not be repeated; all is as it was before."""


class WholeStepError(Exception):
    """A program that takes a step as a whole has failed within it: what it had changed by then stays changed."""


class Beginning:
    """What a recorded step may change, as it is now.

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
