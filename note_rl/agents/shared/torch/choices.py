"""How a network's outputs are read where actions are chosen, not numbers, in PyTorch."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from note_rl.agents.shared.spaces import BinarySpaces, DiscreteSpaces, FactoredSpaces, PolicySpaces
from note_rl.agents.shared.torch.distributions import Bernoulli, Categorical, Distribution, MultiCategorical
from note_rl.agents.shared.torch.networks import indicators
from note_rl.learners.numpy_policy import Activation, softmax_of_each

NOT_ALLOWED = -1e9
"""Value or logit of an action that the environment does not allow: finite, so that 0 times its logarithm is 0."""


def where_allowed(values: Tensor, mask: Tensor | None) -> Tensor:
    """Values or logits of actions [..., A], far below all others where a mask [..., A] is 0; None: as they are."""
    return values if mask is None else values.masked_fill(mask < 0.5, NOT_ALLOWED)


class Choice(ABC):
    """One way of choosing."""

    @property
    @abstractmethod
    def activation(self) -> str | Activation:
        """Of the outputs, as `answers` has it, for acting in NumPy."""

    @abstractmethod
    def distribution(self, outputs: Tensor) -> Distribution:
        """Returns the distribution that outputs [B, O] stand for."""

    @abstractmethod
    def answers(self, outputs: Tensor) -> Tensor:
        """Returns the probabilities [B, O] that action() gives to the policy."""

    @abstractmethod
    def indicators(self, a: Tensor) -> Tensor:
        """Returns actions as numbers for a network, [B, O]: 1 where something was chosen."""


@dataclass(frozen=True)
class OneOf(Choice):
    """One of several actions."""

    num_actions: int

    @property
    def activation(self) -> str | Activation:
        """See `Choice`."""
        return "softmax"

    def distribution(self, outputs: Tensor) -> Distribution:
        """See `Choice`."""
        return Categorical(outputs.log_softmax(-1))

    def answers(self, outputs: Tensor) -> Tensor:
        """See `Choice`."""
        return outputs.softmax(-1)

    def indicators(self, a: Tensor) -> Tensor:
        """See `Choice`."""
        return indicators(a, self.num_actions)


@dataclass(frozen=True)
class OneOfEach(Choice):
    """One of each of several sets, `sizes` [D] of which lie behind each other in the outputs (MultiDiscrete)."""

    sizes: tuple[int, ...]

    @property
    def activation(self) -> str | Activation:
        """See `Choice`."""
        return partial(softmax_of_each, sizes=self.sizes)

    def distribution(self, outputs: Tensor) -> Distribution:
        """See `Choice`."""
        return MultiCategorical(tuple(Categorical(part.log_softmax(-1)) for part in self._parts(outputs)))

    def answers(self, outputs: Tensor) -> Tensor:
        """See `Choice`."""
        return torch.cat([part.softmax(-1) for part in self._parts(outputs)], dim=-1)

    def indicators(self, a: Tensor) -> Tensor:
        """See `Choice`."""
        return torch.cat([indicators(one, size) for one, size in zip(a.unbind(-1), self.sizes, strict=True)], dim=-1)

    def _parts(self, outputs: Tensor) -> tuple[Tensor, ...]:
        return torch.split(outputs, list(self.sizes), dim=-1)


@dataclass(frozen=True)
class Switches(Choice):
    """Several things that are on or off (MultiBinary)."""

    @property
    def activation(self) -> str | Activation:
        """See `Choice`."""
        return "sigmoid"

    def distribution(self, outputs: Tensor) -> Distribution:
        """See `Choice`."""
        return Bernoulli(outputs)

    def answers(self, outputs: Tensor) -> Tensor:
        """See `Choice`."""
        return outputs.sigmoid()

    def indicators(self, a: Tensor) -> Tensor:
        """See `Choice`."""
        return a.float()


def choice_of(spaces: PolicySpaces) -> Choice | None:
    """Returns how to choose there; None: actions are numbers."""
    if isinstance(spaces, DiscreteSpaces):
        return OneOf(spaces.num_actions)
    if isinstance(spaces, FactoredSpaces):
        return OneOfEach(spaces.sizes)
    return Switches() if isinstance(spaces, BinarySpaces) else None
