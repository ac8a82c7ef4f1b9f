"""Double DQN in PyTorch (van Hasselt et al. 2016, https://arxiv.org/abs/1509.06461)."""

from torch import Tensor

from note_rl.agents.double_dqn import DoubleDQNSettings
from note_rl.agents.dqn.torch import DQN
from note_rl.agents.shared.torch.choices import where_allowed
from note_rl.agents.shared.torch.networks import evaluating


class DoubleDQN(DoubleDQNSettings, DQN):
    traceable = True

    def next_value(self, next_s: Tensor) -> Tensor:
        """Q_target(s', argmax_a Q(s', a)) [B] (the target of the paper's section on Double DQN)."""
        with evaluating(self.q_net):
            chosen = where_allowed(self.q_net(next_s), self.next_action_mask).argmax(1, keepdim=True)  # [B, 1]
        value: Tensor = self.target_q_net(next_s).gather(1, chosen).squeeze(1)
        return value
