"""Base of all signals that are effective sample sizes."""

from note_rl.adaptive.ess import kl_of_fraction
from note_rl.adaptive.signals.base import TINY, Signal


class EffectiveShare(Signal):
    """An effective sample size as a share of all samples, in (0, 1].

    Averaged as 1 + CV^2 of the weights, its reciprocal, which is a mean itself.
    """

    stands_for_kl = True

    def averaged(self, reading: float) -> float:
        """Returns 1 + CV^2."""
        return 1.0 / reading

    def from_average(self, mean: float) -> float:
        """Returns the share."""
        return 1.0 / mean

    def kl_ratio(self, value: float, target: float) -> float:
        """Returns the divergence that the target stands for over that of the value."""
        wished = min(target, 1.0 - TINY)  # a share that is met exactly has no divergence to speak of
        return kl_of_fraction(wished) / max(kl_of_fraction(min(value, 1.0)), TINY)
