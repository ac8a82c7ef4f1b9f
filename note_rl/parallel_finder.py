"""`ParallelFinder` under the manuals' import path; it is the platform's, `tuner.finders`."""

from tuner.finders import ParallelFinder

__all__ = ["ParallelFinder"]
