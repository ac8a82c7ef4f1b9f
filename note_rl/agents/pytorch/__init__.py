"""Agents in PyTorch."""

from note_rl.agents.pytorch.a2c import A2C
from note_rl.agents.pytorch.acer import ACER
from note_rl.agents.pytorch.bc import BC
from note_rl.agents.pytorch.ddpg import DDPG
from note_rl.agents.pytorch.double_dqn import DoubleDQN
from note_rl.agents.pytorch.dqn import DQN
from note_rl.agents.pytorch.dueling_dqn import DuelingDQN
from note_rl.agents.pytorch.gail import GAIL
from note_rl.agents.pytorch.maddpg import MADDPG
from note_rl.agents.pytorch.ppo import PPO
from note_rl.agents.pytorch.sac import SAC
from note_rl.agents.pytorch.td3 import TD3
from note_rl.agents.pytorch.trpo import TRPO

__all__ = ["A2C", "ACER", "BC", "DDPG", "DQN", "GAIL", "MADDPG", "PPO", "SAC", "TD3", "TRPO", "DoubleDQN", "DuelingDQN"]
