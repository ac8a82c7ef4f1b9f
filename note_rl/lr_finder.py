"""`LRFinder` under the manuals' import path; it is the platform's, `tuner.finders`."""

from tuner.finders import LRFinder

__all__ = ["LRFinder"]
