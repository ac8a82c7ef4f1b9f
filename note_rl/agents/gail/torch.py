"""Generative adversarial imitation learning in PyTorch (Ho & Ermon 2016, https://arxiv.org/abs/1606.03476)."""

from itertools import chain

import torch
from torch import Tensor
from torch.nn.functional import softplus

from note_rl.agents.declaration import Given
from note_rl.agents.gail import GAILSettings
from note_rl.agents.ppo.torch import PPO
from note_rl.agents.shared.spaces import any_spaces, num_outputs
from note_rl.agents.shared.torch.networks import as_numbers, mlp


class GAIL(GAILSettings, PPO):
    reads_triplets = False
    traceable = True

    def make_networks(self, given: Given) -> None:
        """As `PPO`, and the discriminator."""
        super().make_networks(given)
        spaces = any_spaces(self.env, "GAIL", given.state_dim, given.action_dim, self.frame_stack)
        num_inputs = torch.Size(spaces.obs_shape).numel() + num_outputs(spaces)
        self.discriminator = mlp(given.discriminator_size, "tanh")((num_inputs,), 1).to(given.device)
        self.param = [list(chain(*self.param)), list(self.discriminator.parameters())]
        self.expert_obs: Tensor
        self.expert_action: Tensor

    def _pair(self, s: Tensor, a: Tensor) -> Tensor:
        """The discriminator's input for states and actions, [B, ...]."""
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
