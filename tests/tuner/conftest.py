"""Fixtures of the tests of `tuner`."""

from tests.tuner.command_line import tuner

__all__ = ["tuner"]
