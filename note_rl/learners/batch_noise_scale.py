"""The gradient noise scale (McCandlish et al. 2018, https://arxiv.org/abs/1812.06162, appendix A.1).

With g the gradient of one sample, G its mean and Sigma its covariance, B_simple = tr(Sigma) / |G|^2 is the batch size
at which noise and signal are equal. A loss that is multiplied by a number has the same B_simple, while the variance of
its gradient grows with the square.
"""

from dataclasses import dataclass

import numpy as np

from note_rl.types import FloatArray


@dataclass(frozen=True)
class NoiseMoments:
    """One measurement, both parts unbiased.

    Attributes:
        variance: S, of the trace of the covariance of the gradient of one sample.
        squared_norm: G2, of the squared norm of the mean gradient; may be below 0.
    """

    variance: float
    squared_norm: float

    def agrees_with(self, other: "NoiseMoments") -> bool:
        """Whether both are the same but for rounding."""
        tolerance = 1e-3 * (abs(self.variance) + abs(self.squared_norm)) + 1e-12
        return (
            abs(self.variance - other.variance) <= tolerance
            and abs(self.squared_norm - other.squared_norm) <= tolerance
        )


def of_norms(small: float, big: float, num_small: int, num_big: int) -> NoiseMoments:
    """From squared norms of mean gradients of the same samples, in parts and together.

    Args:
        small: Mean of |G_b|^2 over parts of b samples each.
        big: |G_B|^2 of all of them together.
        num_small: b.
        num_big: B = K b, more than b.
    """
    return NoiseMoments(
        (small - big) / (1.0 / num_small - 1.0 / num_big),
        (num_big * big - num_small * small) / (num_big - num_small),
    )


def of_microbatches(gradients: FloatArray, num_small: int) -> NoiseMoments:
    """From the mean gradients of K >= 2 parts of a minibatch. With num_small = 1 these are those of single samples.

    Args:
        gradients: [K, P].
        num_small: Samples in each part.
    """
    small = float(np.mean(np.square(gradients).sum(axis=1)))
    big = float(np.square(gradients.mean(axis=0)).sum())
    return of_norms(small, big, num_small, num_small * len(gradients))
