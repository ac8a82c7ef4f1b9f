"""Agents in PyTorch."""

from note_rl.agents.pytorch.dqn import DQN
from note_rl.agents.pytorch.ppo import PPO

__all__ = ["DQN", "PPO"]
