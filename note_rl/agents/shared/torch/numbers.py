"""How a network's outputs are read where actions are numbers, in PyTorch."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from note_rl.agents.shared.pushes import check_shows_hidden, layers_with_pushes
from note_rl.agents.shared.torch.distributions import DiagonalGaussian
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of, with_constant_outputs
from note_rl.policy.state_dependent import SMALLEST_VARIANCE
from note_rl.settings import GSDE

_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)


class Numbers(ABC):
    """One way of spreading actions around their means; `log_std` is learned."""

    @abstractmethod
    def start(self, network: nn.Module, num_actions: int, initial: float) -> Tensor:
        """Returns log_std at the start, all of it `initial`, for a network of the means."""

    @abstractmethod
    def network(self, network: nn.Module) -> nn.Module:
        """Returns what gives the outputs that are read here, made of a network of the means."""

    @abstractmethod
    def answers(self, outputs: Tensor, log_std: Tensor) -> Tensor:
        """Returns what action() gives to the policy for outputs [B, O]."""

    @abstractmethod
    def distribution(self, outputs: Tensor, log_std: Tensor) -> DiagonalGaussian:
        """Returns the distribution that outputs [B, O] stand for."""

    @abstractmethod
    def log_prob_and_entropy(self, outputs: Tensor, log_std: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
        """Returns log-densities of actions [B, A], and entropies, [B] each."""

    @abstractmethod
    def layers(self, network: nn.Module, log_std: Tensor) -> list[DenseLayer] | None:
        """Returns the layers of a network for acting in NumPy, if it has dense ones alone.

        Args:
            network: From `network()`, or a network of the means.
            log_std: The log deviations.
        """


@dataclass(frozen=True)
class SameEverywhere(Numbers):
    """Log deviations [A] are the same in all states; outputs are means [B, A], answers [B, 2A]."""

    def start(self, network: nn.Module, num_actions: int, initial: float) -> Tensor:
        """See `Numbers`: [A]."""
        return torch.full((num_actions,), float(initial))

    def network(self, network: nn.Module) -> nn.Module:
        """See `Numbers`: the network itself."""
        return network

    def answers(self, outputs: Tensor, log_std: Tensor) -> Tensor:
        """See `Numbers`: means, then log deviations."""
        return torch.cat([outputs, log_std.expand_as(outputs)], dim=-1)

    def distribution(self, outputs: Tensor, log_std: Tensor) -> DiagonalGaussian:
        """See `Numbers`."""
        return DiagonalGaussian(outputs, log_std)

    def log_prob_and_entropy(self, outputs: Tensor, log_std: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
        """See `Numbers`."""
        log_normal = -0.5 * ((a - outputs) * (-log_std).exp()).square() - log_std - _LOG_ROOT_2PI  # [B, A]
        entropy = (log_std + _LOG_ROOT_2PI + 0.5).sum()
        return log_normal.sum(-1), entropy.expand(len(a))

    def layers(self, network: nn.Module, log_std: Tensor) -> list[DenseLayer] | None:
        """See `Numbers`."""
        layers = dense_layers_of(network)
        return None if layers is None else with_constant_outputs(layers, log_std.detach().cpu().numpy())


@dataclass(frozen=True)
class ByState(Numbers):
    """gSDE: outputs are means [B, A] and features [B, F], answers means and pushes [B, A + A*F].

    See `note_rl.policy.state_dependent`. log_std is [F, A], or [F, 1] without `full_std`.
    """

    num_actions: int
    settings: GSDE

    def start(self, network: nn.Module, num_actions: int, initial: float) -> Tensor:
        """See `Numbers`."""
        check_shows_hidden(network)
        num_features = cast(nn.Linear, network.output_layer).in_features
        return torch.full((num_features, num_actions if self.settings.full_std else 1), float(initial))

    def network(self, network: nn.Module) -> nn.Module:
        """See `Numbers`: one that gives both."""
        return WithFeatures(network)

    def deviations(self, log_std: Tensor) -> Tensor:
        """Of the noise matrix, [F, A] or [F, 1]; the branch of expln that is not taken has finite slopes."""
        if not self.settings.use_expln:
            return log_std.exp()
        return torch.where(log_std > 0.0, log_std.clamp(min=0.0).log1p() + 1.0, log_std.clamp(max=0.0).exp())

    def _split(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        mean, features = outputs[:, : self.num_actions], outputs[:, self.num_actions :]
        limit = self.settings.clip_mean
        return mean if limit is None else mean.clamp(-limit, limit), features

    def answers(self, outputs: Tensor, log_std: Tensor) -> Tensor:
        """See `Numbers`."""
        mean, features = self._split(outputs)
        deviations = self.deviations(log_std).expand(-1, self.num_actions)
        pushes = features[:, None, :] * deviations.T  # [B, A, F]
        return torch.cat([mean, pushes.flatten(1)], dim=-1)

    def distribution(self, outputs: Tensor, log_std: Tensor) -> DiagonalGaussian:
        """See `Numbers`: in one state the sum of F normal numbers with deviations feature * sigma, plus the mean."""
        mean, features = self._split(outputs)
        if not self.settings.learn_features:
            features = features.detach()
        variance = features.square() @ self.deviations(log_std).square()  # [B, A] or [B, 1]
        return DiagonalGaussian(mean, 0.5 * (variance + SMALLEST_VARIANCE).log().expand_as(mean))

    def log_prob_and_entropy(self, outputs: Tensor, log_std: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
        """See `Numbers`."""
        policy = self.distribution(outputs, log_std)
        return policy.log_prob(a), policy.entropy()

    def layers(self, network: nn.Module, log_std: Tensor) -> list[DenseLayer] | None:
        """See `Numbers`."""
        plan = getattr(means_of(network), "plan", None)
        if plan is not None and not plan.hidden_is_dense:  # NumPy merges a normalisation: it has no such features
            return None
        layers = dense_layers_of(means_of(network))
        if layers is None:
            return None
        deviations = self.deviations(log_std.detach()).expand(-1, self.num_actions).T.cpu().numpy()
        return layers_with_pushes(layers, deviations, self.settings.clip_mean)


class WithFeatures(nn.Module):
    """A network of means whose outputs are followed by what its output layer sees: [B, *obs] -> [B, A + F]."""

    means: Any  # shows its last hidden layer; see `check_shows_hidden`

    def __init__(self, means: nn.Module) -> None:
        super().__init__()
        self.means = means

    def forward(self, x: Tensor) -> Tensor:
        """Means and features."""
        return self.head(self.features(x))

    def features(self, x: Tensor) -> Tensor:
        """Features from which the means are computed, and from which a value may be computed as well."""
        features: Tensor = self.means.features(x)
        return features

    def head(self, features: Tensor) -> Tensor:
        """Means and features [B, A + F] of these."""
        hidden = self.means.last_hidden(features)
        return torch.cat([self.means.output_layer(hidden), hidden], dim=-1)


def means_of(network: nn.Module) -> nn.Module:
    """Returns the network of the means within one from `Numbers.network`."""
    return network.means if isinstance(network, WithFeatures) else network


def numbers_of(num_actions: int, gsde: GSDE | None) -> Numbers:
    """Returns how actions of A numbers are spread around their means."""
    return SameEverywhere() if gsde is None else ByState(num_actions, gsde)
