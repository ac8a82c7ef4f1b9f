"""Re-exports `note_rl.agents.shared.keras.encoded` under the path that configurations and manuals name."""

from note_rl.agents.shared.keras.encoded import EncodedNetwork, encoded_network

__all__ = ["EncodedNetwork", "encoded_network"]
