"""Agents in Keras."""

from note_rl.agents.a2c.keras import A2C
from note_rl.agents.acer.keras import ACER
from note_rl.agents.alphazero.keras import AlphaZero
from note_rl.agents.bc.keras import BC
from note_rl.agents.crossq.keras import CrossQ
from note_rl.agents.ddpg.keras import DDPG
from note_rl.agents.double_dqn.keras import DoubleDQN
from note_rl.agents.dqn.keras import DQN
from note_rl.agents.dueling_dqn.keras import DuelingDQN
from note_rl.agents.gail.keras import GAIL
from note_rl.agents.maddpg.keras import MADDPG
from note_rl.agents.ppo.keras import PPO
from note_rl.agents.r2d2.keras import R2D2
from note_rl.agents.sac.keras import SAC
from note_rl.agents.sac_discrete.keras import SACDiscrete
from note_rl.agents.td3.keras import TD3
from note_rl.agents.tqc.keras import TQC
from note_rl.agents.trpo.keras import TRPO

__all__ = [
    "A2C",
    "ACER",
    "BC",
    "DDPG",
    "DQN",
    "GAIL",
    "MADDPG",
    "PPO",
    "R2D2",
    "SAC",
    "TD3",
    "TQC",
    "TRPO",
    "AlphaZero",
    "CrossQ",
    "DoubleDQN",
    "DuelingDQN",
    "SACDiscrete",
]
