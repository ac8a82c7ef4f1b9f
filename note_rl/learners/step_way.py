"""Which way gradient steps are taken, and why not a quicker one."""

from dataclasses import dataclass
from typing import Literal

Way = Literal["eager", "replayed", "traced", "compiled", "whole"]


@dataclass(frozen=True)
class StepWay:
    """The way in which an agent's gradient steps are taken now.

    Attributes:
        way: eager: `__call__`, gradients and optimizer run in Python, operation by operation. replayed (PyTorch): the
            operations of loss and gradients come from a recording. traced (Keras): all of a step is one graph of
            TensorFlow. compiled (PyTorch): loss and gradients are compiled code. whole: all of a step is compiled code,
            the optimizer's part included.
        reason: Why no quicker way is taken; empty: there is none.
    """

    way: Way
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.way}: {self.reason}" if self.reason else self.way


NONE_TAKEN = StepWay("eager", "no gradient step was taken yet")
