"""Soft actor-critic in PyTorch (Haarnoja et al. 2018, https://arxiv.org/abs/1812.05905)."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial, reduce
from operator import add

import torch
from torch import Tensor
from torch.nn.functional import softplus

from note_rl.agents.declaration import Given
from note_rl.agents.sac import SACSettings
from note_rl.agents.shared.inserted_layers import refuse_to_regularise, regularised
from note_rl.agents.shared.spaces import ContinuousSpaces, continuous_spaces
from note_rl.agents.shared.torch.layered import with_layers
from note_rl.agents.shared.torch.networks import MakeNetwork, QNetwork, dropping, evaluating, mlp, soft_update
from note_rl.agents.shared.torch.numbers import ByState
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of
from note_rl.policy import Policy, SquashedGaussianPolicy, SquashedGSDEPolicy
from note_rl.policy.continuous import LOG_STD_RANGE
from note_rl.rl_pytorch import RL_pytorch


class EntropyWeight:
    """The weight of the entropy: `alpha`, or where that is None one that is learned.

    Attributes:
        log_alpha: What is learned [1]; where nothing is, the logarithm of the `alpha` that the agent was made with.
    """

    alpha: float | None
    initial_alpha: float

    def _make_alpha(self, device: str) -> None:
        start = math.log(self.initial_alpha if self.alpha is None else self.alpha)
        self.log_alpha = torch.full((1,), start, device=device, requires_grad=self.alpha is None)

    def _learned_alpha(self) -> list[list[Tensor]]:
        """The group of parameters that follows the last loss, if alpha is learned."""
        return [[self.log_alpha]] if self.log_alpha.requires_grad else []

    def _alpha_losses(self, surplus: Tensor) -> list[Tensor]:
        """That of log alpha [B] (eq. 18), if it is learned, for what each entropy has above the one wanted [B]."""
        return [self.log_alpha * surplus] if self.log_alpha.requires_grad else []

    def entropy_weight(self) -> Tensor | float:
        """As it is now; no gradient goes through it."""
        return self.log_alpha.detach().exp() if self.alpha is None else self.alpha


class SAC(SACSettings, EntropyWeight, RL_pytorch):
    reads_triplets = False
    traceable = True

    def make_networks(self, given: Given) -> None:
        """An actor, critics with a copy of each for targets, and the weight of the entropy."""
        spaces = continuous_spaces(self.env, type(self).__name__, self.frame_stack)
        make = given.network or mlp(given.hidden_size)
        make_critic = given.critic_network or make
        self._make_actor(make, spaces, given.device)
        self._make_critics(make_critic, spaces, given.device)
        self._make_alpha(given.device)
        self._list_parameters(spaces)

    def _make_actor(self, make: MakeNetwork, spaces: ContinuousSpaces, device: str) -> None:
        self.centre = torch.from_numpy(spaces.centre).to(device)
        self.scale = torch.from_numpy(spaces.scale).to(device)
        self.spread = None if self.gsde is None else ByState(spaces.action_size, self.gsde)
        self.actor = make(spaces.obs_shape, spaces.action_size * (2 if self.spread is None else 1))
        if self.spread is not None:
            log_std = self.spread.start(self.actor, spaces.action_size, self.initial_log_std)
            self.log_std = log_std.to(device).requires_grad_()
            self.actor = self.spread.network(self.actor)
        self.actor = self.actor.to(device)

    def _make_critics(self, make: MakeNetwork, spaces: ContinuousSpaces, device: str) -> None:
        if self.critic_dropout > 0.0 or self.critic_layer_norm:
            inner = partial(regularised, dropout=self.critic_dropout, layer_norm=self.critic_layer_norm)
            make = with_layers(make, inner, refuse_to_regularise)
        for number in self._numbers():
            setattr(self, f"critic_{number}", self._make_critic(make, spaces).to(device))
        for number in self._numbers():
            target = self._make_critic(make, spaces).to(device).requires_grad_(False)
            setattr(self, f"target_critic_{number}", target)
        self._move_targets(1.0)

    def _make_critic(self, make: MakeNetwork, spaces: ContinuousSpaces) -> QNetwork:
        """One of them, or a target network."""
        return QNetwork(make, spaces)

    def _list_parameters(self, spaces: ContinuousSpaces) -> None:
        actor = [*self.actor.parameters(), *([] if self.spread is None else [self.log_std])]
        critics = [parameter for critic in self.critics() for parameter in critic.parameters()]
        self.param = [actor, critics, *self._learned_alpha()]
        draws = {"draws": (self.num_critics,)} if self.draws_critics else {}
        self.normal_inputs = {"noise": (spaces.action_size,), "next_noise": (spaces.action_size,), **draws}
        self.noise: Tensor
        self.next_noise: Tensor
        self.draws: Tensor
        self.discount: Tensor

    @property
    def entropy_wanted(self) -> float:
        """That a learned `alpha` aims at."""
        return -float(self.scale.numel()) if self.target_entropy is None else self.target_entropy

    def _numbers(self) -> range:
        return range(1, self.num_critics + 1)

    def critics(self) -> list[QNetwork]:
        """Returns all of them."""
        return [getattr(self, f"critic_{number}") for number in self._numbers()]

    def target_critics(self) -> list[QNetwork]:
        """Returns those that give targets, in the order of the critics that they follow."""
        return [getattr(self, f"target_critic_{number}") for number in self._numbers()]

    def action(self, s: Tensor) -> Tensor:
        """Means and log deviations before tanh, [B, 2A]; with `gsde` what `ByState.answers` says."""
        scores: Tensor = self.actor(s)
        return scores if self.spread is None else self.spread.answers(scores, self.log_std)

    def _mean_and_log_std(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """Before tanh, [B, A] each."""
        outputs = self.actor(s)
        if self.spread is not None:
            policy = self.spread.distribution(outputs, self.log_std)
            return policy.mean, policy.log_std
        mean, log_std = outputs.chunk(2, dim=-1)
        return mean, log_std.clamp(*LOG_STD_RANGE)

    def _sample(self, s: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions [B, A] made of standard normal noise, and their log-density [B] in [-1, 1] (eq. 21).

        log(1 - tanh(u)^2) is written as 2 * (log 2 - u - softplus(-2u)), which stays finite.
        """
        mean, log_std = self._mean_and_log_std(s)
        u = mean + log_std.exp() * noise
        log_normal = -0.5 * noise.square() - log_std - 0.5 * math.log(2.0 * math.pi)
        log_slope = 2.0 * (math.log(2.0) - u - softplus(-2.0 * u))
        return self.centre + self.scale * u.tanh(), (log_normal - log_slope).sum(-1)

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> list[Tensor]:
        """Losses [B] of actor (eq. 7), critics (eq. 5) and, where it is learned, log alpha (eq. 18)."""
        alpha = self.entropy_weight()
        with torch.no_grad(), evaluating(self.actor):
            next_a, next_log_prob = self._sample(next_s, self.next_noise)
            with dropping(*self.target_critics()) if self.critic_dropout > 0.0 else nullcontext():  # DroQ
                next_q = self.smallest([critic(next_s, next_a) for critic in self.target_critics()])
            target = r + self.discount * (next_q - alpha * next_log_prob)  # [B]
        q = [critic(s, a) for critic in self.critics()]
        errors = [one - target for one in q]
        self.prioritized_replay.update((reduce(add, [error.abs() for error in errors]) / self.num_critics).detach())
        new_a, log_prob = self._sample(s, self.noise)
        actor_loss = alpha * log_prob - self.value_to_climb([critic(s, new_a) for critic in self.critics()])
        self.report(q_mean=q[0], entropy=-log_prob, alpha=alpha)
        losses = [actor_loss, reduce(add, [error.square() for error in errors])]
        return [*losses, *self._alpha_losses(-log_prob.detach() - self.entropy_wanted)]

    def smallest(self, values: Sequence[Tensor]) -> Tensor:
        """The smallest value [B] of those of N critics, [B] each, or of those critics that are drawn for a sample.

        Those are drawn whose standard normal numbers are the smallest: each set of them is equally likely.
        """
        if not self.draws_critics:
            return reduce(torch.minimum, values)
        rank = (self.draws[:, :, None] > self.draws[:, None, :]).sum(-1)  # [B, N]
        found: Tensor = torch.stack(list(values), 1).masked_fill(rank >= self.num_drawn, math.inf).amin(1)
        return found

    def value_to_climb(self, values: Sequence[Tensor]) -> Tensor:
        """The value [B] that the actor follows, of those of all critics, [B] each."""
        return reduce(add, values) / self.num_critics if self.draws_critics else reduce(torch.minimum, values)

    def update_param(self) -> None:
        """Moves the targets towards the online critics."""
        self._move_targets(self.tau)

    def _move_targets(self, tau: float) -> None:
        for target, critic in zip(self.target_critics(), self.critics(), strict=True):
            soft_update(target, critic, tau)

    def default_policy(self) -> Policy:
        """Until set() says otherwise."""
        return SquashedGaussianPolicy() if self.gsde is None else SquashedGSDEPolicy()

    def acting_layers(self) -> list[DenseLayer] | None:
        """The actor's layers, if it consists of dense ones."""
        if self.spread is None:
            return dense_layers_of(self.actor)
        return self.spread.layers(self.actor, self.log_std)
