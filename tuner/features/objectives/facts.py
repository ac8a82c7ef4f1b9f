"""The front of a study: what it has chosen by several objectives."""

from typing import Final

from tuner.results.records import Fact

FRONT: Final = Fact[tuple[str, ...]]("front", (), tuple[str, ...], is_tracked=True)
"""Labels of the configurations that no other one beats in all objectives, the best score first."""
