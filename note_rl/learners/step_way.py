"""Which way gradient steps are taken, and why not a quicker one."""

from dataclasses import dataclass
from enum import StrEnum


class Way(StrEnum):
    """The ways to take a gradient step, from the slowest to the quickest."""

    EAGER = "eager"
    """Loss, gradients and optimizer run in Python, operation by operation."""
    REPLAYED = "replayed"
    """PyTorch: the operations of loss and gradients come from a recording."""
    CAPTURED = "captured"
    """PyTorch on a GPU: the recorded operations are one CUDA graph."""
    TRACED = "traced"
    """Keras: all of a step is one graph of TensorFlow."""
    COMPILED = "compiled"
    """PyTorch: loss and gradients are a compiled program."""
    WHOLE = "whole"
    """All of a step is a compiled program, the optimizer's part included."""


@dataclass(frozen=True)
class StepWay:
    """The way in which an agent's gradient steps are taken now.

    Attributes:
        way: Which one.
        reason: Why no quicker way is taken; empty: there is none.
    """

    way: Way
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.way}: {self.reason}" if self.reason else self.way.value


NONE_TAKEN = StepWay(Way.EAGER, "no gradient step was taken yet")
