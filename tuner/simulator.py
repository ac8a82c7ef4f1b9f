"""The simulated agents under the paths that configurations name; they live in `tuner.runs`."""

from tuner.runs.drifting import Drifting
from tuner.runs.simulator import Synthetic

__all__ = ["Drifting", "Synthetic"]
