"""Actor-critic with experience replay in PyTorch, for discrete actions (Wang et al. 2016).

Equations and algorithms are those of https://arxiv.org/abs/1611.01224.
"""

import torch
from torch import Tensor

from note_rl.agents.acer import ACERSettings
from note_rl.agents.declaration import Given
from note_rl.agents.shared.spaces import discrete_spaces
from note_rl.agents.shared.torch.choices import where_allowed
from note_rl.agents.shared.torch.encoded import EncodedNetwork
from note_rl.agents.shared.torch.layered import LayeredNetwork
from note_rl.agents.shared.torch.networks import MLP, evaluating, indicators, mlp, soft_update
from note_rl.learners.numpy_policy import DenseLayer, dense_layers_of
from note_rl.policy import Policy, SoftmaxPolicy
from note_rl.rl_pytorch import RL_pytorch


class ACER(ACERSettings, RL_pytorch):
    reads_triplets = False
    traceable = True

    def make_networks(self, given: Given) -> None:
        """The policy, its average and the action values."""
        spaces = discrete_spaces(self.env, type(self).__name__, given.state_dim, given.action_dim, self.frame_stack)
        make = given.network or mlp(given.hidden_size, "tanh")
        self.actor = make(spaces.obs_shape, spaces.num_actions).to(given.device)
        self.critic = make(spaces.obs_shape, spaces.num_actions).to(given.device)
        self.average_actor = make(spaces.obs_shape, spaces.num_actions).to(given.device).requires_grad_(False)
        for net, output_gain in ((self.actor, 0.01), (self.critic, 1.0)):
            if isinstance(net, MLP | LayeredNetwork | EncodedNetwork):
                net.start_orthogonal(output_gain)
        soft_update(self.average_actor, self.actor, 1.0)
        self.param = [list(self.actor.parameters()), list(self.critic.parameters())]
        self.behaviour: Tensor
        self.discount: Tensor
        self.ended: Tensor

    def action(self, s: Tensor) -> Tensor:
        """Probabilities [B, A]."""
        f: Tensor = self.actor(s).softmax(-1)
        return f

    def __call__(self, s: Tensor, a: Tensor, next_s: Tensor, r: Tensor, d: Tensor) -> Tensor:
        """Losses [B] of sequences: means over their steps, s [B, T, *obs] and r [B, T] (algorithm 2).

        The policy's loss has the gradient that `policy_gradient` says, as f is multiplied by it. The critic's is
        (Q_ret - Q(s, a))^2 / 2.
        """
        mask, next_mask = self.action_mask, self.next_action_mask
        f = where_allowed(_of_steps(self.actor, s), mask).softmax(-1)  # [B, T, A], as all that is not summed over A
        q = _of_steps(self.critic, s)
        q_chosen = _at(q, a)  # [B, T]
        with torch.no_grad():
            with evaluating(self.actor, self.critic):
                next_f = where_allowed(_of_steps(self.actor, next_s), next_mask).softmax(-1)
                next_q = _of_steps(self.critic, next_s)
            ratio = f / (self.behaviour + self.epsilon)
            next_value = (next_f * next_q).sum(-1)
            q_ret = retrace(r, self.discount, self.ended, next_value, q_chosen, _at(ratio, a))
            gradient = self.policy_gradient(f, q, a, ratio, q_ret)
            if self.trust_region:
                average = where_allowed(_of_steps(self.average_actor, s), mask).softmax(-1)
                gradient = within_trust_region(gradient, f, average, self.delta, self.epsilon)
        policy_loss = -(gradient * f).sum(-1)
        value_loss = 0.5 * (q_ret - q_chosen).square()
        self.report(q_mean=q_chosen, entropy=-(f * (f + self.epsilon).log()).sum(-1), value_loss=value_loss)
        return (policy_loss + self.value_coef * value_loss).mean(1)

    def policy_gradient(self, f: Tensor, q: Tensor, a: Tensor, ratio: Tensor, q_ret: Tensor) -> Tensor:
        """Direction of ascent in the probabilities f [B, T, A], as d/df of this (eq. 9, entropy bonus).

        min(c, rho) log f(a) (Q_ret - V) + sum_b [1 - c / rho(b)]_+ f(b) log f(b) (Q(b) - V) + entropy_coef * H(f),

        where f(b), unlike log f(b), counts as a number. V = sum_b f(b) Q(b).

        Args:
            f: pi(.|s). [B, T, A]
            q: Q(s, .). [B, T, A]
            a: The actions taken. [B, T]
            ratio: rho = pi / mu of all actions. [B, T, A]
            q_ret: Retrace targets. [B, T]
        """
        value = (f * q).sum(-1)  # [B, T]
        weight = _at(ratio, a).clamp(max=self.importance_c)
        taken = indicators(a, f.shape[-1]) * (weight * (q_ret - value))[..., None] / (f + self.epsilon)
        made_up = (1.0 - self.importance_c / (ratio + self.epsilon)).relu() * (q - value[..., None])
        entropy = -((f + self.epsilon).log() + 1.0)
        return taken + made_up + self.entropy_coef * entropy

    def update_param(self) -> None:
        """Moves the average policy towards the policy (section 3.3)."""
        soft_update(self.average_actor, self.actor, 1.0 - self.ema_alpha)

    def default_policy(self) -> Policy:
        """Until set() says otherwise."""
        return SoftmaxPolicy()

    def acting_layers(self) -> list[DenseLayer] | None:
        """The actor's layers, if it consists of dense ones."""
        return dense_layers_of(self.actor, "softmax")


def retrace(
    reward: Tensor, discount: Tensor, ended: Tensor, next_value: Tensor, q_chosen: Tensor, ratio: Tensor
) -> Tensor:
    """Returns targets of action values along sequences, [B, T] (eq. 5; Munos et al. 2016, https://arxiv.org/abs/1606.02647).

    Q_ret_t = r_t + discount_t * (V(s_t+1) + min(1, rho_t+1) * (Q_ret_t+1 - Q_t+1)), where the last term is left out at
    the end of an episode and of the sequence. A time limit is such an end, with the value of what was seen last.

    Args:
        reward: r. [B, T]
        discount: gamma, or 0 where the task ended. [B, T]
        ended: 1 where the episode ended. [B, T]
        next_value: V of the true next observation. [B, T]
        q_chosen: Q of the action taken. [B, T]
        ratio: rho of the action taken. [B, T]
    """
    one_step_error = (reward + discount * next_value - q_chosen).unbind(1)
    trace = (discount * (1.0 - ended))[:, :-1] * ratio[:, 1:].clamp(max=1.0)
    errors = [one_step_error[-1]]  # Q_ret - Q, from the last step to the first
    for error, carried in zip(one_step_error[-2::-1], trace.unbind(1)[::-1], strict=True):
        errors.append(torch.addcmul(error, carried, errors[-1]))
    return q_chosen + torch.stack(errors[::-1], dim=1)


def within_trust_region(gradient: Tensor, f: Tensor, average: Tensor, delta: float, epsilon: float) -> Tensor:
    """The nearest to a gradient g along which KL(average || f) grows by no more than delta: eq. 12 [..., A].

    g - max(0, (k.g - delta) / |k|^2) k,  k = d/df KL(average || f) = -average / f

    Args:
        gradient: g, by the probabilities f. [..., A]
        f: The policy. [..., A]
        average: The average policy. [..., A]
        delta: Bound of k.g.
        epsilon: Added to f.
    """
    k = -average / (f + epsilon)
    excess = ((k * gradient).sum(-1, keepdim=True) - delta) / k.square().sum(-1, keepdim=True)
    return gradient - excess.relu() * k


def _of_steps(network: torch.nn.Module, s: Tensor) -> Tensor:
    """Outputs [B, T, A] of a network for each step of sequences [B, T, *obs]."""
    outputs: Tensor = network(s.flatten(0, 1))
    return outputs.reshape(*s.shape[:2], -1)


def _at(values: Tensor, a: Tensor) -> Tensor:
    """Those of the actions taken: [B, T, A] -> [B, T]."""
    return values.gather(-1, a[..., None]).squeeze(-1)
