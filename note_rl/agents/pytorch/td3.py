"""Twin delayed deep deterministic policy gradient in PyTorch (Fujimoto et al. 2018, https://arxiv.org/abs/1802.09477)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from note_rl.agents.pytorch.networks import MLP, MakeNetwork, QNetwork, TanhActor, soft_update
from note_rl.agents.spaces import continuous_spaces
from note_rl.environments import EnvLike
from note_rl.learners.numpy_policy import DenseLayer
from note_rl.rl_pytorch import RL_pytorch


class TD3(RL_pytorch):
    """`DDPG` with the smaller of two critics' values, smoothed targets and a delayed actor.

    The actor learns only in the gradient steps after which targets are updated: every 2, which is the delay of the
    paper, unless set() is given another `update_batches`.

    Args:
        hidden_size: Width of the hidden layers, one number or one per layer; a single number means two layers.
        env: Environment, id, list or factory.
        network: Makes a network from (input shape, number of outputs); None: an `MLP` of `hidden_size`.
        critic_network: The same for the critic; None: as `network`.
        gamma: Discount of one step.
        tau: Share of the online parameters taken over at each target update.
        target_noise: Deviation of the noise on the target's action, in units of half the action's range.
        noise_clip: Where that noise is cut.
        frame_stack: Frames that are shown together; the same as in set().
        device: Where the networks live.
    """

    on_policy = False
    action_kinds = ("bounded",)
    reads_triplets = False
    groups_at_sync = (0,)
    default_update_batches = 2
    traceable = True

    def __init__(
        self,
        hidden_size: int | Sequence[int] = (400, 300),
        *,
        env: EnvLike = "Pendulum-v1",
        network: MakeNetwork | None = None,
        critic_network: MakeNetwork | None = None,
        gamma: float = 0.99,
        tau: float = 0.005,
        target_noise: float = 0.2,
        noise_clip: float = 0.5,
        frame_stack: int = 1,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        spaces = continuous_spaces(env, "TD3", frame_stack)
        hidden = (hidden_size, hidden_size) if isinstance(hidden_size, int) else hidden_size
        make = network or (lambda shape, outputs: MLP(shape, outputs, hidden))
        make_critic = critic_network or make
        self.env = env
        self.gamma = gamma
        self.tau = tau
        self.target_noise = target_noise
        self.noise_clip = noise_clip
        self.frame_stack = frame_stack
        self.actor = TanhActor(make, spaces).to(device)
        self.critic_1 = QNetwork(make_critic, spaces).to(device)
        self.critic_2 = QNetwork(make_critic, spaces).to(device)
        self.target_actor = TanhActor(make, spaces).to(device).requires_grad_(False)
        self.target_critic_1 = QNetwork(make_critic, spaces).to(device).requires_grad_(False)
        self.target_critic_2 = QNetwork(make_critic, spaces).to(device).requires_grad_(False)
        self._move_targets(1.0)
        self.param = [
            list(self.actor.parameters()),
            [*self.critic_1.parameters(), *self.critic_2.parameters()],
        ]
        self.normal_inputs = {"next_noise": (spaces.action_size,)}
        self.next_noise: Tensor
        self.discount: Tensor

    def action(self, s: Tensor) -> Tensor:
        """Actions [B, A]."""
        a: Tensor = self.actor(s)
        return a

    def _smoothed_target_action(self, next_s: Tensor) -> Tensor:
        """mu'(s') plus clipped noise, within the bounds [B, A] (eq. 14)."""
        noise = (self.next_noise * self.target_noise).clamp(-self.noise_clip, self.noise_clip)
        centre, scale = self.target_actor.centre, self.target_actor.scale
        a = self.target_actor(next_s) + noise * scale
        return torch.clamp(a, centre - scale, centre + scale)

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> list[Tensor]:
        """Losses [B] of actor, -Q_1(s, mu(s)), and critics, the sum of both squared errors."""
        with torch.no_grad():
            next_a = self._smoothed_target_action(next_s)
            next_q = torch.minimum(self.target_critic_1(next_s, next_a), self.target_critic_2(next_s, next_a))
            target = r + self.discount * next_q  # [B]
        q = self.critic_1(s, a)
        error_1 = q - target
        error_2 = self.critic_2(s, a) - target
        self.prioritized_replay.update(0.5 * (error_1.abs() + error_2.abs()).detach())
        self.report(q_mean=q)
        return [-self.critic_1(s, self.actor(s)), error_1.square() + error_2.square()]

    def update_param(self) -> None:
        """Moves the targets towards the online networks."""
        self._move_targets(self.tau)

    def _move_targets(self, tau: float) -> None:
        soft_update(self.target_actor, self.actor, tau)
        soft_update(self.target_critic_1, self.critic_1, tau)
        soft_update(self.target_critic_2, self.critic_2, tau)

    def acting_layers(self) -> list[DenseLayer] | None:
        """The actor's layers, if its network consists of dense ones."""
        return self.actor.dense_layers()
