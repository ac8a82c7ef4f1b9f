"""Names that a mistyped one was probably meant to be."""

from collections.abc import Iterable
from difflib import SequenceMatcher

_LIKE = 0.7  # of difflib's ratio: one letter off in a word of five
_SHORT = 3  # letters of a word in which one may be off, too: dqm


def nearest(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The known names most like a given one, best first; capitals do not count.

    Of dotted names, the last part must be alike; where it is the same or nearly so, the path before it counts less
    (`learning_rate` and `agent.learning_rate` are both near `optimizer.learning_rate`).
    """
    scored = []
    for other in sorted(set(known)):
        whole, leaf = _likeness(name, other), _likeness(_leaf(name), _leaf(other))
        if leaf >= _LIKE:
            scored.append((max(whole, leaf - 0.1), other))
    best = max((score for score, _ in scored), default=0.0)
    close = [(-score, other) for score, other in scored if score > best - 0.1]
    return [other for _, other in sorted(close)[:limit]]


def _leaf(name: str) -> str:
    return name.rpartition(".")[2]


def _likeness(name: str, other: str) -> float:
    """0 to 1. A word that the other begins with is like it: people shorten."""
    one, two = name.lower(), other.lower()
    ratio = SequenceMatcher(None, one, two).ratio()
    if len(one) == len(two) == _SHORT and ratio > 0.5:
        return max(_LIKE, ratio)
    return max(_LIKE, ratio) if min(len(one), len(two)) >= 3 and (one.startswith(two) or two.startswith(one)) else ratio
