"""The constraints of a study, as its summary holds them."""

from typing import Final

from tuner.results.records import Fact

CONSTRAINTS: Final = Fact[tuple[str, ...]]("constraints", (), tuple[str, ...], stage=None)
"""As they are typed; kept with what a study must not change."""
