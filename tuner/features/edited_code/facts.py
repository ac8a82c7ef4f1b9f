"""The files that were edited while a study ran."""

from typing import Final

from tuner.results.records import Fact

EDITED: Final = Fact[tuple[str, ...]]("edited_code", (), tuple[str, ...])
"""Paths from the folder in which the study was started, in the order in which the edits were noticed."""
