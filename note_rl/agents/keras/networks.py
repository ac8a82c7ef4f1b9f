"""Re-exports `note_rl.agents.shared.keras.networks` under the path that configurations and manuals name."""

from note_rl.agents.shared.keras.networks import (
    CNN,
    MLP,
    MakeNetwork,
    QNetwork,
    TanhActor,
    as_numbers,
    mlp,
    small_uniform,
    soft_update,
)

__all__ = ["CNN", "MLP", "MakeNetwork", "QNetwork", "TanhActor", "as_numbers", "mlp", "small_uniform", "soft_update"]
