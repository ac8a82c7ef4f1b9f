"""Fixtures of the tests of `tuner`."""

from tests.tuner.command_line import files_read_once, tuner

__all__ = ["files_read_once", "tuner"]
