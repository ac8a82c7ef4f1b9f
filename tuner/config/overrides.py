"""Values as Hydra's override grammar reads them back unchanged."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hydra.core.override_parser.types import Quote, QuotedString

_RESERVED = frozenset({"null", "true", "false", "nan", "inf"})
_FOR_OTHERS = ("agent.command", "agent.pattern", "agent.resume_flag")
_COUNTS = ("training.total_steps", "study.max_env_steps")
UNITS = {"M": 1_000_000, "k": 1_000}
"""Units of a number of steps."""
_SHORT = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?|\.\d+)([kKM])(?![\w.])")
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
    """The overrides, with the texts for other programs, which may have any characters, in Hydra's quotes.

    Numbers of environment steps may be short, 30k or 1.5M, and are written in full.
    """
    return [_counted(_quoted(override)) for override in overrides]


def in_full(text: str) -> str:
    """A text with numbers such as 30k and 1.5M in full: 30000, 1500000."""
    return _SHORT.sub(lambda found: f"{float(found[1]) * UNITS[found[2].replace('K', 'k')]:.15g}", text)


def _counted(override: str) -> str:
    key, _, value = override.partition("=")
    if key.lstrip("+") not in _COUNTS:
        return override
    inner = value[1:-1] if value[:1] in ("'", '"') and value[-1:] == value[:1] else ""
    return f"{key}={in_full(inner if _SHORT.fullmatch(inner) else value)}"


def _quoted(override: str) -> str:
    key, _, value = override.partition("=")
    known = key.lstrip("+") not in _FOR_OTHERS or value[:1] in ("", "'", '"') or value in ("null", "???")
    return override if known else f"{key}={to_hydra(value)}"
