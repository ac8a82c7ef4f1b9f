"""Facts of a population besides its runs."""

from typing import Final

from tuner.results.records import Fact

EVOLVE: Final = "evolve"
"""In place of screening: members that are compared, copied and changed while they train."""
STATIC: Final = Fact[str | None]("static_label", None, str | None, kept_as="static")
"""Label of the configuration that did not change with which the winner is compared."""
