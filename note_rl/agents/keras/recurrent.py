"""Names of `note_rl.agents.shared.keras.recurrent`, under the path that configurations and manuals name."""

from note_rl.agents.shared.keras.recurrent import RecurrentNetwork, recurrent_network

__all__ = ["RecurrentNetwork", "recurrent_network"]
