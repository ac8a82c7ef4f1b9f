"""Values as Hydra's override grammar reads them back unchanged."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hydra.core.override_parser.types import Quote, QuotedString

_RESERVED = frozenset({"null", "true", "false", "nan", "inf"})
_FOR_OTHERS = ("agent.command", "agent.pattern", "agent.resume_flag")
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


def quoted_texts(overrides: Sequence[str]) -> list[str]:
    """What was typed; a setting that is a text for another program, with any characters in it, in Hydra's quotes."""
    return [_quoted(override) for override in overrides]


def _quoted(override: str) -> str:
    key, _, value = override.partition("=")
    known = key.lstrip("+") not in _FOR_OTHERS or value[:1] in ("", "'", '"') or value in ("null", "???")
    return override if known else f"{key}={to_hydra(value)}"
