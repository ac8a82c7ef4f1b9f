"""AlphaZero for one player in PyTorch (Silver et al. 2018, https://doi.org/10.1126/science.aar6404)."""

from typing import Any

import torch
from torch import Tensor

from note_rl.agents.actor_critic.torch import ActorCritic
from note_rl.agents.alphazero import AlphaZeroSettings, Guidance, searched, simulator_in, unit_of_values
from note_rl.agents.declaration import Given
from note_rl.agents.shared.torch.choices import where_allowed
from note_rl.agents.shared.torch.layered import through_one_trunk
from note_rl.agents.shared.torch.recurrent import State
from note_rl.learners.numpy_policy import dense_layers_of
from note_rl.types import Array, FloatArray


class AlphaZero(AlphaZeroSettings, ActorCritic):
    traceable = True

    def make_networks(self, given: Given) -> None:
        """The networks of `ActorCritic`, the simulator, and the unit of values."""
        super().make_networks(given)
        self.simulator = simulator_in(self.env, given.simulator, type(self).__name__)
        self.guidance = Guidance()
        self._unit = unit_of_values(self.gamma)  # once: values stay as they are if the discount changes in training
        self.behaviour: Tensor

    def action(self, s: Tensor, state: State | None = None) -> Any:
        """Probabilities [B, A]: the shares of visits at the root, after a search from each of the states."""
        del state  # there is no memory
        obs = s.cpu().numpy()
        evaluate = self.guidance(self.acting_layers(), dense_layers_of(self.critic), self._unit, self._guide, obs)
        return torch.from_numpy(searched(self, obs, evaluate)).to(s.device)

    def _guide(self, obs: Array) -> tuple[FloatArray, FloatArray]:
        """The policy [B, A] and the value [B] of observations [B, *obs]."""
        with torch.inference_mode():
            outputs, value = self._policy_and_value(torch.from_numpy(obs).to(self.param[0][0].device))
        return outputs.softmax(-1).cpu().numpy(), value.cpu().numpy()

    def value(self, s: Tensor, state: State | None = None) -> Any:
        """V(s) [B]."""
        return self._unit * super().value(s, state)

    def _policy_and_value(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, A] and values [B]."""
        if self.one_trunk:
            outputs, v = through_one_trunk(self.actor, self.critic, s)
            return outputs, self._unit * v.squeeze(1)
        return self.actor(s), self.value(s)

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> Tensor:
        """Loss [B]: -sum over actions of pi * log p, and the squared error of the value in its unit (methods, eq. 1).

        pi are the probabilities after the search, p is the policy. Weight decay belongs to the optimizer.
        """
        outputs, value = self._policy_and_value(s)
        policy_loss = -(self.behaviour * where_allowed(outputs, self.action_mask).log_softmax(-1)).sum(-1)
        value_error = ((value - self.return_) / self._unit).square()
        self.report(policy_loss=policy_loss, value_loss=value_error)
        loss: Tensor = policy_loss + self.value_coef * value_error
        return loss
