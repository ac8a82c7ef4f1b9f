"""How a network's outputs stand for returns of actions, and the losses of that, in PyTorch."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from note_rl.agents.shared.torch.choices import where_allowed
from note_rl.agents.shared.value_layers import expected_returns_of, mean_layers, mean_returns_of
from note_rl.learners.numpy_policy import Activation, DenseLayer

_TINY = 1e-30  # below all probabilities but 0, whose part of an entropy is 0


class ActionValues(ABC):
    """One way of standing for the returns of A actions by N numbers each.

    Attributes:
        num_each: N.
    """

    num_each: int

    @abstractmethod
    def expected(self, outputs: Tensor) -> Tensor:
        """Returns Q-values [B, A] for outputs [B, A * N]."""

    @abstractmethod
    def taken(self, outputs: Tensor, a: Tensor) -> Tensor:
        """Returns the outputs for actions a [B], one for each state: [B, N], or [B] where N is 1."""

    @abstractmethod
    def target(self, r: Tensor, discount: Tensor, next_taken: Tensor) -> Tensor:
        """Returns the targets for rewards r [B] and the returns that follow them, in the form that `losses` takes.

        Args:
            r: Sums of rewards. [B]
            discount: What the next state counts; 0 where the task ended there. [B]
            next_taken: The outputs for the next actions; see `taken`.
        """

    @abstractmethod
    def losses(self, taken: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Returns losses [B], and errors [B] by which samples get their priorities."""

    @abstractmethod
    def reported(self, taken: Tensor, target: Tensor) -> Mapping[str, Tensor]:
        """Returns numbers to be logged, by name."""

    @abstractmethod
    def acting_layers(self, layers: list[DenseLayer]) -> list[DenseLayer]:
        """Returns the layers of a network's outputs as those of Q-values, for acting in NumPy."""

    @property
    @abstractmethod
    def expected_in_numpy(self) -> Activation | None:
        """The same as `expected` for NumPy; None: outputs are Q-values."""

    def best(self, outputs: Tensor, mask: Tensor | None) -> Tensor:
        """Returns the outputs for the best action that a mask [B, A] allows; see `taken`."""
        return self.taken(outputs, self.choice(outputs, mask))

    def choice(self, outputs: Tensor, mask: Tensor | None) -> Tensor:
        """Returns the best actions [B] that a mask [B, A] allows."""
        return where_allowed(self.expected(outputs), mask).argmax(1)

    def _each(self, outputs: Tensor) -> Tensor:
        """[B, A, N]."""
        return outputs.reshape(-1, outputs.shape[1] // self.num_each, self.num_each)

    def _taken_of_several(self, outputs: Tensor, a: Tensor) -> Tensor:
        return self._each(outputs).gather(1, a[:, None, None].expand(-1, 1, self.num_each)).squeeze(1)


@dataclass(frozen=True)
class Expected(ActionValues):
    """The mean of the return, as in DQN."""

    num_each: int = 1

    def expected(self, outputs: Tensor) -> Tensor:
        """See `ActionValues`."""
        return outputs

    def taken(self, outputs: Tensor, a: Tensor) -> Tensor:
        """See `ActionValues`."""
        return outputs.gather(1, a.unsqueeze(1)).squeeze(1)

    def best(self, outputs: Tensor, mask: Tensor | None) -> Tensor:
        """See `ActionValues`."""
        return where_allowed(outputs, mask).amax(1)

    def target(self, r: Tensor, discount: Tensor, next_taken: Tensor) -> Tensor:
        """See `ActionValues`: r + discount * Q."""
        return r + discount * next_taken

    def losses(self, taken: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """See `ActionValues`: the Huber loss, and TD errors."""
        return nn.functional.smooth_l1_loss(taken, target, reduction="none"), target - taken.detach()

    def reported(self, taken: Tensor, target: Tensor) -> Mapping[str, Tensor]:
        """See `ActionValues`."""
        return {"q_mean": taken}

    def acting_layers(self, layers: list[DenseLayer]) -> list[DenseLayer]:
        """See `ActionValues`."""
        return layers

    @property
    def expected_in_numpy(self) -> Activation | None:
        """See `ActionValues`."""
        return None


@dataclass(frozen=True)
class Categorical(ActionValues):
    """Probabilities of N returns z_i, atoms, at equal distances (C51, Bellemare et al. 2017).

    Attributes:
        num_each: N.
        v_min, v_max: The first and the last one.
    """

    num_each: int
    v_min: float
    v_max: float

    @property
    def distance(self) -> float:
        """Between neighbours."""
        return (self.v_max - self.v_min) / (self.num_each - 1)

    def _atoms(self, like: Tensor) -> Tensor:
        return self.v_min + self.distance * torch.arange(self.num_each, device=like.device, dtype=like.dtype)

    def expected(self, outputs: Tensor) -> Tensor:
        """See `ActionValues`: the sum of p_i z_i."""
        return self._each(outputs).softmax(2) @ self._atoms(outputs)

    def taken(self, outputs: Tensor, a: Tensor) -> Tensor:
        """See `ActionValues`: logits [B, N]."""
        return self._taken_of_several(outputs, a)

    def target(self, r: Tensor, discount: Tensor, next_taken: Tensor) -> Tensor:
        """See `ActionValues`: the projection of r + discount * z onto the atoms (algorithm 1), [B, N].

        Each of these returns, clipped to the bounds, gives its probability to the two atoms beside it, the more the
        nearer: max(0, 1 - distance / distance of neighbours) (eq. 7).
        """
        returns = r[:, None] + discount[:, None] * self._atoms(next_taken)  # [B, N]
        place = (returns.clamp(self.v_min, self.v_max) - self.v_min) / self.distance
        index = torch.arange(self.num_each, device=r.device, dtype=place.dtype)
        shares = (1.0 - (place[:, :, None] - index).abs()).clamp(min=0.0)  # [B, N of returns, N of atoms]
        return (next_taken.softmax(1)[:, None] @ shares).squeeze(1)

    def losses(self, taken: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """See `ActionValues`: cross-entropies, and Kullback-Leibler divergences (Hessel et al. 2018, section 3).

        They differ by the entropy of the target, so that their gradients are the same, and what is learned has error 0.
        """
        loss = -(target * taken.log_softmax(1)).sum(1)
        entropy = -(target * target.clamp(min=_TINY).log()).sum(1)
        return loss, loss.detach() - entropy

    def reported(self, taken: Tensor, target: Tensor) -> Mapping[str, Tensor]:
        """See `ActionValues`; `at_bounds` is the probability of `v_min` and `v_max` in the targets."""
        return {"q_mean": taken.softmax(1) @ self._atoms(taken), "at_bounds": target[:, 0] + target[:, -1]}

    def acting_layers(self, layers: list[DenseLayer]) -> list[DenseLayer]:
        """See `ActionValues`."""
        *hidden, (kernel, bias, _) = layers
        return [*hidden, (kernel, bias, self.expected_in_numpy)]

    @property
    def expected_in_numpy(self) -> Activation:
        """See `ActionValues`."""
        return expected_returns_of(self.v_min, self.v_max, self.num_each)


def quantile_losses(found: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The quantile Huber losses of N quantiles, those at (i + 1/2) / N, for K targets (Dabney et al. 2018, eq. 10).

    With u = target_j - quantile_i, a loss is the sum over i of the mean over j of |tau_i - (u < 0)| Huber(u).

    Args:
        found: The quantiles. [B, N]
        target: Without a gradient. [B, K]

    Returns:
        Losses [B], and the errors of the means [B].
    """
    num = found.shape[1]
    tau = ((torch.arange(num, device=found.device, dtype=found.dtype) + 0.5) / num)[:, None]
    with torch.no_grad():
        u = target[:, None, :] - found[:, :, None]  # [B, N quantiles, K targets]
        clipped = u.clamp(-1.0, 1.0)  # the slope of Huber(u), which is clipped * (u - clipped / 2)
        slope = torch.where(u < 0.0, 1.0 - tau, tau) * clipped
        loss = (slope * (u - 0.5 * clipped)).mean(2).sum(1)
        error, mean_slope = (target.mean(1) - found.mean(1)).abs(), slope.mean(2)
    # Its gradient is written down, as autograd would pass over [B, N, K] numbers a dozen times more.
    return loss - (mean_slope * (found - found.detach())).sum(1), error


@dataclass(frozen=True)
class Quantiles(ActionValues):
    """N quantiles of the return, those at (i + 1/2) / N (QR-DQN, Dabney et al. 2018).

    Attributes:
        num_each: N.
    """

    num_each: int

    def expected(self, outputs: Tensor) -> Tensor:
        """See `ActionValues`: their mean."""
        return self._each(outputs).mean(2)

    def taken(self, outputs: Tensor, a: Tensor) -> Tensor:
        """See `ActionValues`: [B, N]."""
        return self._taken_of_several(outputs, a)

    def target(self, r: Tensor, discount: Tensor, next_taken: Tensor) -> Tensor:
        """See `ActionValues`: r + discount * quantiles, [B, N]."""
        return r[:, None] + discount[:, None] * next_taken

    def losses(self, taken: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """See `ActionValues` and `quantile_losses`."""
        return quantile_losses(taken, target)

    def reported(self, taken: Tensor, target: Tensor) -> Mapping[str, Tensor]:
        """See `ActionValues`."""
        return {"q_mean": taken.mean(1)}

    def acting_layers(self, layers: list[DenseLayer]) -> list[DenseLayer]:
        """See `ActionValues`."""
        return mean_layers(layers, self.num_each)

    @property
    def expected_in_numpy(self) -> Activation:
        """See `ActionValues`."""
        return mean_returns_of(self.num_each)
