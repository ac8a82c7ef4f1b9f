"""Acting without the framework where layers have factorised Gaussian noise (Fortunato et al. 2018), in NumPy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from note_rl.learners.numpy_memory import RecurrentActor
from note_rl.learners.numpy_policy import Activation, DenseLayer, activated, knows_activation, scale_of
from note_rl.learners.recurrence import State
from note_rl.types import Array, FloatArray

NOISE = "noise"
"""Name of the normal numbers [E, F] that answers are given from."""


class NoisyStage(Protocol):
    """A part of a network."""

    @property
    def num_noise(self) -> int:
        """Numbers that it takes for each observation."""

    @property
    def is_supported(self) -> bool:
        """Whether NumPy can do all of it."""

    def __call__(self, x: FloatArray, scaled: FloatArray) -> FloatArray:
        """Returns outputs [E, out] for inputs [E, in] and f(n) of normal numbers n [E, num_noise]."""


@dataclass(frozen=True)
class NoisyDenseLayer:
    """A dense layer, with deviations of its weights or without.

    Attributes:
        kernel: [in, out]
        bias: [out]
        activation: Its name.
        kernel_std, bias_std: Of the same shapes; None: it has no noise.
    """

    kernel: FloatArray
    bias: FloatArray
    activation: str
    kernel_std: FloatArray | None = None
    bias_std: FloatArray | None = None

    @property
    def num_noise(self) -> int:
        """See `NoisyStage`."""
        return 0 if self.kernel_std is None else sum(self.kernel.shape)

    @property
    def is_supported(self) -> bool:
        """See `NoisyStage`."""
        return knows_activation(self.activation)

    def __call__(self, x: FloatArray, scaled: FloatArray) -> FloatArray:
        """See `NoisyStage`."""
        y = x @ self.kernel
        y += self.bias
        if self.kernel_std is not None and self.bias_std is not None:
            num_inputs = len(self.kernel)
            noise = (x * scaled[:, :num_inputs]) @ self.kernel_std
            noise += self.bias_std
            noise *= scaled[:, num_inputs:]
            y += noise
        return activated(self.activation, y)


@dataclass(frozen=True)
class NoisyStreams:
    """The two streams of a dueling network behind their hidden layers, which come side by side.

    Attributes:
        value, advantage: Their layers.
        num_each: Numbers that stand for the return of an action.
    """

    value: NoisyDenseLayer
    advantage: NoisyDenseLayer
    num_each: int

    @property
    def num_noise(self) -> int:
        """See `NoisyStage`."""
        return self.value.num_noise + self.advantage.num_noise

    @property
    def is_supported(self) -> bool:
        """See `NoisyStage`."""
        return self.value.is_supported and self.advantage.is_supported

    def __call__(self, x: FloatArray, scaled: FloatArray) -> FloatArray:
        """See `NoisyStage`."""
        width, of_value = len(self.value.kernel), self.value.num_noise
        value = self.value(x[:, :width], scaled[:, :of_value])
        advantage = self.advantage(x[:, width:], scaled[:, of_value:]).reshape(len(x), -1, self.num_each)
        advantage -= advantage.mean(axis=1, keepdims=True)
        advantage += value[:, None]
        return advantage.reshape(len(x), -1)


@dataclass(frozen=True)
class NoisyActing:
    """Parts of noisy_action(s, noise) of an agent.

    Attributes:
        stages: Of its network.
        output: Makes answers of the last outputs; None: they are the answers.
    """

    stages: Sequence[NoisyStage]
    output: Activation | None = None

    @property
    def is_supported(self) -> bool:
        """Whether NumPy can do all of it."""
        return all(stage.is_supported for stage in self.stages)

    @property
    def scale(self) -> float:
        """See `ActingFrom`."""
        return scale_of(self.output)

    @property
    def first_layers(self) -> Sequence[DenseLayer]:
        """See `ActingFrom`."""
        first = self.stages[0]
        return [(first.kernel, first.bias, first.activation)] if isinstance(first, NoisyDenseLayer) else ()

    def __call__(self, obs: Array, before: State) -> tuple[FloatArray, State]:
        """Returns answers [E, ...] to observations and `NOISE`, and nothing behind them."""
        x, normal, first = obs.reshape(len(obs), -1), before[NOISE], 0
        scaled = np.copysign(np.sqrt(np.abs(normal)), normal)
        for stage in self.stages:
            last = first + stage.num_noise
            x, first = stage(x, scaled[:, first:last]), last
        return (x if self.output is None else self.output(x)), {}


class NoisyActor(RecurrentActor):
    """Answers of an agent that explores by noise, from `NOISE` in place of a state."""

    methods = ("noisy_action", "noisy_acting")


def noisy_stages_of(network: Any, output_activation: str | None = None) -> list[NoisyStage] | None:
    """Returns the parts of a network, as its `noisy_stages(activation)` lists them; None: it has no such list.

    Args:
        network: Of any kind.
        output_activation: Behind its linear outputs; None: nothing.
    """
    show = getattr(network, "noisy_stages", None)
    stages: list[NoisyStage] | None = None if show is None else show(output_activation or "linear")
    return stages
