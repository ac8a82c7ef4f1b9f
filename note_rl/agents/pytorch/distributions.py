"""What a stochastic policy does in each state of a batch, in PyTorch: how likely actions are, how policies differ."""

import math
from dataclasses import dataclass

from torch import Tensor

_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Categorical:
    """One of A actions, by log-probabilities [B, A]."""

    log_probs: Tensor

    def log_prob(self, a: Tensor) -> Tensor:
        """Log-probabilities [B] of actions a, one for each state."""
        return self.log_probs.gather(1, a[:, None]).squeeze(1)

    def entropy(self) -> Tensor:
        """[B]."""
        return -(self.log_probs.exp() * self.log_probs).sum(-1)

    def detached(self) -> "Categorical":
        """The same numbers, from which no gradient goes back."""
        return Categorical(self.log_probs.detach())

    def kl(self, other: "Categorical") -> Tensor:
        """KL(self || other) [B], the sum over actions of p (log p - log q)."""
        return (self.log_probs.exp() * (self.log_probs - other.log_probs)).sum(-1)


@dataclass(frozen=True)
class DiagonalGaussian:
    """Vectors of A independent normal numbers, by mean [B, A] and log deviation [A] or [B, A]."""

    mean: Tensor
    log_std: Tensor

    def log_prob(self, a: Tensor) -> Tensor:
        """Log-probabilities [B] of actions a, one for each state."""
        distance = (a - self.mean) * (-self.log_std).exp()
        return (-0.5 * distance.square() - self.log_std - _LOG_ROOT_2PI).sum(-1)

    def entropy(self) -> Tensor:
        """[B]."""
        return (self.log_std + _LOG_ROOT_2PI + 0.5).expand_as(self.mean).sum(-1)

    def detached(self) -> "DiagonalGaussian":
        """A copy, from which no gradient goes back, and which parameters that change do not reach."""
        return DiagonalGaussian(self.mean.detach(), self.log_std.detach().clone())

    def kl(self, other: "DiagonalGaussian") -> Tensor:
        """KL(self || other) [B], the sum of log(q/p) + (p^2 + distance^2) / 2 q^2 - 1/2 with deviations p and q."""
        ratio = self.log_std - other.log_std
        distance = (self.mean - other.mean) * (-other.log_std).exp()
        return (0.5 * (2.0 * ratio).exp() + 0.5 * distance.square() - ratio - 0.5).sum(-1)
