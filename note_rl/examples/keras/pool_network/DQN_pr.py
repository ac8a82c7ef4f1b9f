"""Deep Q-network for prioritized replay: the same agent, with set(PR=True)."""
# ruff: noqa: N999 (the manuals' name of the module)

from note_rl.examples.keras.pool_network.DQN import DQN

__all__ = ["DQN"]
