"""Soft actor-critic in PyTorch (Haarnoja et al. 2018, https://arxiv.org/abs/1812.05905)."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import softplus

from note_rl.agents.pytorch.networks import MLP, MakeNetwork, QNetwork, evaluating, soft_update
from note_rl.agents.spaces import continuous_spaces
from note_rl.environments import EnvLike
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of
from note_rl.policy import Policy, SquashedGaussianPolicy
from note_rl.policy.continuous import LOG_STD_RANGE
from note_rl.rl_pytorch import RL_pytorch


class SAC(RL_pytorch):
    """Maximises return and entropy, for actions that are numbers within bounds; acts with `SquashedGaussianPolicy`.

    Args:
        hidden_size: Width of the hidden layers, one number or one per layer; a single number means two layers.
        env: Environment, id, list or factory.
        network: Makes a network from (input shape, number of outputs); None: an `MLP` of `hidden_size`.
        critic_network: The same for the critic; None: as `network`.
        gamma: Discount of one step.
        tau: Share of the online parameters taken over at each target update.
        alpha: Weight of the entropy; None: learned so that the entropy comes to `target_entropy`.
        target_entropy: None: -1 per number of the action (section 7, appendix D), measured in [-1, 1].
        frame_stack: Frames that are shown together; the same as in set().
        device: Where the networks live.
    """

    on_policy = False
    action_kinds = ("bounded",)
    reads_triplets = False
    traceable = True

    def __init__(
        self,
        hidden_size: int | Sequence[int] = (256, 256),
        *,
        env: EnvLike = "Pendulum-v1",
        network: MakeNetwork | None = None,
        critic_network: MakeNetwork | None = None,
        gamma: float = 0.99,
        tau: float = 0.005,
        alpha: float | None = None,
        target_entropy: float | None = None,
        frame_stack: int = 1,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        spaces = continuous_spaces(env, "SAC", frame_stack)
        hidden = (hidden_size, hidden_size) if isinstance(hidden_size, int) else hidden_size
        make = network or (lambda shape, outputs: MLP(shape, outputs, hidden))
        make_critic = critic_network or make
        self.env = env
        self.gamma = gamma
        self.tau = tau
        self.alpha = alpha
        self.target_entropy = target_entropy
        self.entropy_wanted = -float(spaces.action_size) if target_entropy is None else target_entropy
        self.frame_stack = frame_stack
        self.centre = torch.from_numpy(spaces.centre).to(device)
        self.scale = torch.from_numpy(spaces.scale).to(device)
        self.actor = make(spaces.obs_shape, 2 * spaces.action_size).to(device)
        self.critic_1 = QNetwork(make_critic, spaces).to(device)
        self.critic_2 = QNetwork(make_critic, spaces).to(device)
        self.target_critic_1 = QNetwork(make_critic, spaces).to(device).requires_grad_(False)
        self.target_critic_2 = QNetwork(make_critic, spaces).to(device).requires_grad_(False)
        self._move_targets(1.0)
        self.log_alpha = torch.full((1,), math.log(1.0 if alpha is None else alpha), device=device)
        self.param = [list(self.actor.parameters()), [*self.critic_1.parameters(), *self.critic_2.parameters()]]
        if alpha is None:
            self.param.append([self.log_alpha.requires_grad_()])
        self.normal_inputs = {"noise": (spaces.action_size,), "next_noise": (spaces.action_size,)}
        self.noise: Tensor
        self.next_noise: Tensor
        self.discount: Tensor

    def action(self, s: Tensor) -> Tensor:
        """Means and log deviations before tanh, [B, 2A]."""
        scores: Tensor = self.actor(s)
        return scores

    def _sample(self, s: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions [B, A] made of standard normal noise, and their log-density [B] in [-1, 1] (eq. 21).

        log(1 - tanh(u)^2) is written as 2 * (log 2 - u - softplus(-2u)), which stays finite.
        """
        mean, log_std = self.actor(s).chunk(2, dim=-1)
        log_std = log_std.clamp(*LOG_STD_RANGE)
        u = mean + log_std.exp() * noise
        log_normal = -0.5 * noise.square() - log_std - 0.5 * math.log(2.0 * math.pi)
        log_slope = 2.0 * (math.log(2.0) - u - softplus(-2.0 * u))
        return self.centre + self.scale * u.tanh(), (log_normal - log_slope).sum(-1)

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> list[Tensor]:
        """Losses [B] of actor (eq. 7), critics (eq. 5) and, where it is learned, log alpha (eq. 18)."""
        alpha = self.log_alpha.detach().exp()
        with torch.no_grad(), evaluating(self.actor):
            next_a, next_log_prob = self._sample(next_s, self.next_noise)
            next_q = torch.minimum(self.target_critic_1(next_s, next_a), self.target_critic_2(next_s, next_a))
            target = r + self.discount * (next_q - alpha * next_log_prob)  # [B]
        q = self.critic_1(s, a)
        error_1 = q - target
        error_2 = self.critic_2(s, a) - target
        self.prioritized_replay.update(0.5 * (error_1.abs() + error_2.abs()).detach())
        new_a, log_prob = self._sample(s, self.noise)
        actor_loss = alpha * log_prob - torch.minimum(self.critic_1(s, new_a), self.critic_2(s, new_a))
        self.report(q_mean=q, entropy=-log_prob, alpha=alpha)
        losses = [actor_loss, error_1.square() + error_2.square()]
        if self.alpha is None:
            losses.append(-self.log_alpha * (log_prob.detach() + self.entropy_wanted))
        return losses

    def update_param(self) -> None:
        """Moves the targets towards the online critics."""
        self._move_targets(self.tau)

    def _move_targets(self, tau: float) -> None:
        soft_update(self.target_critic_1, self.critic_1, tau)
        soft_update(self.target_critic_2, self.critic_2, tau)

    def default_policy(self) -> Policy:
        """Until set() says otherwise."""
        return SquashedGaussianPolicy()

    def acting_layers(self) -> list[DenseLayer] | None:
        """The actor's layers, if it consists of dense ones."""
        return dense_layers_of(self.actor)
