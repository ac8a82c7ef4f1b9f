"""Agents in Keras."""

from note_rl.agents.keras.a2c import A2C
from note_rl.agents.keras.acer import ACER
from note_rl.agents.keras.bc import BC
from note_rl.agents.keras.ddpg import DDPG
from note_rl.agents.keras.double_dqn import DoubleDQN
from note_rl.agents.keras.dqn import DQN
from note_rl.agents.keras.dueling_dqn import DuelingDQN
from note_rl.agents.keras.gail import GAIL
from note_rl.agents.keras.maddpg import MADDPG
from note_rl.agents.keras.ppo import PPO
from note_rl.agents.keras.sac import SAC
from note_rl.agents.keras.td3 import TD3
from note_rl.agents.keras.trpo import TRPO

__all__ = ["A2C", "ACER", "BC", "DDPG", "DQN", "GAIL", "MADDPG", "PPO", "SAC", "TD3", "TRPO", "DoubleDQN", "DuelingDQN"]
