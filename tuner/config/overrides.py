"""Values as Hydra's override grammar reads them back unchanged."""

import re
from collections.abc import Mapping
from typing import Any

from hydra.core.override_parser.types import Quote, QuotedString

_RESERVED = frozenset({"null", "true", "false", "nan", "inf"})
_PLAIN = re.compile(r"[A-Za-z][\w-]*(\.[A-Za-z][\w-]*)*", re.ASCII)


def to_hydra(value: Any) -> str:
    """The text that stands for a value behind the = of an override: quoted only if it must be."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{to_hydra(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(to_hydra, value)) + "]"
    text = str(value)
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    return QuotedString(text, Quote.single).with_quotes()
