"""What a stochastic policy does in each state of a batch, in PyTorch: how likely actions are, how policies differ."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

from torch import Tensor

_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)


class Distribution(ABC):
    """What is done in each of B states."""

    @abstractmethod
    def log_prob(self, a: Tensor) -> Tensor:
        """Returns the log-probabilities [B] of actions a, one for each state."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """[B]."""

    @abstractmethod
    def detached(self) -> Self:
        """The same, from which no gradient goes back, and which parameters that change do not reach."""

    @abstractmethod
    def kl(self, other: Self) -> Tensor:
        """KL(self || other) [B]."""


@dataclass(frozen=True)
class Categorical(Distribution):
    """One of A actions, by log-probabilities [B, A]."""

    log_probs: Tensor

    def log_prob(self, a: Tensor) -> Tensor:
        """See `Distribution`."""
        return self.log_probs.gather(1, a[:, None]).squeeze(1)

    def entropy(self) -> Tensor:
        """See `Distribution`."""
        return -(self.log_probs.exp() * self.log_probs).sum(-1)

    def detached(self) -> Self:
        """See `Distribution`."""
        return type(self)(self.log_probs.detach())

    def kl(self, other: Self) -> Tensor:
        """See `Distribution.kl`: the sum over actions of p (log p - log q)."""
        return (self.log_probs.exp() * (self.log_probs - other.log_probs)).sum(-1)


@dataclass(frozen=True)
class DiagonalGaussian(Distribution):
    """Vectors of A independent normal numbers, by mean [B, A] and log deviation [A] or [B, A]."""

    mean: Tensor
    log_std: Tensor

    def log_prob(self, a: Tensor) -> Tensor:
        """See `Distribution`."""
        distance = (a - self.mean) * (-self.log_std).exp()
        return (-0.5 * distance.square() - self.log_std - _LOG_ROOT_2PI).sum(-1)

    def entropy(self) -> Tensor:
        """See `Distribution`."""
        return (self.log_std + _LOG_ROOT_2PI + 0.5).expand_as(self.mean).sum(-1)

    def detached(self) -> Self:
        """See `Distribution`."""
        return type(self)(self.mean.detach(), self.log_std.detach().clone())

    def kl(self, other: Self) -> Tensor:
        """See `Distribution.kl`: the sum of log(q/p) + (p^2 + distance^2) / 2 q^2 - 1/2 with deviations p and q."""
        ratio = self.log_std - other.log_std
        distance = (self.mean - other.mean) * (-other.log_std).exp()
        return (0.5 * (2.0 * ratio).exp() + 0.5 * distance.square() - ratio - 0.5).sum(-1)
