"""What to say of a name that there is not."""

from collections.abc import Iterable

from note_rl.support.spelling import nearest


def one_of(meant: Iterable[str]) -> str:
    """`; did you mean X or Y?`, or nothing if there is none."""
    listed = " or ".join(meant)
    return f"; did you mean {listed}?" if listed else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or the names there are if none is near, or nothing if there are none or too many."""
    known = sorted(set(known))
    close = nearest(name, known)
    if close:
        return one_of(close)
    return f"; there is {', '.join(known)}" if 0 < len(known) <= 12 else ""
