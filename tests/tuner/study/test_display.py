"""Display in the terminal while a study runs."""

import io
from pathlib import Path
from typing import Any

import pytest
from optuna.samplers import GridSampler
from rich.console import Console

from tests.tuner.fake_trackers import accidents
from tests.tuner.studies import ControllerDied, FakeExecutor, Script, definition, journal, learn, run_study
from tuner.reporting.terminal import LiveTable
from tuner.results.features import all_stages
from tuner.study import StudyListener, StudyRunner, StudyStore
from tuner.study.watching.display import LiveDisplay, study_display
from tuner.study.watching.study_listener import Listeners
from tuner.trial.messages import Outcome, TrialResult, TrialSpec


def shown(folder: Path, executor: FakeExecutor, **changes: Any) -> str:
    console = Console(file=io.StringIO(), width=120)
    with study_display(console, definition(folder, **changes), parallel=2) as display:
        run_study(folder, executor, listener=display, **changes)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_terminal_shows_stages_failures_and_the_best(tmp_path: Path) -> None:
    text = shown(tmp_path, FakeExecutor(2, accidents))
    assert "screen 0/6" in text
    assert "confirm 0/4" in text
    assert "test 4/4: 4 complete" in text
    assert "screen/1: crashed (KeyError: 'obs'); it is tried again, from its last checkpoint if it has one" in text
    assert "screen/1 crashed: KeyError: 'obs'" in text
    assert "screen/3 diverged: the loss is nan" in text
    assert "failed 2 (1 crashed and 1 diverged)" in text


def test_a_study_that_goes_on_shows_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(ControllerDied):
        run_study(tmp_path, FakeExecutor(die_after=100))
    assert "screen 4/6: 4 complete" in shown(tmp_path, FakeExecutor(2))


def stages_of(text: str) -> list[str]:
    return [line.partition(":")[0] for line in text.splitlines() if line.partition(" ")[0] in all_stages()]


def three_good(spec: TrialSpec, attempt: int) -> Script:
    bad = spec.key in ("screen/0", "screen/2", "screen/4")
    return Script([], TrialResult(Outcome.CRASHED, "no")) if bad else learn(spec, attempt)


RACE_OF_FOUR: dict[str, Any] = {"num_race": 4, "num_race_seeds": 1, "num_candidates": 3}


def test_a_race_that_is_left_out_is_not_waited_for(tmp_path: Path) -> None:
    text = shown(tmp_path, FakeExecutor(2, three_good), **RACE_OF_FOUR)
    assert stages_of(text) == ["screen 0/6", "confirm 0/6", "test 0/4", "test 4/4"]
    first_of_test = next(line for line in text.splitlines() if line.startswith("test 0/4"))
    assert first_of_test.endswith("about 2 s left")  # 4 runs of 1 s, two at a time, and no race


def test_a_race_of_all_that_a_finite_search_has_is_not_planned(tmp_path: Path) -> None:
    def sampler(seed: int) -> GridSampler:
        return GridSampler({"agent.kind": ["plain", "wild"]}, seed=seed)

    told = Totals()
    space = {"agent": {"kind": {"choices": ["plain", "wild"]}}}
    about = definition(tmp_path, space=space, **RACE_OF_FOUR)
    console = Console(file=io.StringIO(), width=120)
    with LiveTable(console) as table, StudyStore(journal(tmp_path)) as store:
        display = LiveDisplay(table, about, parallel=1)
        StudyRunner(about, store, FakeExecutor(), sampler, listener=Listeners(told, display)).run()
    assert told.totals == [("screen", 2), ("race", 0), ("confirm", 4), ("test", 4)]
    assert isinstance(console.file, io.StringIO)
    assert stages_of(console.file.getvalue()) == ["screen 0/2", "confirm 0/4", "test 0/4", "test 4/4"]


class Totals(StudyListener):
    """Remembers the totals of the stages."""

    def __init__(self) -> None:
        self.totals: list[tuple[str, int]] = []

    def on_stage(self, stage: str, num_runs: int, records: object) -> None:
        self.totals.append((stage, num_runs))


def test_a_finished_study_has_nothing_left(tmp_path: Path) -> None:
    shown(tmp_path, FakeExecutor(2))
    lines = shown(tmp_path, FakeExecutor(2)).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["screen 6/6", "confirm 4/4", "test 4/4"]
    assert not any("left" in line for line in lines)


def test_another_winner_comes_on_top(tmp_path: Path) -> None:
    first = run_study(tmp_path, num_trials=1, num_candidates=1)
    for num_trials in range(4, 40, 4):
        text = shown(tmp_path, FakeExecutor(2), num_trials=num_trials, num_candidates=1)
        if "test 6/6: 6 complete" in text:  # of the winner, the default and the former winner on 2 seeds
            return
        assert "test 4/4: 4 complete" in text
    raise AssertionError(f"{first.winner_label} is the winner of many")


def test_without_a_console_nothing_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with study_display(None, definition(tmp_path), parallel=2) as display:
        run_study(tmp_path, listener=display)
    assert capsys.readouterr() == ("", "")
