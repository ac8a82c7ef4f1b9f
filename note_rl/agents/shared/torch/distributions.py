"""Distributions of actions in each state of a batch, in PyTorch: log-probabilities, entropy and KL divergence."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)


class Distribution(ABC):
    """Distribution of the action in each of B states."""

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
class MultiCategorical(Distribution):
    """Several independent choices at once: log-probabilities and divergences are sums over them."""

    parts: tuple[Categorical, ...]

    def log_prob(self, a: Tensor) -> Tensor:
        """See `Distribution`; a [B, D] has one number per part."""
        return torch.stack([part.log_prob(a[:, index]) for index, part in enumerate(self.parts)]).sum(0)

    def entropy(self) -> Tensor:
        """See `Distribution`."""
        return torch.stack([part.entropy() for part in self.parts]).sum(0)

    def detached(self) -> Self:
        """See `Distribution`."""
        return type(self)(tuple(part.detached() for part in self.parts))

    def kl(self, other: Self) -> Tensor:
        """See `Distribution`."""
        pairs = zip(self.parts, other.parts, strict=True)
        return torch.stack([mine.kl(theirs) for mine, theirs in pairs]).sum(0)


@dataclass(frozen=True)
class Bernoulli(Distribution):
    """Several independent numbers that are 1 or 0, by log-odds [B, D] of 1."""

    logits: Tensor

    def log_prob(self, a: Tensor) -> Tensor:
        """See `Distribution`: log p where a is 1, log(1 - p) = log p - logit where it is 0."""
        return (logsigmoid(self.logits) - (1.0 - a) * self.logits).sum(-1)

    def entropy(self) -> Tensor:
        """See `Distribution`: the sum of (1 - p) logit - log p."""
        return ((1.0 - self.logits.sigmoid()) * self.logits - logsigmoid(self.logits)).sum(-1)

    def detached(self) -> Self:
        """See `Distribution`."""
        return type(self)(self.logits.detach())

    def kl(self, other: Self) -> Tensor:
        """See `Distribution`: the sum of log p - log q - (1 - p) (logit p - logit q)."""
        off = 1.0 - self.logits.sigmoid()
        difference = self.logits - other.logits
        return (logsigmoid(self.logits) - logsigmoid(other.logits) - off * difference).sum(-1)


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
