"""Re-exports `note_rl.agents.shared.torch.encoded` under the path that configurations and manuals name."""

from note_rl.agents.shared.torch.encoded import EncodedNetwork, encoded_network

__all__ = ["EncodedNetwork", "encoded_network"]
