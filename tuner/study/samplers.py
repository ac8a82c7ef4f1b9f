"""The grid under the path that configurations once named; it lives in `tuner.study.sampling.sampler_factory`."""

from tuner.study.sampling.sampler_factory import grid

__all__ = ["grid"]
