"""Configurations that no other dominates, and a few of them that lie far apart."""

from tuner.features.objectives.pareto_front import front_of, spread_over_front


def test_the_front_is_who_nobody_beats() -> None:
    losses = {"a": (0.0, 9.0), "b": (1.0, 5.0), "c": (1.0, 6.0), "d": (4.0, 1.0), "e": (1.0, 5.0), "f": (5.0, 5.0)}
    assert front_of(losses) == ["a", "b", "d", "e"]


def test_a_few_of_the_front_lie_far_apart() -> None:
    line = {number: (float(number), 10.0 - number) for number in range(11)}
    assert spread_over_front(line, 2) == [0, 10]
    assert spread_over_front(line, 3) == [0, 10, 5]
    assert spread_over_front({**line, 11: (20.0, 20.0)}, 12) == list(range(12))  # the next front where there is room
