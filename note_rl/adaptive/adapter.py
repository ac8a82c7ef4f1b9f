"""One number that is adapted, by which signals, and the laws that look at the experience itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan, sqrt
from typing import Any

import numpy as np

from note_rl.adaptive import ess
from note_rl.adaptive.controller import Controller, DecisionResult
from note_rl.adaptive.hyperparameters import Hyperparameter
from note_rl.adaptive.measurements import NOISE, Signal
from note_rl.adaptive.signals import Health, NoiseSignal, worst
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
    signals: Sequence[Signal]
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
            base: Its scheduled value by now.
            experience: What is trained from.
            kappa: Largest batch as a share of the effective number of transitions.
            target: Of its signal, where the caller has one of his own.
        """
        batch = base if self.controller.name == "batch_size" else experience.settings.batch_size
        found = [self._health(signal, batch, target) for signal in self.signals]
        health = worst(found) if found else Health("", nan, nan, nan, skip_reason="no signal")
        name, law = self.controller.name, self.controller.how.law
        if name == "alpha" and law in (None, "solve"):
            return self._solved(base, found, experience), health
        by_noise = any(one.signal == NOISE for one in found)
        if name == "batch_size" and (law == "cap" or (law is None and not by_noise)):
            return self._capped(base, experience, kappa, health)
        return self.controller.decide(base, health), health

    def _health(self, signal: Signal, batch: float, target: float | None) -> Health:
        """By one signal; the batch goes by its scheduled size, not by what it was changed to."""
        if isinstance(signal, NoiseSignal):
            return signal.health(batch, self.hyperparameter.loss, target)
        return signal.health(target)

    def _solved(self, base: float, healths: Sequence[Health], experience: Experience) -> DecisionResult:
        """The exponent at which priorities have the wished effective size, which noise of gradients makes smaller.

        Without a wish it is the one that the scheduled exponent gives.
        """
        old, errors = self.controller.value(base), _errors(experience)
        shares = [one for one in healths if one.signal == "priority_ess"]
        noises = [one for one in healths if one.signal == NOISE]
        skip_reason = next((one.skip_reason for one in shares or noises if one.skip_reason is not None), None)
        if skip_reason is not None or not len(errors) or base <= 0.0 or not (shares or noises):
            return DecisionResult(old, old, skip_reason or f"{old:g} stays")
        fraction = shares[0].target if shares else ess.of_weights(errors**base).fraction
        for noise in noises:
            fraction *= min(sqrt(noise.q), 1.0) if noise.skip_reason is None else 1.0
        wanted = ess.exponent_for(errors, min(fraction, 1.0))
        if abs(wanted - old) < _STEP:
            return DecisionResult(old, old, "deadband")
        return self.controller.decide_for(base, base if abs(wanted - base) < _STEP else wanted)

    def _capped(
        self, base: float, experience: Experience, kappa: float, health: Health
    ) -> tuple[DecisionResult, Health]:
        """No larger than a share of the transitions that replay really draws: larger ones only draw them again."""
        old, weights = self.controller.value(base), experience.priorities()
        if weights is None or not len(weights):
            return DecisionResult(old, old, "no priorities"), health
        effective = ess.of_weights(weights)
        cap = kappa * effective.ess
        rungs = self.controller.rungs(base)
        fitting = max([rung for rung in rungs if rung <= cap], default=rungs[0])
        seen = Health("priority_ess", effective.fraction, nan, cap / base)
        return self.controller.decide_for(base, min(base * self.controller.how.scale, fitting)), seen


def _errors(experience: Experience) -> FloatArray:
    """From which the priorities were made, [n], those above 0."""
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
