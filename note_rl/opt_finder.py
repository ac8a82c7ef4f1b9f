"""`OptFinder` under the manuals' import path; it is the platform's, `tuner.finders`."""

from tuner.finders import OptFinder

__all__ = ["OptFinder"]
