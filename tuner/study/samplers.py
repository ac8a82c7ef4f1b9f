"""The grid under the path that configurations once named; it lives in `tuner.study.sampling.samplers`."""

from tuner.study.sampling.samplers import grid

__all__ = ["grid"]
