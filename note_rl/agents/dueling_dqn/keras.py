"""Dueling DQN in Keras (Wang et al. 2016, https://arxiv.org/abs/1511.06581)."""

from note_rl.agents.declaration import Given
from note_rl.agents.dqn.keras import DQN
from note_rl.agents.dueling_dqn import DuelingDQNSettings
from note_rl.agents.shared.keras.dueling import DuelingNetwork, dueling
from note_rl.agents.shared.keras.networks import mlp

__all__ = ["DuelingDQN", "DuelingNetwork", "dueling"]


class DuelingDQN(DuelingDQNSettings, DQN):
    def make_networks(self, given: Given) -> None:
        """As `DQN`, with one layer before the streams where a single number is given."""
        shared = given.network or mlp(given.hidden_size, num_layers=1)
        super().make_networks(Given(**{**vars(given), "network": shared}))
