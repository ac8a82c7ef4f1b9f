"""The bar of a single run."""

from io import StringIO

from rich.console import Console

from tuner.runs.progress_bar import BarProgress
from tuner.trackers.history import HistoryRow


def test_a_bar_never_goes_back() -> None:
    bar = BarProgress(Console(file=StringIO(), force_terminal=True))
    bar.started(100)
    shown = []
    for tell in (
        lambda: bar.advanced(0.4),
        lambda: bar.evaluated(25, 1.0),
        lambda: bar.evaluated(50, 1.0),
        lambda: bar.advanced(0.45),
        lambda: bar.evaluated(128, 1.0),
    ):
        tell()
        shown.append(bar._bar.tasks[0].completed)
    bar.ended()
    assert shown == [0.4, 0.4, 0.5, 0.5, 1.0]


def test_what_is_not_measured_yet_is_training() -> None:
    bar = BarProgress(Console(file=StringIO(), force_terminal=True))
    numbers = [bar._bar.tasks[0].fields["numbers"]]
    bar.started(100)
    numbers.append(bar._bar.tasks[0].fields["numbers"])
    bar.ended()
    assert numbers == ["building", "training"]


def test_the_last_line_of_a_bar_is_of_the_end() -> None:
    bar = BarProgress(Console(file=StringIO(), force_terminal=True))
    bar.started(1000)
    bar.advanced(0.1)
    bar.evaluated(100, 5.0)
    bar.episode_ended(HistoryRow(mean_reward=7.5, best_reward=9.0, episode_reward=9.0, step=120, time=1.0), 3)
    bar.advanced(0.12)  # within a tenth of a second
    bar.ended()
    assert bar._bar.tasks[0].fields["numbers"] == "120/1,000  return 7.5  evaluated 5"


def test_what_a_rollout_has_passed_is_said_of_its_end() -> None:
    bar = BarProgress(Console(file=StringIO(), force_terminal=True))
    bar.started(6000)
    bar.evaluated(6144, 355.0)
    bar.advanced(1.0)
    bar.ended()
    assert bar._bar.tasks[0].fields["numbers"] == "6,144/6,000  evaluated 355"
