"""How constraints are typed."""

import re
from collections.abc import Sequence
from typing import Final

from tuner.checking.features import InChecking
from tuner.features.constraints.inequalities import KEY

_BARE: Final = re.compile(r"[^\s'\"\[\],]*[<>][^\s'\"\[\],]*")
"""A constraint without quotation marks, which Hydra asks for where a text has a < or >."""


def _quoted(overrides: Sequence[str]) -> list[str]:
    """What was typed, with quotation marks around each constraint: `study.constraints=[seconds<600]` may lack them."""
    return [_with_quotes(word) if word.partition("=")[0] == KEY else word for word in overrides]


def _with_quotes(word: str) -> str:
    key, _, value = word.partition("=")
    return word if "'" in value or '"' in value else f"{key}={_BARE.sub(lambda found: repr(found[0]), value)}"


PART = InChecking(meant=_quoted)
