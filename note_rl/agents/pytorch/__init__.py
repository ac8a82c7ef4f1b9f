"""Agents in PyTorch."""

from note_rl.agents.a2c.torch import A2C
from note_rl.agents.acer.torch import ACER
from note_rl.agents.alphazero.torch import AlphaZero
from note_rl.agents.bc.torch import BC
from note_rl.agents.crossq.torch import CrossQ
from note_rl.agents.ddpg.torch import DDPG
from note_rl.agents.double_dqn.torch import DoubleDQN
from note_rl.agents.dqn.torch import DQN
from note_rl.agents.dueling_dqn.torch import DuelingDQN
from note_rl.agents.gail.torch import GAIL
from note_rl.agents.maddpg.torch import MADDPG
from note_rl.agents.ppo.torch import PPO
from note_rl.agents.r2d2.torch import R2D2
from note_rl.agents.sac.torch import SAC
from note_rl.agents.sac_discrete.torch import SACDiscrete
from note_rl.agents.td3.torch import TD3
from note_rl.agents.tqc.torch import TQC
from note_rl.agents.trpo.torch import TRPO

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
