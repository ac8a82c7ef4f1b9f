"""Several objectives at once: which configurations no other one beats in all of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

Name = TypeVar("Name")
Losses = tuple[float, ...]
"""One number for each objective, lower is better."""


def front_of(losses: Mapping[Name, Losses]) -> list[Name]:
    """The Pareto set: who is not beaten, in the order given. Equals do not beat each other."""
    return [name for name, own in losses.items() if not is_beaten(own, losses.values())]


def as_losses(values: Sequence[float], maximised: Sequence[bool]) -> Losses:
    """Values of each objective turned so that lower is better."""
    return tuple(-value if up else value for value, up in zip(values, maximised, strict=True))


def is_beaten(own: Losses, others: Iterable[Losses]) -> bool:
    """Whether one of the others is at least as good in every objective and better in one."""
    return any(other != own and all(a <= b for a, b in zip(other, own, strict=True)) for other in others)


def spread_over_front(losses: Mapping[Name, Losses], count: int) -> list[Name]:
    """At most `count` of the best: front by front, of the last one those that lie furthest from those taken already.

    The best of each objective is taken first. Distances are measured in shares of the range that each objective has in
    the front.
    """
    taken: list[Name] = []
    left = dict(losses)
    while left and len(taken) < count:
        front = front_of(left)
        room = count - len(taken)
        taken += front if len(front) <= room else _far_apart({name: left[name] for name in front}, room)
        left = {name: own for name, own in left.items() if name not in front}
    return taken


def _far_apart(front: Mapping[Name, Losses], count: int) -> list[Name]:
    columns = list(zip(*front.values(), strict=True))
    lows, widths = [min(column) for column in columns], [(max(column) - min(column)) or 1.0 for column in columns]
    places = {
        name: tuple((value - low) / width for value, low, width in zip(own, lows, widths, strict=True))
        for name, own in front.items()
    }
    extremes = [min(places, key=lambda name, index=index: places[name][index]) for index in range(len(lows))]  # type: ignore[misc]
    chosen = list(dict.fromkeys(extremes))[:count]
    while len(chosen) < count:
        rest = (name for name in places if name not in chosen)
        chosen.append(max(rest, key=lambda name: min(_distance(places[name], places[other]) for other in chosen)))
    return chosen


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
