"""Re-exports `note_rl.agents.shared.keras.distributions` under the path that configurations and manuals name."""

from note_rl.agents.shared.keras.distributions import (
    Bernoulli,
    Categorical,
    DiagonalGaussian,
    Distribution,
    MultiCategorical,
    at_action,
)

__all__ = ["Bernoulli", "Categorical", "DiagonalGaussian", "Distribution", "MultiCategorical", "at_action"]
