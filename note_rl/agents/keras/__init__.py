"""Agents in Keras."""

from note_rl.agents.keras.dqn import DQN
from note_rl.agents.keras.ppo import PPO

__all__ = ["DQN", "PPO"]
