"""Re-exports `note_rl.agents.shared.torch.distributions` under the path that configurations and manuals name."""

from note_rl.agents.shared.torch.distributions import (
    Bernoulli,
    Categorical,
    DiagonalGaussian,
    Distribution,
    MultiCategorical,
)

__all__ = ["Bernoulli", "Categorical", "DiagonalGaussian", "Distribution", "MultiCategorical"]
