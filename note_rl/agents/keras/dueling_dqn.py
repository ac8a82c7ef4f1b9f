"""Re-exports `note_rl.agents.dueling_dqn.keras` under the path at which `dueling` is looked for."""

from note_rl.agents.dueling_dqn.keras import DuelingDQN, DuelingNetwork, dueling

__all__ = ["DuelingDQN", "DuelingNetwork", "dueling"]
