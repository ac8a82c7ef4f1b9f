"""Proximal policy optimization in PyTorch (Schulman et al. 2017, https://arxiv.org/abs/1707.06347)."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from note_rl.agents.pytorch.actor_critic import ActorCritic
from note_rl.agents.pytorch.networks import MakeNetwork
from note_rl.environments import EnvLike


class PPO(ActorCritic):
    """Clipped policy gradient with generalised advantages, for actions of all kinds.

    Acts with `SoftmaxPolicy` where it chooses, with `GaussianPolicy` where actions are numbers.

    Args:
        state_dim: Length of an observation; None: read from the environment, as action_dim.
        hidden_size: Width of the hidden layers, one number or one per layer; a single number means two layers.
        action_dim: Number of actions to choose one of.
        env: Environment, id, list or factory.
        network: Makes a network from (observation shape, number of outputs); None: a tanh `MLP` of `hidden_size`.
        critic_network: The same for the critic; None: as `network`.
        gamma: Discount of one step.
        gae_lambda: Weight of long against short returns in the advantage.
        clip: How far the probability ratio may leave 1 before the gradient is cut.
        clip_value: How far the value may leave that of the rollout before its gradient is cut; None: any distance.
        entropy_coef: Weight of the entropy bonus.
        value_coef: Weight of the value loss.
        normalise_advantage: Whether advantages get mean 0 and deviation 1 over the rollout.
        initial_log_std: Log deviation of continuous actions at the start; it is learned, the same for all states.
        frame_stack: Frames that are shown together; the same as in set().
        device: Where the networks live.
    """

    batch_attributes: ClassVar[tuple[str, ...]] = ("log_prob_old", "advantage", "return_", "value_old")
    traceable = True

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
            entropy_coef=entropy_coef,
            value_coef=value_coef,
            normalise_advantage=normalise_advantage,
            initial_log_std=initial_log_std,
            frame_stack=frame_stack,
            device=device,
        )
        self.clip = clip
        self.clip_value = clip_value
        self.log_prob_old: Tensor
        self.value_old: Tensor

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> Tensor:
        """Loss [B]: clipped surrogate (eq. 7), squared value error, minus the entropy bonus (eq. 9)."""
        log_prob, entropy, value = self.log_prob_entropy_and_value(s, a)
        ratio = (log_prob - self.log_prob_old).exp()
        clipped = ratio.clamp(1.0 - self.clip, 1.0 + self.clip)
        surrogate = torch.minimum(ratio * self.advantage, clipped * self.advantage)
        value_error = self._value_error(value)
        self.prioritized_replay.update(value_error.detach().sqrt(), ratio.detach())
        self.report(entropy=entropy, clip_fraction=clipped != ratio, value_loss=value_error)
        loss: Tensor = -surrogate + self.value_coef * value_error - self.entropy_coef * entropy
        return loss

    def _value_error(self, value: Tensor) -> Tensor:
        """Squared distance [B] to the return; if clipped, the larger one of the value and the clipped value."""
        error = (value - self.return_).square()
        if self.clip_value is None:
            return error
        clipped = self.value_old + (value - self.value_old).clamp(-self.clip_value, self.clip_value)
        return torch.maximum(error, (clipped - self.return_).square())
