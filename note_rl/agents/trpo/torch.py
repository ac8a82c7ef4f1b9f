"""Trust region policy optimization in PyTorch (Schulman et al. 2015, https://arxiv.org/abs/1502.05477)."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from note_rl.agents.actor_critic.torch import ActorCritic
from note_rl.agents.declaration import Given
from note_rl.agents.shared.torch.distributions import Distribution
from note_rl.agents.shared.torch.second_order import conjugate_gradient, gradient_vector, hessian_product
from note_rl.agents.trpo import TRPOSettings

_SMALL = 1e-8  # keeps the length of a step finite where there is no gradient


class TRPO(TRPOSettings, ActorCritic):
    def make_networks(self, given: Given) -> None:
        """As `ActorCritic`, and what is remembered of the last step."""
        super().make_networks(given)
        self.normal_inputs = {"critic_order": (self.critic_iterations,)}  # whose order is that of the critic's passes
        self._last_step = torch.zeros(2, device=given.device)  # see kl, step_fraction

    @property
    def kl(self) -> float:
        """Mean KL divergence of the policies before and after the last update; 0 where no step was found."""
        return float(self._last_step[0])

    @property
    def step_fraction(self) -> float:
        """The last step as a share of the longest that the bound would allow a quadratic KL divergence; 0: none."""
        return float(self._last_step[1])

    def update(self, batch: Any, optimizers: Sequence[torch.optim.Optimizer]) -> list[Tensor]:
        """Losses of policy and critic, after one step of the one and some passes of the other (algorithm 1)."""
        losses = [self._improve_policy(batch), self._fit_critic(batch, optimizers[-1])]
        kl, step_fraction = self._last_step.clone()
        self.report(approx_kl=kl, step_fraction=step_fraction)
        return losses

    def _improve_policy(self, batch: Any) -> Tensor:
        """One natural gradient step; returns the negative surrogate that it reaches (section 6 and appendix C)."""
        policy, every = self.distribution(batch.obs, batch.action_mask), slice(None, None, self.fvp_every)
        mask = None if batch.action_mask is None else batch.action_mask[every]
        some = policy if self.fvp_every == 1 else self.distribution(batch.obs[every], mask)
        kl = some.detached().kl(some).mean()  # 0 here, but its Hessian is the Fisher information
        surrogate = self._surrogate(policy, batch)
        self.report(entropy=policy.entropy())
        gradient = gradient_vector(surrogate, self.param[0], keep=True)
        fisher = hessian_product(kl, self.param[0], self.cg_damping)
        direction = conjugate_gradient(fisher, gradient, self.cg_iterations, self.cg_tolerance)
        curvature = direction @ fisher(direction)
        longest = (2.0 * self.max_kl / (curvature + _SMALL)).sqrt() * direction  # beta s
        with torch.no_grad():
            return -self._search(batch, policy.detached(), surrogate, longest)

    def _surrogate(self, policy: Distribution, batch: Any) -> Tensor:
        """Mean of pi(a|s) / pi_old(a|s) * A (eq. 14), with the entropy bonus."""
        ratio = (policy.log_prob(batch.action) - batch.log_prob_old).exp()
        surrogate: Tensor = (ratio * batch.advantage).mean() + self.entropy_coef * policy.entropy().mean()
        return surrogate

    def _search(self, batch: Any, before: Distribution, surrogate: Tensor, longest: Tensor) -> Tensor:
        """Takes the longest step, or the first shorter one, that is better and within the bound (appendix C).

        Args:
            batch: The rollout.
            before: The policies from which the step leads away.
            surrogate: What they reach.
            longest: The step, along all parameters of the policy in a row.

        Returns:
            What is reached then; if there is no such step, what was, and no parameter has changed.
        """
        start = [parameter.clone() for parameter in self.param[0]]
        steps = torch.split(longest, [parameter.numel() for parameter in start])
        fraction = 1.0
        for _ in range(self.line_search_steps):
            for parameter, origin, step in zip(self.param[0], start, steps, strict=True):
                parameter.copy_(origin + fraction * step.view_as(origin))
            policy = self.distribution(batch.obs, batch.action_mask)
            reached, kl = self._surrogate(policy, batch), before.kl(policy).mean()
            if bool((reached > surrogate) & (kl <= self.max_kl)):
                self._last_step.copy_(torch.stack([kl, kl.new_tensor(fraction)]))
                return reached
            fraction *= self.line_search_shrink
        for parameter, origin in zip(self.param[0], start, strict=True):
            parameter.copy_(origin)
        self._last_step.zero_()
        return surrogate.detach()

    def _fit_critic(self, batch: Any, optimizer: torch.optim.Optimizer) -> Tensor:
        """Shuffled passes over the rollout; returns the mean loss. Each leaves out a different rest of a minibatch."""
        size = min(self.critic_batch_size, len(batch))
        used = len(batch) // size * size
        rows = batch.critic_order.argsort(0)[:used].T.reshape(-1, size)  # [K, size]
        return torch.stack([self.minimise(partial(self._value_loss, batch, some), optimizer) for some in rows]).mean()

    def _value_loss(self, batch: Any, rows: Tensor) -> Tensor:
        """Mean squared distance of values to returns."""
        error: Tensor = self.value(batch.obs[rows]) - batch.return_[rows]
        return error.square().mean()
