"""Re-exports `note_rl.agents.shared.keras.layered` under the path that configurations and manuals name."""

from note_rl.agents.shared.keras.layered import (
    LayeredNetwork,
    have_one_trunk,
    layered_network,
    policy_and_value,
    through_one_trunk,
)

__all__ = ["LayeredNetwork", "have_one_trunk", "layered_network", "policy_and_value", "through_one_trunk"]
