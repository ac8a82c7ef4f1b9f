"""Progress of a study in a terminal and in a pipe."""

import io

from rich.console import Console

from tuner.reporting.study_progress import RunningRun, StudyProgress
from tuner.reporting.terminal import LiveTable


def progress(**changes: object) -> StudyProgress:
    fields: dict[str, object] = {"title": "poles: dqn", "stage": "screen", "num_ended": 1, "num_total": 4}
    return StudyProgress(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_terminal_shows_everything_in_place() -> None:
    console = Console(width=80, file=io.StringIO(), force_terminal=True, color_system=None)
    clock = Clock()
    with LiveTable(console, clock=clock) as table:
        clock.now += 1.0
        table.update(progress(running=(RunningRun("[red]trial 3", 1, 0.5, 210.4, 12.0),)))
        assert isinstance(console.file, io.StringIO)
        shown = console.file.getvalue()
        table.update(progress(num_ended=2))  # at once: not drawn yet
        assert console.file.getvalue() == shown
        clock.now += 1.0
        table.update(progress(num_ended=3))
        assert "3/4" in console.file.getvalue()[len(shown) :]
        table.note("pruning is off [really]")
    for part in ("poles: dqn", "1/4", "[red]trial 3", "50%", "last 210", "12 s", "best  none yet"):
        assert part in shown
    assert "pruning is off [really]" in console.file.getvalue()


def test_a_pipe_gets_a_line_now_and_then() -> None:
    clock = Clock()
    console = Console(width=80, file=io.StringIO(), force_terminal=False)
    with LiveTable(console, line_interval_s=15.0, clock=clock) as table:
        table.update(progress())  # the first state of a stage: shown
        table.update(progress(num_ended=2))  # too soon
        clock.now += 16.0
        table.update(progress(num_ended=1, seconds=16.0))  # nothing new
        table.update(progress(num_ended=3))  # shown
        table.update(progress(stage="confirm", num_ended=0))  # a new stage: shown
        table.update(progress(stage="confirm", num_ended=2))  # the last state: shown at the end
    assert isinstance(console.file, io.StringIO)
    lines = [line.partition(":")[0] for line in console.file.getvalue().splitlines()]
    assert lines == ["screen 1/4", "screen 3/4", "confirm 0/4", "confirm 2/4"]


class Clock:
    """Seconds that pass only when a test moves them."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
