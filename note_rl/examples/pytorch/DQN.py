"""Deep Q-network, `DQN(state_dim, hidden_size, action_dim)`."""
# ruff: noqa: N999 (the manuals' name of the module)

from note_rl.agents.pytorch import DQN

__all__ = ["DQN"]
