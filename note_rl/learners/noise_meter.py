"""How much gradients scatter, measured on one minibatch: in one backward pass where that is exact, else part by part.

What both frameworks share: which of the two ways is taken. `batch_noise_scale` says what the numbers mean.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from note_rl.learners.adjustable import Microbatches
from note_rl.learners.batch_noise_scale import NoiseMoments

MeasuredLosses = Callable[[Mapping[str, Any]], list[Any]]
"""Columns of a minibatch by name, [B, ...] -> means over it: one per group of parameters, or one for all of them."""

Groups = Sequence[Sequence[Any]]
"""Parameters by loss."""


class NoiseMeter(ABC):
    """Measures the noise of every loss along its group of parameters.

    Where all parameters belong to linear layers that a loss uses once, one backward pass gives the norms of the
    gradients of single samples: gradients are products of what goes into a layer and what comes back (Goodfellow 2015,
    arXiv:1510.01799). Otherwise each part of the minibatch is evaluated by itself; so it is once at first, to see
    whether both ways agree.

    Attributes:
        touches: Parameters and random states that measuring changes, to be put back; None: not known yet.
    """

    def __init__(self) -> None:
        self._quickly: bool | None = None  # None: not tried yet
        self.touches: list[Any] | None = None

    def has_touched(self, changed: list[Any]) -> None:
        """Takes what the first measurement has changed for what all of them change."""
        if self.touches is None and self._quickly is not None:
            self.touches = changed

    def __call__(self, minibatch: Microbatches, groups: Groups, networks: Iterable[Any]) -> list[NoiseMoments]:
        """Measures once.

        Args:
            minibatch: Its columns as tensors.
            groups: Parameters by loss.
            networks: What the agent consists of; what is no network is passed over.

        Returns:
            One measurement per group; not a number where there are too few samples for two parts.
        """
        if minibatch.parts < 2:
            return [NoiseMoments(math.nan, math.nan) for _ in groups]
        layers = self._layers_of(networks)
        if self._quickly is None:
            return self._in_both_ways(minibatch, groups, layers)
        if self._quickly:
            moments = self._by_layers(minibatch, minibatch.finest, groups, layers)
            if moments is not None:
                return moments
            self._quickly = False  # the agent's loss has become another one
        return self._by_parts(minibatch, groups)

    def _in_both_ways(self, minibatch: Microbatches, groups: Groups, layers: Sequence[Any]) -> list[NoiseMoments]:
        """Measures by parts, and sees whether layers would have given the same."""
        by_parts = self._by_parts(minibatch, groups)
        by_layers = self._by_layers(minibatch, minibatch.parts, groups, layers)
        self._quickly = by_layers is not None and all(
            slow.agrees_with(quick) for slow, quick in zip(by_parts, by_layers, strict=True)
        )
        return by_parts

    @abstractmethod
    def _layers_of(self, networks: Iterable[Any]) -> Sequence[Any]:
        """Returns the linear layers in networks, each once."""

    @abstractmethod
    def _by_layers(
        self, minibatch: Microbatches, num_parts: int, groups: Groups, layers: Sequence[Any]
    ) -> list[NoiseMoments] | None:
        """Measures in one backward pass; None where layers do not hold all parameters, or are used in other ways.

        Args:
            minibatch: Its columns as tensors.
            num_parts: Equal parts that the minibatch is looked at in; as many as samples cost least.
            groups: Parameters by loss.
            layers: See `_layers_of`.
        """

    @abstractmethod
    def _by_parts(self, minibatch: Microbatches, groups: Groups) -> list[NoiseMoments]:
        """Measures with a backward pass for each part, which any model allows."""


@dataclass(frozen=True)
class LayerPass:
    """One use of one linear layer.

    Attributes:
        inputs: What goes in, [B, in].
        outputs: What comes out, before the activation, [B, out].
        kernel: Identity of its kernel.
        bias: Identity of its bias; None: it has none.
    """

    inputs: Any
    outputs: Any
    kernel: int
    bias: int | None


@dataclass(frozen=True)
class PassGradient:
    """Contribution of one pass through a layer to the gradient of one loss.

    Attributes:
        inputs: What goes in, [B, in].
        back: Gradient of the loss with respect to what comes out, [B, out].
        has_bias: Whether the bias learns by this loss as well.
    """

    inputs: Any
    back: Any
    has_bias: bool


def gradients_of_group(
    passes: Sequence[LayerPass], back: Sequence[Any], group: Collection[int]
) -> list[PassGradient] | None:
    """Returns what makes up the gradient along a group of parameters.

    Args:
        passes: All that the loss went through.
        back: Gradients of the group's loss with respect to the outputs of each; None where it does not depend on them.
        group: Identities of the parameters.

    Returns:
        One per pass that counts; None if some parameter has no part in them, or in more than one.
    """
    used = [
        (seen, gradient)
        for seen, gradient in zip(passes, back, strict=True)
        if gradient is not None and seen.kernel in group
    ]
    covered = [parameter for seen, _ in used for parameter in (seen.kernel, seen.bias) if parameter is not None]
    if len(set(covered)) < len(covered) or not set(group) <= set(covered):
        return None
    return [PassGradient(seen.inputs, gradient, seen.bias in group) for seen, gradient in used]


def one_per_group(losses: list[Any], num_groups: int) -> list[Any]:
    """Returns the losses with the only one standing for every group."""
    return losses if len(losses) == num_groups else losses * num_groups
