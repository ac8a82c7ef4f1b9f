"""Double DQN in Keras (van Hasselt et al. 2016, https://arxiv.org/abs/1509.06461)."""

from note_rl.agents.double_dqn import DoubleDQNSettings
from note_rl.agents.dqn.keras import DQN


class DoubleDQN(DoubleDQNSettings, DQN):
    pass
