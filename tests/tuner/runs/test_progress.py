"""The bar of a single run."""

from io import StringIO

from rich.console import Console

from tuner.runs.progress import BarProgress


def test_a_bar_never_goes_back() -> None:
    bar = BarProgress(Console(file=StringIO(), force_terminal=True))
    bar.started(100)
    shown = []
    for told, fraction in ((bar.advanced, 0.4), (bar.evaluated, 0.25), (bar.evaluated, 0.5), (bar.evaluated, 0.45)):
        told(fraction, *([1.0] if told != bar.advanced else []))
        shown.append(bar._bar.tasks[0].completed)
    bar.ended()
    assert shown == [0.4, 0.4, 0.5, 0.5]


def test_what_is_not_measured_yet_is_training() -> None:
    bar = BarProgress(Console(file=StringIO(), force_terminal=True))
    numbers = [bar._bar.tasks[0].fields["numbers"]]
    bar.started(100)
    numbers.append(bar._bar.tasks[0].fields["numbers"])
    bar.ended()
    assert numbers == ["building", "training"]
