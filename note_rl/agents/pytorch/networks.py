"""Re-exports `note_rl.agents.shared.torch.networks` under the path that configurations and manuals name."""

from note_rl.agents.shared.torch.networks import (
    CNN,
    MLP,
    MakeNetwork,
    QNetwork,
    TanhActor,
    as_numbers,
    evaluating,
    indicators,
    mlp,
    soft_update,
)

__all__ = [
    "CNN",
    "MLP",
    "MakeNetwork",
    "QNetwork",
    "TanhActor",
    "as_numbers",
    "evaluating",
    "indicators",
    "mlp",
    "soft_update",
]
