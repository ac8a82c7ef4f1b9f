"""Generative adversarial imitation learning in PyTorch (Ho & Ermon 2016, https://arxiv.org/abs/1606.03476)."""

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor
from torch.nn.functional import softplus

from note_rl.agents.pytorch.networks import MLP, MakeNetwork, as_numbers
from note_rl.agents.pytorch.ppo import PPO
from note_rl.agents.spaces import any_spaces, num_outputs
from note_rl.environments import EnvLike


class GAIL(PPO):
    """PPO whose reward is how much a discriminator takes the agent for the expert.

    Train with `IRL=True, PPO=True, expert=..., normalise_obs=True`: the environment's reward is then seen in the logs
    only. The reward is the log-odds of the discriminator, log D - log(1 - D) (Fu et al. 2018,
    https://arxiv.org/abs/1710.11248, section 6): -log(1 - D) of the first paper is positive whatever the agent does and
    so pays for every step survived, which solves CartPole without any expert. Its gradient is kept small at the
    samples (Mescheder et al. 2018, https://arxiv.org/abs/1801.04406, eqs. 9 and 10), or it soon knows each expert
    state by heart and says nothing of what lies between.

    Args:
        gradient_penalty: Weight of the squared gradient of the discriminator at the samples of either side.
        discriminator_size: Width of the discriminator's hidden layers, one number or one per layer.
        state_dim, hidden_size, action_dim, env, network, critic_network, gamma, gae_lambda, clip, clip_value,
            entropy_coef, value_coef, normalise_advantage, initial_log_std, frame_stack, device: As for `PPO`.
    """

    batch_attributes = ("log_prob_old", "advantage", "return_", "value_old", "expert_obs", "expert_action")
    reads_triplets = False
    traceable = True

    def __init__(
        self,
        state_dim: int | None = None,
        hidden_size: int | Sequence[int] = (64, 64),
        action_dim: int | None = None,
        *,
        discriminator_size: int | Sequence[int] = (64, 64),
        gradient_penalty: float = 1.0,
        env: EnvLike = "CartPole-v1",
        network: MakeNetwork | None = None,
        critic_network: MakeNetwork | None = None,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip: float = 0.2,
        clip_value: float | None = None,
        entropy_coef: float = 0.0,
        value_coef: float = 0.5,
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
            clip=clip,
            clip_value=clip_value,
            entropy_coef=entropy_coef,
            value_coef=value_coef,
            normalise_advantage=normalise_advantage,
            initial_log_std=initial_log_std,
            frame_stack=frame_stack,
            device=device,
        )
        spaces = any_spaces(env, "GAIL", state_dim, action_dim, frame_stack)
        self.gradient_penalty = gradient_penalty
        size = discriminator_size
        num_inputs = torch.Size(spaces.obs_shape).numel() + num_outputs(spaces)
        self.discriminator = MLP((num_inputs,), 1, (size, size) if isinstance(size, int) else size, "tanh").to(device)
        self.param = [list(chain(*self.param)), list(self.discriminator.parameters())]
        self.expert_obs: Tensor
        self.expert_action: Tensor

    def _pair(self, s: Tensor, a: Tensor) -> Tensor:
        """What the discriminator sees of states and actions, [B, ...]."""
        action = a.float() if self.choice is None else self.choice.indicators(a)
        return torch.cat([as_numbers(s).flatten(1), action], dim=1)

    def reward(self, s: Tensor, a: Tensor, next_s: Tensor) -> Tensor:
        """Log-odds [B] that the expert did a in s."""
        scores: Tensor = self.discriminator(self._pair(s, a))
        return scores[:, 0]

    def __call__(  # type: ignore[override]  # two losses
        self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor
    ) -> list[Tensor]:
        """Losses [B] of actor and critic (PPO's), and of the discriminator: the cross-entropy of telling them apart."""
        pairs = [self._pair(self.expert_obs, self.expert_action), self._pair(s, a)]
        expert, agent = (pair.requires_grad_() for pair in pairs)
        expert_odds, agent_odds = self.discriminator(expert)[:, 0], self.discriminator(agent)[:, 0]
        slopes = torch.autograd.grad(expert_odds.sum() + agent_odds.sum(), [expert, agent], create_graph=True)
        self.report(expert_log_odds=expert_odds, agent_log_odds=agent_odds)
        penalty = sum(slope.square().sum(1) for slope in slopes)
        telling_apart = softplus(-expert_odds) + softplus(agent_odds) + 0.5 * self.gradient_penalty * penalty
        return [super().__call__(s, a, next_s, r, d), telling_apart]
