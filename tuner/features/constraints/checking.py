"""How constraints are typed."""

import re
from collections.abc import Sequence
from typing import Final

from tuner.checking.features import InChecking
from tuner.features.constraints.inequalities import KEY

_PIECE: Final = re.compile(r"'[^']*'|\"[^\"]*\"|[^\s'\"\[\],]*[<>][^\s'\"\[\],]*")
"""A text in quotation marks, or a constraint without them; Hydra requires them around a text with a < or >."""


def _quoted(overrides: Sequence[str]) -> list[str]:
    """The overrides, with quotation marks around each constraint: `study.constraints=[seconds<600]` may omit them."""
    return [_with_quotes(word) if word.partition("=")[0] == KEY else word for word in overrides]


def _with_quotes(word: str) -> str:
    key, _, value = word.partition("=")
    return f"{key}={_PIECE.sub(lambda found: found[0] if found[0][0] in _MARKS else repr(found[0]), value)}"


_MARKS: Final = "'\""

PART = InChecking(meant=_quoted)
