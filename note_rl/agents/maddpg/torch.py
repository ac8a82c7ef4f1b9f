"""Multi-agent deep deterministic policy gradient in PyTorch (Lowe et al. 2017, https://arxiv.org/abs/1706.02275)."""

from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from note_rl.agents.declaration import Given
from note_rl.agents.maddpg import MADDPGSettings
from note_rl.agents.maddpg.joint_spaces import joint_spaces
from note_rl.agents.shared.torch.networks import MakeNetwork, evaluating, indicators, mlp, soft_update
from note_rl.rl_pytorch import RL_pytorch

_FORBIDDEN = -1e9  # logit of an action that an agent does not have


class MADDPG(MADDPGSettings, RL_pytorch):
    reads_triplets = False
    traceable = True

    def make_networks(self, given: Given) -> None:
        """An actor and a critic per agent, and a copy of each for targets."""
        spaces = joint_spaces(self.env, "MADDPG")
        make = given.network or mlp(given.hidden_size)
        make_critic = given.critic_network or make
        self.num_agents = spaces.num_agents
        self.action_size = spaces.action_size
        seen = spaces.num_agents if self.centralised else 1
        critic_shape = (seen * (spaces.obs_size + spaces.action_size),)

        def networks(make: MakeNetwork, shape: tuple[int, ...], outputs: int) -> nn.ModuleList:
            return nn.ModuleList(make(shape, outputs) for _ in range(spaces.num_agents)).to(given.device)

        self.actors = networks(make, (spaces.obs_size,), spaces.action_size)
        self.critics = networks(make_critic, critic_shape, 1)
        self.target_actors = networks(make, (spaces.obs_size,), spaces.action_size).requires_grad_(False)
        self.target_critics = networks(make_critic, critic_shape, 1).requires_grad_(False)
        soft_update(self.target_actors, self.actors, 1.0)
        soft_update(self.target_critics, self.critics, 1.0)
        self.discrete = spaces.allowed is not None
        if spaces.allowed is not None:
            self.forbidden = torch.from_numpy(~spaces.allowed).to(given.device)  # [n, A]
        else:
            self.low, self.high = (torch.from_numpy(bound).to(given.device) for bound in (spaces.low, spaces.high))
        groups = [list(net.parameters()) for net in (*self.actors, *self.critics)]
        self.param = [list(chain(*half)) for half in _halves(groups)] if self.grouped else groups
        self.discount: Tensor

    def action(self, s: Tensor, i: int) -> Tensor:
        """Output of actor i in states [B, *obs]: probabilities [B, A] of discrete actions, else the action [B, A]."""
        return self._act(self.actors, s.flatten(1), i)

    def _act(self, actors: nn.ModuleList, s: Tensor, i: int) -> Tensor:
        outputs: Tensor = actors[i](s)
        if self.discrete:
            return outputs.masked_fill(self.forbidden[i], _FORBIDDEN).softmax(-1)
        return self.low[i] + (self.high[i] - self.low[i]) * 0.5 * (1.0 + outputs.tanh())

    def _chosen(self, actors: nn.ModuleList, s: Tensor) -> Tensor:
        """Greedy actions of all agents, in the form that critics take: [B, n, A]."""
        actions = [self._act(actors, s[:, i], i) for i in range(self.num_agents)]
        if self.discrete:
            actions = [indicators(p.argmax(-1), self.action_size) for p in actions]
        return torch.stack(actions, 1)

    def _value(self, critics: nn.ModuleList, s: Tensor, a: Tensor, i: int) -> Tensor:
        """Estimated values of agent i, [B], for states [B, n, obs] and actions [B, n, A]."""
        if not self.centralised:
            s, a = s[:, i : i + 1], a[:, i : i + 1]
        value: Tensor = critics[i](torch.cat([s.flatten(1), a.flatten(1)], 1)).squeeze(1)
        return value

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> list[Tensor]:
        """Losses [B] of every actor (eq. 5 and 6) and every critic (eq. 6), or their sums if `grouped`."""
        s, next_s = s.flatten(2), next_s.flatten(2)
        if self.discrete:
            a = indicators(a, self.action_size)
        with torch.no_grad(), evaluating(self.actors):
            now, then = self._chosen(self.actors, s), self._chosen(self.target_actors, next_s)
            values = [self._value(self.target_critics, next_s, then, i) for i in range(self.num_agents)]
            targets = r + self.discount * torch.stack(values, 1)  # [B, n]
        q = [self._value(self.critics, s, a, i) for i in range(self.num_agents)]
        errors = [q[i] - targets[:, i] for i in range(self.num_agents)]
        self.prioritized_replay.update(torch.stack(errors, 1).abs().mean(1))
        self.report(q_mean=torch.stack(q))
        losses = [
            *(self._actor_loss(s, now, i) for i in range(self.num_agents)),
            *(error.square() for error in errors),
        ]
        return [torch.stack(half).sum(0) for half in _halves(losses)] if self.grouped else losses

    def _actor_loss(self, s: Tensor, a: Tensor, i: int) -> Tensor:
        """[B]: minus the value of what actor i does, where the others do `a` [B, n, A]."""
        own = self._act(self.actors, s[:, i], i)  # [B, A]
        if not self.discrete:
            return -self._value(self.critics, s, _replaced(a, i, own), i)
        with torch.no_grad(), evaluating(self.critics):
            values = self._values_of_choices(s, a, i)
        entropy = -(own * own.clamp_min(1e-9).log()).sum(-1)
        return -(own * values).sum(-1) - self.entropy_coef * entropy

    def _values_of_choices(self, s: Tensor, a: Tensor, i: int) -> Tensor:
        """Estimated values of agent i for each of its actions, [B, A], where the others do `a` [B, n, A]."""
        size = self.action_size
        choices = torch.eye(size, device=s.device).repeat(len(s), 1)  # [B*A, A]
        joint = _replaced(a.repeat_interleave(size, 0), i, choices)
        return self._value(self.critics, s.repeat_interleave(size, 0), joint, i).reshape(-1, size)

    def update_param(self) -> None:
        """Moves the targets towards the online networks."""
        soft_update(self.target_actors, self.actors, self.tau)
        soft_update(self.target_critics, self.critics, self.tau)


def _replaced(a: Tensor, i: int, own: Tensor) -> Tensor:
    """Actions [B, n, A] with those of agent i replaced by [B, A]."""
    return torch.cat([a[:, :i], own[:, None], a[:, i + 1 :]], 1)


def _halves(items: list[Any]) -> list[list[Any]]:
    """Actors' and critics' parts."""
    middle = len(items) // 2
    return [items[:middle], items[middle:]]
