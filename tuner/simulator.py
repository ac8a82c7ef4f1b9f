"""The simulated agent under the path that configurations name; it lives in `tuner.runs.simulator`."""

from tuner.runs.simulator import Synthetic

__all__ = ["Synthetic"]
