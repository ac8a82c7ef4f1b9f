"""Recurrent replay for Q-learning in PyTorch (Kapturowski et al. 2019)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from note_rl.agents.declaration import Given
from note_rl.agents.r2d2 import RESCALING, R2D2Settings, needs_a_memory, steps_of_burn_in
from note_rl.agents.shared.memories import zeros_of
from note_rl.agents.shared.spaces import discrete_spaces
from note_rl.agents.shared.torch.choices import where_allowed
from note_rl.agents.shared.torch.networks import evaluating, soft_update
from note_rl.agents.shared.torch.recurrent import (
    RecurrentNetwork,
    State,
    last_states,
    recurrent_network,
    states_behind_steps,
)
from note_rl.learners.numpy_memory import ActingMemory
from note_rl.learners.numpy_policy import dense_layers_of
from note_rl.rl_pytorch import RL_pytorch
from note_rl.types import Array


class R2D2(R2D2Settings, RL_pytorch):
    reads_triplets = False
    traceable = True

    def make_networks(self, given: Given) -> None:
        """The online network, and a copy for targets."""
        spaces = discrete_spaces(self.env, type(self).__name__, None, None, self.frame_stack)
        make = given.network or recurrent_network
        self.q_net = make(spaces.obs_shape, spaces.num_actions)
        self.target_q_net = make(spaces.obs_shape, spaces.num_actions)
        for net in (self.q_net, self.target_q_net):
            if not isinstance(net, RecurrentNetwork):
                raise needs_a_memory(self)
            net.to(given.device)
        self.target_q_net.requires_grad_(False)
        soft_update(self.target_q_net, self.q_net, 1.0)
        self.param = list(self.q_net.parameters())
        self.discount: Tensor
        self.ended: Tensor

    def initial_state(self, num_envs: int) -> dict[str, Array]:
        """Zeros."""
        return zeros_of({"memory": self.q_net.memory.state_size}, num_envs)

    def action(self, s: Tensor, state: State) -> tuple[Tensor, dict[str, Tensor]]:
        """Q-values [B, A], and the state behind s."""
        features, after = self.q_net.memory.step(s, state["memory"])
        return self.q_net.head(features), {"memory": after}

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> Tensor:
        """Losses [B] of sequences, s [B, T, *obs] and r [B, T]: means over the steps behind the burn-in.

        The loss of a step is half the squared distance of Q(s, a) to `returns`. The Huber loss of DQN leads to their
        median, which takes no notice of an end within the next steps as long as that is less likely than not.
        """
        memories = (self.q_net.memory, self.target_q_net.memory)
        states: Sequence[Tensor] = (self.state_before, self.state_before)
        num_first = steps_of_burn_in(self.burn_in, s.shape[1])
        if num_first:
            with torch.no_grad():
                seen, starts = s[:, :num_first].flatten(0, 1), self.episode_start[:, :num_first].flatten()
                states = last_states(memories, seen, states, starts)
        r, discount, ended = (one[:, num_first:] for one in (r, self.discount, self.ended))  # [B, L]
        s, a, next_s, starts = (one[:, num_first:].flatten(0, 1) for one in (s, a, next_s, self.episode_start))
        mask = None if self.next_action_mask is None else self.next_action_mask[:, num_first:].flatten(0, 1)
        online, target = states_behind_steps(memories, s, states, starts)
        q = self.q_net.head(online[:, : self.q_net.memory.units]).gather(1, a.long().unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            value = self.unscaled(self.next_value(next_s, online, target, mask)).view(r.shape)
            aim = self.scaled(self.returns(r, discount, ended, value))
        self.report(q_mean=self.unscaled(q))
        loss: Tensor = 0.5 * (q.view(r.shape) - aim).square().mean(1)
        return loss

    def returns(self, r: Tensor, discount: Tensor, ended: Tensor, value: Tensor) -> Tensor:
        """Targets [B, L]: rewards of up to `return_steps` steps, and the value behind the last of them.

        There are fewer where the episode or the sequence ends before.

        Args:
            r: Rewards. [B, L]
            discount: Of the value behind each step; 0 where the task ended. [B, L]
            ended: 1 where the episode ended. [B, L]
            value: Of what is seen behind each step. [B, L]
        """
        found = r + discount * value
        for _ in range(1, min(self.return_steps, r.shape[1])):
            later = torch.cat((found[:, 1:], value[:, -1:]), dim=1)
            found = r + discount * torch.where(ended > 0.5, value, later)
        return found

    def next_value(self, next_s: Tensor, online: Tensor, target: Tensor, mask: Tensor | None) -> Tensor:
        """Values of the next observations: Q_target(s', argmax_a Q(s', a)), each network with its own state.

        Args:
            next_s: Those behind each step; the last one of the episode where that ended. [N, *obs]
            online: The states in which the online network sees them. [N, S]
            target: The same of the target network. [N, S]
            mask: Which actions are allowed there; None: all. [N, A]
        """
        with evaluating(self.q_net):
            features, _ = self.q_net.memory.step(next_s, online)
            best = where_allowed(self.q_net.head(features), mask).argmax(1, keepdim=True)
        features, _ = self.target_q_net.memory.step(next_s, target)
        values: Tensor = self.target_q_net.head(features).gather(1, best).squeeze(1)
        return values

    def scaled(self, values: Tensor) -> Tensor:
        """h(x) = sign(x) (sqrt(|x| + 1) - 1) + e x, if values are rescaled (Pohlen et al. 2018, proposition A.2)."""
        if not self.rescale:
            return values
        return values.sign() * ((values.abs() + 1.0).sqrt() - 1.0) + RESCALING * values

    def unscaled(self, values: Tensor) -> Tensor:
        """The inverse of h, in a form that rounds little."""
        if not self.rescale:
            return values
        more = values.abs() + 1.0 + RESCALING
        root = (1.0 + 4.0 * RESCALING * more).sqrt()
        return values.sign() * ((2.0 * more / (root + 1.0)).square() - 1.0)

    def update_param(self) -> None:
        """Moves the target network towards the online one."""
        soft_update(self.target_q_net, self.q_net, self.tau)

    def acting_memory(self) -> ActingMemory | None:
        """The memory of the online network, and the layers behind it, if there are but dense ones around the cell."""
        cell, layers = self.q_net.memory.acting_cell(), dense_layers_of(self.q_net.head)
        return None if cell is None or layers is None else ActingMemory({"memory": cell}, layers)
