"""Double DQN in PyTorch (van Hasselt et al. 2016, https://arxiv.org/abs/1509.06461)."""

from note_rl.agents.double_dqn import DoubleDQNSettings
from note_rl.agents.dqn.torch import DQN


class DoubleDQN(DoubleDQNSettings, DQN):
    traceable = True
