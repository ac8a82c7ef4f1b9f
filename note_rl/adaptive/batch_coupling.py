"""Optimizer numbers that follow the batch size, so that optimizers go as far and remember as long as before."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from note_rl.adaptive.hyperparameters import OptimizerHyperparameter, Places
from note_rl.learners.adjustable import LEARNING_RATE

_ADAM_GAIN = 0.5  # of learning rates, where the optimizer divides gradients by their own size


@dataclass
class BatchCoupling:
    """The numbers of optimizers that follow the batch size.

    Attributes:
        hyperparameters: By name; empty: the batch goes alone.
        noise: The gradient noise scale when the batch last changed; nan: unknown.
    """

    hyperparameters: dict[str, OptimizerHyperparameter] = field(default_factory=dict)
    noise: float = math.nan

    def bind(self, place: Places) -> None:
        """Finds them."""
        for index, optimizer in enumerate(place.numbers()):
            for number in (LEARNING_RATE, "beta2"):
                if number in optimizer.values:
                    hyperparameter = OptimizerHyperparameter(number, index, place.numbers)
                    self.hyperparameters.setdefault(hyperparameter.name, hyperparameter)

    def values(self, used: Mapping[str, float], base_batch: float, scheduled: Mapping[str, float]) -> dict[str, float]:
        """Returns what they are to be in the phase to come.

        Args:
            used: All values that were decided for it, the batch size among them.
            base_batch: The batch size without adaptation, which their own values were chosen for.
            scheduled: What the schedules tell the learner.
        """
        batch = used["batch_size"]
        values = {}
        for name, hyperparameter in self.hyperparameters.items():
            value = used.get(name, hyperparameter.base(scheduled))
            if batch != base_batch and hyperparameter.number == "beta2":
                # forgets as many samples ago as before (Hilton et al. 2022, https://arxiv.org/abs/2110.00641)
                value = math.pow(value, batch / base_batch)
            elif batch != base_batch and math.isfinite(self.noise):
                gain = _ADAM_GAIN if hyperparameter.default_gain is None else hyperparameter.default_gain
                value *= math.pow(self._step_factor(base_batch, batch), gain)
            values[name] = value
        return values

    def _step_factor(self, base_batch: float, batch: float) -> float:
        """How much longer a step may be (McCandlish et al. 2018, eq. 2.6)."""
        return (1.0 + self.noise / base_batch) / (1.0 + self.noise / batch)
