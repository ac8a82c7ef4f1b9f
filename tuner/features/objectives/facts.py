"""Facts of a study of several objectives: the chosen configurations, and the margins for pruning."""

from typing import Final

from tuner.features.objectives.leads import Margins
from tuner.results.records import Fact

FRONT: Final = Fact[tuple[str, ...]]("front", (), tuple[str, ...], is_tracked=True)
"""Labels of the configurations that no other one beats in all objectives, the best score first."""

MARGINS: Final = Fact[Margins | None]("margins", None, Margins)
"""How large a lead at a rung has to be; None: too few runs are complete."""
