"""Trust region policy optimization in PyTorch (Schulman et al. 2015, https://arxiv.org/abs/1502.05477)."""

from collections.abc import Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from note_rl.agents.pytorch.actor_critic import ActorCritic
from note_rl.agents.pytorch.distributions import Distribution
from note_rl.agents.pytorch.networks import MakeNetwork
from note_rl.agents.pytorch.second_order import conjugate_gradient, gradient_vector, hessian_product
from note_rl.agents.trust_region import check_trust_region
from note_rl.environments import EnvLike

_SMALL = 1e-8  # keeps the length of a step finite where there is no gradient


class TRPO(ActorCritic):
    """The largest step along the natural gradient that keeps the policy close to the one that collected.

    One update per rollout, for actions of all kinds. The policy takes one step: conjugate gradients find
    its direction, and a line search its length, so that the KL divergence stays below a bound. Then the critic follows
    the returns by the optimizer that train() is given, which the policy has no use for.

    Args:
        state_dim: Length of an observation; None: read from the environment, as action_dim.
        hidden_size: Width of the hidden layers, one number or one per layer; a single number means two layers.
        action_dim: Number of actions to choose one of.
        env: Environment, id, list or factory.
        network: Makes a network from (observation shape, number of outputs); None: a tanh `MLP` of `hidden_size`.
        critic_network: The same for the critic; None: as `network`.
        gamma: Discount of one step.
        gae_lambda: Weight of long against short returns in the advantage.
        max_kl: Bound of the mean KL divergence between the policies before and after an update.
        cg_iterations: Most iterations of the conjugate gradient.
        cg_tolerance: Squared norm of the residual at which it ends earlier.
        cg_damping: Added to the diagonal of the Fisher information.
        fvp_every: n: the Fisher information is estimated from every n-th transition.
        line_search_steps: Lengths that are tried, at most, before the policy stays as it is.
        line_search_shrink: Each of them as a share of the one before.
        critic_iterations: Passes of the critic over each rollout; fixed when the agent is made.
        critic_batch_size: Transitions in each of its gradient steps, at most all of the rollout.
        entropy_coef: Weight of the entropy bonus.
        normalise_advantage: Whether advantages get mean 0 and deviation 1 over the rollout.
        initial_log_std: Log deviation of continuous actions at the start; it is learned, the same for all states.
        frame_stack: Frames that are shown together; the same as in set().
        device: Where the networks live.
    """

    batch_attributes: ClassVar[tuple[str, ...]] = ("log_prob_old", "advantage", "return_")
    has_value_network = False  # the policy's step needs parameters of its own, so there is no trunk to share
    set_defaults = MappingProxyType({"PPO": True, "rollout_steps": 2048, "batch": "rollout", "num_epochs": 1})

    def __init__(
        self,
        state_dim: int | None = None,
        hidden_size: int | Sequence[int] = (64, 64),
        action_dim: int | None = None,
        *,
        env: EnvLike = "CartPole-v1",
        network: MakeNetwork | None = None,
        critic_network: MakeNetwork | None = None,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        max_kl: float = 0.01,
        cg_iterations: int = 15,
        cg_tolerance: float = 1e-10,
        cg_damping: float = 0.1,
        fvp_every: int = 1,
        line_search_steps: int = 10,
        line_search_shrink: float = 0.8,
        critic_iterations: int = 10,
        critic_batch_size: int = 128,
        entropy_coef: float = 0.0,
        normalise_advantage: bool = True,
        initial_log_std: float = 0.0,
        frame_stack: int = 1,
        device: str = "cpu",
    ) -> None:
        super().__init__(
            state_dim,
            hidden_size,
            action_dim,
            env=env,
            network=network,
            critic_network=critic_network,
            gamma=gamma,
            gae_lambda=gae_lambda,
            entropy_coef=entropy_coef,
            normalise_advantage=normalise_advantage,
            initial_log_std=initial_log_std,
            frame_stack=frame_stack,
            device=device,
        )
        self.max_kl = max_kl
        self.cg_iterations = cg_iterations
        self.cg_tolerance = cg_tolerance
        self.cg_damping = cg_damping
        self.fvp_every = fvp_every
        self.line_search_steps = line_search_steps
        self.line_search_shrink = line_search_shrink
        self.critic_iterations = critic_iterations
        self.critic_batch_size = critic_batch_size
        check_trust_region(self)
        self.normal_inputs = {"critic_order": (self.critic_iterations,)}  # whose order is that of the critic's passes
        self._last_step = torch.zeros(2, device=device)  # see kl, step_fraction

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
