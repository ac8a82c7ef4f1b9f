"""Measurements of an agent's losses while nothing is learned: their values, gradients, and the noise of these."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from note_rl.learners.adjustable import Microbatches
from note_rl.learners.base import minibatches
from note_rl.learners.batch_noise_scale import NoiseMoments
from note_rl.learners.keras.modes import Modes
from note_rl.learners.keras.noise_probe import KerasNoiseMeter
from note_rl.learners.keras.variables import as_array, as_vector, constants, undisturbed
from note_rl.learners.keras.xla import Compilation
from note_rl.learners.losses import Losses
from note_rl.types import Array, FloatArray, Sample


class NoiseMeasurements:
    """Evaluates the losses of one agent eagerly, so that errors are plain ones, and puts back whatever that changes.

    Args:
        agent: Whose losses are evaluated.
        groups: Its parameters.
        losses: Of the agent.
        modes: Of its networks.
    """

    def __init__(self, agent: Any, groups: Sequence[Sequence[Any]], losses: Losses, modes: Modes) -> None:
        self._agent = agent
        self._groups = groups
        self._parameters = [parameter for group in groups for parameter in group]
        self._losses = losses
        self._modes = modes
        self._noise: Any = None

    def undisturbed(self, among: Sequence[Any] | None = None) -> AbstractContextManager[list[Any]]:
        """Makes a context after which all is as it was; see `variables.undisturbed`."""
        return undisturbed(self._agent, among)

    def losses_of(self, sample: Sample) -> FloatArray:
        """Returns the losses [K, G] of minibatches, in the modes in which they are trained."""
        with self.undisturbed(), self._modes.learning():
            return np.stack([as_array(tf.stack(self._losses_of(columns))) for columns in minibatches(sample)])

    def gradients_of(self, columns: Mapping[str, Array]) -> tuple[FloatArray, list[FloatArray]]:
        """Returns losses [G] of one minibatch, by name [b, ...], and their gradients along all parameters, [G, P]."""
        with self.undisturbed(), self._modes.judging(), tf.GradientTape(persistent=True) as tape:
            losses = self._losses_of(columns)
        gradients = [tape.gradient(loss, self._parameters) for loss in losses]
        return as_array(tf.stack(losses)), [as_array(as_vector(of_loss, self._parameters)) for of_loss in gradients]

    def compile_noise(self, compilation: Compilation) -> None:
        """Measures noise by functions that are traced anew, and compiled as the update is."""
        self._noise = KerasNoiseMeter(self._to_measure, compilation)

    def noise_of(self, minibatch: Microbatches) -> list[NoiseMoments]:
        """Returns how much the gradients of each loss scatter, or of the sum that one optimizer follows."""
        minibatch = replace(minibatch, columns=constants(minibatch.columns))
        groups = self._groups if self._losses.num_optimizers > 1 else [self._parameters]
        with self.undisturbed(self._noise.touches) as changed, self._modes.judging():
            moments: list[NoiseMoments] = self._noise(minibatch, groups, list(vars(self._agent).values()))
        self._noise.has_touched(changed)
        return moments

    def _losses_of(self, columns: Mapping[str, Array]) -> list[Any]:
        return self._losses.per_optimizer(self._losses.beside_training(constants(columns)))

    def _to_measure(self, batch: Mapping[str, Any]) -> list[Any]:
        """Returns one loss per optimizer, or one for all."""
        losses = self._losses.beside_training(batch)
        return losses if len(losses) == 1 else self._losses.per_optimizer(losses)
