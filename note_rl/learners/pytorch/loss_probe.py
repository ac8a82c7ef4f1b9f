"""Measurements of an agent's losses while nothing is learned: their values, gradients, and the noise of these."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from note_rl.learners.adjustable import Microbatches
from note_rl.learners.base import minibatches
from note_rl.learners.batch_noise_scale import NoiseMoments
from note_rl.learners.losses import Losses
from note_rl.learners.pytorch.modes import Modes
from note_rl.learners.pytorch.noise_probe import TorchNoiseMeter
from note_rl.learners.pytorch.tensors import as_array, as_tensors, as_vector, gradients_of
from note_rl.learners.pytorch.undisturbed import undisturbed
from note_rl.types import Array, FloatArray, Sample


class NoiseMeasurements:
    """Evaluates the losses of one agent, and puts back whatever that changes.

    Args:
        agent: Whose losses are evaluated.
        groups: Its parameters.
        losses: Of the agent.
        modes: Of its networks.
    """

    def __init__(self, agent: Any, groups: Sequence[Sequence[Tensor]], losses: Losses, modes: Modes) -> None:
        self._agent = agent
        self._groups = groups
        self._parameters = [parameter for group in groups for parameter in group]
        self._device = self._parameters[0].device
        self._losses = losses
        self._modes = modes
        self._noise = TorchNoiseMeter(self._to_measure)

    def undisturbed(self, among: Sequence[Tensor] | None = None) -> AbstractContextManager[list[Tensor]]:
        """Makes a context after which all is as it was; see `tensors.undisturbed`."""
        return undisturbed(self._agent, self._device, among)

    def losses_of(self, sample: Sample) -> FloatArray:
        """Returns the losses [K, G] of minibatches, in the modes in which they are trained."""
        with self.undisturbed(), self._modes.learning():
            return np.stack([as_array(torch.stack(self._losses_of(columns))) for columns in minibatches(sample)])

    def gradients_of(self, columns: Mapping[str, Array]) -> tuple[FloatArray, list[FloatArray]]:
        """Returns losses [G] of one minibatch, by name [b, ...], and their gradients along all parameters, [G, P]."""
        with self.undisturbed(), self._modes.judging():
            losses = self._losses_of(columns)
            gradients = [gradients_of(loss, self._parameters, keep=True) for loss in losses]
        return (
            as_array(torch.stack(losses)),
            [as_array(as_vector(of_loss, self._parameters)) for of_loss in gradients],
        )

    def noise_of(self, minibatch: Microbatches) -> list[NoiseMoments]:
        """Returns how much the gradients of each loss scatter, or of the sum that one optimizer follows."""
        minibatch = replace(minibatch, columns=as_tensors(minibatch.columns, self._device))
        groups = self._groups if self._losses.num_optimizers > 1 else [self._parameters]
        with self.undisturbed(self._noise.touches) as changed, self._modes.judging():
            moments = self._noise(minibatch, groups, vars(self._agent).values())
        self._noise.has_touched(changed)
        return moments

    def _losses_of(self, columns: Mapping[str, Array]) -> list[Tensor]:
        return self._losses.per_optimizer(self._to_measure(as_tensors(columns, self._device)))

    def _to_measure(self, batch: Mapping[str, Tensor]) -> list[Tensor]:
        """Returns one loss per optimizer, or one for all."""
        losses = self._losses.beside_training(batch)
        return losses if len(losses) == 1 else self._losses.per_optimizer(losses)
