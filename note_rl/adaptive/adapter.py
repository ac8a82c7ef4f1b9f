"""One number that is adapted, by which signals, and the laws that look at the experience itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan, sqrt
from typing import Any

import numpy as np

from note_rl.adaptive import ess
from note_rl.adaptive.controller import Controller, DecisionResult
from note_rl.adaptive.health import Health, skipped, worst
from note_rl.adaptive.hyperparameters import Hyperparameter
from note_rl.adaptive.signals.base import RunningSignal
from note_rl.adaptive.signals.gradient_noise import GradientNoise
from note_rl.adaptive.signals.priority_ess import PriorityEss
from note_rl.replay.experience import Experience
from note_rl.types import FloatArray

_STEP = 0.01  # of an exponent of priorities: a smaller one is not worth that all are worked out anew


@dataclass
class Adapter:
    """One number that is adapted.

    Attributes:
        hyperparameter: Where it lies.
        controller: Who decides.
        signals: By what.
        acts: Whether decisions are followed.
    """

    hyperparameter: Hyperparameter
    controller: Controller
    signals: Sequence[RunningSignal]
    acts: bool

    @property
    def moves(self) -> bool:
        """Whether the number can ever be another one than its schedule says."""
        return self.acts and not self.controller.is_static

    def decide(
        self, base: float, experience: Experience, kappa: float, target: float | None
    ) -> tuple[DecisionResult, Health]:
        """Decides, and tells by what.

        Args:
            base: Its current scheduled value.
            experience: What is trained from.
            kappa: Largest batch as a share of the effective number of transitions.
            target: Of its signal, where the caller has one of his own.
        """
        # the batch size is judged by its scheduled value, not by what it was changed to: nothing is to add up
        batch_size = base if self.controller.name == "batch_size" else experience.settings.batch_size
        healths = [signal.health(batch_size, self.hyperparameter.loss, target) for signal in self.signals]
        ruling = worst(healths) if healths else skipped("", "no signal")
        if self._solves_for_exponent:
            return self._solve_exponent(base, healths, experience), ruling
        if self._caps_batch:
            return self._cap_batch(base, experience, kappa, ruling)
        return self.controller.decide(base, ruling), ruling

    @property
    def _solves_for_exponent(self) -> bool:
        return self.controller.name == "alpha" and self.controller.how.law in (None, "solve")

    @property
    def _caps_batch(self) -> bool:
        """Only asked to, or where there is nothing that says how large a batch should be."""
        if self.controller.name != "batch_size":
            return False
        law = self.controller.how.law
        return law == "cap" or (law is None and not any(measured.signal.scales_with_batch for measured in self.signals))

    def _solve_exponent(self, base: float, healths: Sequence[Health], experience: Experience) -> DecisionResult:
        """Finds the exponent at which priorities have the wished effective size.

        Args:
            base: The scheduled exponent.
            healths: By all signals; the effective share and the noise of gradients count.
            experience: Whose priorities these are.
        """
        old = self.controller.value(base)
        share = next((health for health in healths if health.signal == PriorityEss.name), None)
        noises = [health for health in healths if health.signal == GradientNoise.name]
        # where there is a share, an unreliable noise is left out below; alone, it can say nothing
        needed = noises if share is None else [share]
        skip_reason = next((health.skip_reason for health in needed if health.skip_reason is not None), None)
        if skip_reason is not None:
            return DecisionResult(old, old, skip_reason)
        errors = _errors(experience)
        if not needed or not len(errors) or base <= 0.0:
            return DecisionResult(old, old, f"{old:g} stays")
        wished = ess.of_weights(errors**base).fraction if share is None else share.target
        for noise in noises:
            wished *= _share_left_by(noise)
        exponent = ess.exponent_for(errors, min(wished, 1.0))
        if abs(exponent - old) < _STEP:
            return DecisionResult(old, old, "deadband")
        # as good as the scheduled exponent is the scheduled exponent, to the bit
        return self.controller.decide_for(base, base if abs(exponent - base) < _STEP else exponent)

    def _cap_batch(
        self, base: float, experience: Experience, kappa: float, ruling: Health
    ) -> tuple[DecisionResult, Health]:
        """No larger than a share of the transitions that replay really draws: larger ones only draw them again."""
        old = self.controller.value(base)
        weights = experience.priorities()
        if weights is None or not len(weights):
            return DecisionResult(old, old, "no priorities"), ruling
        effective = ess.of_weights(weights)
        cap = kappa * effective.ess
        rungs = self.controller.rungs(base)
        fitting = max([rung for rung in rungs if rung <= cap], default=rungs[0])
        by_priorities = Health(PriorityEss.name, effective.fraction, target=nan, ratio=cap / base)
        return self.controller.decide_for(base, min(base * self.controller.how.scale, fitting)), by_priorities


def _share_left_by(noise: Health) -> float:
    """Returns the factor, up to 1, by which noise of gradients above its target makes the wished share smaller."""
    return min(sqrt(noise.ratio), 1.0) if noise.skip_reason is None else 1.0


def _errors(experience: Experience) -> FloatArray:
    """Returns the errors from which the priorities were made, [n], those above 0."""
    weights = experience.priorities()
    if weights is None:
        return np.empty(0)
    settings: Any = experience.settings
    buffer: Any = getattr(experience, "buffer", None)
    alpha = settings.priority.alpha if buffer is None else buffer.sampler.alpha  # with which these were made
    if alpha <= 0.0:  # all are alike
        return np.ones(len(weights))
    errors: FloatArray = np.power(weights.astype(np.float64), 1.0 / alpha)
    positive: FloatArray = errors[errors > 0.0]
    return positive
