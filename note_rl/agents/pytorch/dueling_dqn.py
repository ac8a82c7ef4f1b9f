"""Re-exports `note_rl.agents.dueling_dqn.torch` under the path at which `dueling` is looked for."""

from note_rl.agents.dueling_dqn.torch import DuelingDQN, DuelingNetwork, dueling

__all__ = ["DuelingDQN", "DuelingNetwork", "dueling"]
