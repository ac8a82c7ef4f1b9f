"""CrossQ in PyTorch (Bhatt et al. 2024, https://arxiv.org/abs/1902.05605)."""

from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor, nn

from note_rl.agents.crossq import CrossQSettings
from note_rl.agents.declaration import Given
from note_rl.agents.sac.torch import SAC
from note_rl.agents.shared.inserted_layers import refuse_images, refuse_without_renorm, renormalised
from note_rl.agents.shared.spaces import ContinuousSpaces, continuous_spaces
from note_rl.agents.shared.torch.layered import with_layers
from note_rl.agents.shared.torch.networks import MakeNetwork, QNetwork, evaluating, mlp


class CrossQ(CrossQSettings, SAC):
    reads_triplets = False
    traceable = True

    def make_networks(self, given: Given) -> None:
        """An actor, critics, and the weight of the entropy."""
        spaces = continuous_spaces(self.env, type(self).__name__, self.frame_stack)
        refuse_images(spaces.obs_shape)
        make = given.network or mlp(given.hidden_size)
        make_critic = given.critic_network or mlp(given.critic_hidden_size)
        self._make_actor(with_layers(make, renormalised, _check), spaces, given.device)
        self._make_critics(with_layers(make_critic, renormalised, _check), spaces, given.device)
        self._make_alpha(given.device)
        self._list_parameters(spaces)
        self.groups_at_sync = (0,) if self.alpha is not None else (0, 2)

    def _make_critics(self, make: MakeNetwork, spaces: ContinuousSpaces, device: str) -> None:
        for number in self._numbers():
            setattr(self, f"critic_{number}", QNetwork(make, spaces).to(device))

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> list[Tensor]:
        """Losses [B] as those of `SAC`, with targets of the critics themselves (figure 2)."""
        alpha = self.entropy_weight()
        with torch.no_grad(), evaluating(self.actor):
            next_a, next_log_prob = self._sample(next_s, self.next_noise)
        both = torch.cat([s, next_s]), torch.cat([a, next_a])
        halves = [critic(*both).chunk(2) for critic in self.critics()]
        next_q = self.smallest([after.detach() for _, after in halves])
        target = r + self.discount * (next_q - alpha * next_log_prob)  # [B]
        errors = [q - target for q, _ in halves]
        self.prioritized_replay.update((reduce(add, [error.abs() for error in errors]) / self.num_critics).detach())
        new_a, log_prob = self._sample(s, self.noise)
        with evaluating(*self.critics()):
            actor_loss = alpha * log_prob - self.value_to_climb([critic(s, new_a) for critic in self.critics()])
        self.report(q_mean=halves[0][0], entropy=-log_prob, alpha=alpha)
        losses = [actor_loss, reduce(add, [error.square() for error in errors])]
        return [*losses, *self._alpha_losses(-log_prob.detach() - self.entropy_wanted)]

    def update_param(self) -> None:
        """Does nothing: there are no target networks."""


def _check(network: Any) -> None:
    if not any(isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d) for layer in network.modules()):
        refuse_without_renorm(network)
