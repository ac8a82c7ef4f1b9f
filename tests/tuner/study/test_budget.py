"""Budgets of time and of environment steps: screening ends when what must follow only just fits."""

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tuner.studies import ControllerDied, FakeExecutor, definition, journal, run_study
from tuner.errors import UserError
from tuner.executors.base import Seats
from tuner.reporting.study_progress import StudyProgress
from tuner.results.number_format import seconds_of
from tuner.results.records import RunRecord
from tuner.study import StudyListener, StudyStore
from tuner.study.budget import Allowance, affordable_trials, check_budget, fits_before_test
from tuner.study.plan import Speed, describe_plan
from tuner.study.storage.retries import StorageLostError
from tuner.study.watching.display import LiveDisplay
from tuner.trial.messages import Outcome

LATER = 2 * 2 + 2 * 2
"""Runs of confirmation and test of these studies, which race nobody; each takes a second, and 900 steps."""


class Notes(StudyListener):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.totals: list[int] = []

    def on_note(self, text: str) -> None:
        self.notes.append(text)

    def on_stage(self, stage: str, num_runs: int, records: Any) -> None:
        if stage == "screen":
            self.totals.append(num_runs)


def screened(summary: Any) -> int:
    return len(summary.stage("screen"))


@pytest.mark.parametrize("bound", [{"budget": 20.0}, {"max_env_steps": 20 * 900}])
def test_what_is_left_beside_the_later_stages_is_screened(tmp_path: Path, bound: dict[str, Any]) -> None:
    listener = Notes()
    summary = run_study(tmp_path, listener=listener, num_trials=100, **bound)
    assert screened(summary) == 20 - LATER
    assert len(summary.runs) == 20
    assert listener.totals == [100, 12]
    (note,) = listener.notes
    assert note.startswith("study.budget=20 s: what" if "budget" in bound else "study.max_env_steps=18000: what")
    assert note.endswith("so no more than 12 trials are screened")


def test_the_number_of_trials_is_a_bound_besides(tmp_path: Path) -> None:
    assert screened(run_study(tmp_path, num_trials=5, budget=20.0)) == 5


def test_as_many_are_screened_as_are_confirmed_however_small_the_budget(tmp_path: Path) -> None:
    listener = Notes()
    summary = run_study(tmp_path, listener=listener, num_trials=100, budget=2.0)
    assert screened(summary) == 2
    assert listener.notes == [
        "study.budget=2 s is too little: what follows takes about 8 s and is run all the same, so no more than 2 "
        "trials are screened; lower study.num_select_seeds, study.num_test_seeds or training.total_steps"
    ]
    assert len(summary.stage("confirm")) == len(summary.stage("test")) == 4


def test_a_stage_that_the_budget_ended_is_not_begun_again(tmp_path: Path) -> None:
    with pytest.raises(ControllerDied):  # when all trials are screened, and some confirmed
        run_study(tmp_path, FakeExecutor(die_after=12 * 20 + 30), num_trials=100, max_env_steps=18_000)
    listener = Notes()
    assert screened(run_study(tmp_path, listener=listener, num_trials=100, max_env_steps=18_000)) == 12
    assert listener.totals == [12]


def test_a_larger_budget_goes_on(tmp_path: Path) -> None:
    assert screened(run_study(tmp_path, num_trials=100, max_env_steps=18_000)) == 12
    summary = run_study(tmp_path, num_trials=100, max_env_steps=28 * 900)
    assert screened(summary) == 20
    assert {"screening trials": 100, "environment steps in all": 25_200}.items() <= summary.budget.items()


def test_time_of_a_session_that_ended_without_a_word_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of one that was killed: nothing is written down in the end."""
    monkeypatch.setattr("tuner.study.storage.ownership.HEARTBEAT_INTERVAL_S", 0.0)

    class Slow(StudyListener):
        num_seen = 0

        def on_end(self, run: Any, record: RunRecord) -> None:
            self.num_seen += 1
            time.sleep(0.2)
            if self.num_seen == 3:
                raise StorageLostError("gone")

    with pytest.raises(StorageLostError):
        run_study(tmp_path, listener=Slow(), num_trials=8)
    with StudyStore(journal(tmp_path)) as store:
        screen = store.find(definition(tmp_path).name, "screen")
        assert screen is not None
        assert screen.user_attrs["seconds"] >= 0.4
    assert run_study(tmp_path, num_trials=8).seconds >= 0.4


def test_the_time_left_is_no_longer_than_the_budget(tmp_path: Path) -> None:
    shown: list[StudyProgress] = []
    table: Any = SimpleNamespace(update=shown.append, note=lambda text: None)
    display = LiveDisplay(table, definition(tmp_path, num_trials=100, budget=50.0), 1)
    display.on_stage("screen", 100, [record(number) for number in range(2)])
    assert shown[-1].seconds_left == pytest.approx(50.0, abs=1.0)  # 98 trials and 8 later runs would take 424
    display.on_stage("screen", 4, ())
    assert shown[-1].seconds_left == pytest.approx(4.0 * (2 + LATER), abs=1.0)


def record(number: int, **changes: Any) -> RunRecord:
    curve = ((1.0, 5.0),)
    fields = {"outcome": Outcome.COMPLETE, "value": 1.0, "curve": curve, "seconds": 4.0, **changes}
    return RunRecord(number, "screen", f"trial {number}", 0, {}, **fields)


def test_pruned_runs_leave_steps_for_others(tmp_path: Path) -> None:
    allowance = Allowance(definition(tmp_path, num_trials=100, max_env_steps=(LATER + 3) * 900), 1, lambda: 0.0)
    for number in range(2):
        allowance.see(record(number, outcome=Outcome.PRUNED, value=None, curve=((0.25, 5.0),)))
        allowance.see(record(number))  # seen before
    assert allowance.one_more(2)  # half a run is used, and one more would be one and a half
    assert allowance.one_more(3)  # one is under way
    assert not allowance.one_more(4)


def test_time_passes_while_nothing_ends(tmp_path: Path) -> None:
    now = [0.0]
    study = definition(tmp_path, num_trials=100, budget=4.0 * (LATER / 2) + 10.0)
    allowance = Allowance(study, 2, lambda: now[0])
    now[0] = 1000.0
    assert allowance.one_more(7)  # how long a run takes is not known yet
    allowance.see(record(0))
    now[0] = 6.0
    assert allowance.one_more(7)  # this run and four later ones in each of two slots, of four seconds each
    now[0] = 6.1
    assert not allowance.one_more(7)
    assert allowance.why_not == "study.budget=26 s: what follows takes about 16 s"


def test_what_follows_takes_as_long_as_the_best_of_all(tmp_path: Path) -> None:
    """Four runs in each of two slots. Two configurations are confirmed: of 10 s at first, then of 10 and 6 s."""
    now = [0.0]
    allowance = Allowance(definition(tmp_path, num_trials=100, budget=62.0), 2, lambda: now[0])
    for number, (value, seconds) in enumerate(((3.0, 10.0), (1.0, 1.0), (2.0, 10.0))):
        allowance.see(record(number, value=value, seconds=seconds))
    now[0] = 12.0  # and one more of 10 s
    assert allowance.one_more(7)
    now[0] = 12.1
    assert not allowance.one_more(7)
    assert allowance.why_not == "study.budget=1 min 02 s: what follows takes about 40 s"
    allowance.see(record(3, value=4.0, seconds=6.0))
    now[0] = 20.0
    assert allowance.one_more(7)
    now[0] = 20.1
    assert not allowance.one_more(7)


def test_one_more_may_be_one_of_the_long_ones(tmp_path: Path) -> None:
    """Of eleven runs of 1 to 11 s, ten take no longer than 10; the best two take 1 and 2."""
    now = [0.0]
    allowance = Allowance(definition(tmp_path, num_trials=100, budget=60.0), 2, lambda: now[0])
    for number in range(11):
        allowance.see(record(number, value=-float(number), seconds=number + 1.0))
    now[0] = 60.0 - 10.0 - 4 * 1.5
    assert allowance.one_more(12)
    now[0] += 0.1
    assert not allowance.one_more(12)
    assert allowance.why_not == "study.budget=1 min 00 s: what follows takes about 6 s, and one more run up to 10 s"


def test_runs_that_failed_do_not_shrink_what_is_set_aside_for_the_test(tmp_path: Path) -> None:
    """Two runs of 4 s and two that failed at once: one more takes 4 s, and the test 4 runs in two slots 8 s."""
    study = definition(tmp_path, num_trials=100, budget=40.0)
    failed = {"outcome": Outcome.CRASHED, "value": None, "seconds": 0.0}
    runs = [replace(record(number, **(failed if number % 2 else {})), stage="confirm") for number in range(4)]
    assert fits_before_test(study, 2, 28.0, runs)
    assert not fits_before_test(study, 2, 28.1, runs)
    assert not fits_before_test(study, 2, 0.0, runs[1::2])  # how long a run takes is not known


def test_one_more_may_be_as_long_as_the_best_and_what_is_not_feasible_does_not_count(tmp_path: Path) -> None:
    """Thirty runs of 1 s, two better ones of 7 s, and the best two, of 50 s, which may not be chosen."""
    now = [0.0]
    allowance = Allowance(definition(tmp_path, num_trials=100, budget=120.0), 2, lambda: now[0])
    for number in range(34):
        seconds = 1.0 if number < 30 else 7.0 if number < 32 else 50.0
        allowance.see(record(number, value=float(number), seconds=seconds, feasible=seconds < 50.0))
    now[0] = 120.0 - 7.0 - 4 * 7.0
    assert allowance.one_more(35)
    now[0] += 0.1
    assert not allowance.one_more(35)


def test_a_budget_that_the_fewest_runs_exceed_is_reported(tmp_path: Path) -> None:
    allowance = Allowance(definition(tmp_path, num_trials=100, budget=15.0), 2, lambda: 4.0)
    allowance.see(record(0))
    assert not allowance.one_more(7)
    assert allowance.why_not == "study.budget=15 s is too little: what follows takes about 16 s and is run all the same"


@pytest.mark.parametrize(("seconds", "words"), [
    (15.0, "15 s: too little time: what follows screening takes about 16 s and is run all the same, behind no more "
           "than 2 trials"),
    (26.0, "26 s: 4 of at most 100 trials fit if none is pruned"),
])  # fmt: skip
def test_a_plan_says_what_a_budget_of_time_holds(tmp_path: Path, seconds: float, words: str) -> None:
    study = definition(tmp_path, num_trials=100, budget=seconds)
    text = describe_plan(study, Seats(2), Speed(900 / 4.0, "measured"), prunes=False)
    assert [line.split(maxsplit=1)[1] for line in text.splitlines() if "budget" in line] == [words]


def test_what_fits_is_known_beforehand(tmp_path: Path) -> None:
    study = definition(tmp_path, num_trials=100, budget=26.0)
    assert affordable_trials(study, 2, 4.0) == 4  # ten seconds are left of 26, for two runs in each of two slots
    assert affordable_trials(study, 2, None) == 100
    assert affordable_trials(definition(tmp_path, num_trials=100, max_env_steps=18_000), 2, None) == 12


def test_steps_that_not_even_the_fewest_runs_keep_to_are_refused(tmp_path: Path) -> None:
    check_budget(definition(tmp_path, max_env_steps=10 * 900))
    with pytest.raises(UserError, match=r"max_env_steps=8999 is too little: 10 runs of 900 steps.*which makes 9,000"):
        check_budget(definition(tmp_path, max_env_steps=10 * 900 - 1))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("45s", 45), ("90min", 5400), ("2h", 7200), ("1h30m", 5400), ("1.5 d", 129_600), (90, 90), (0.5, 0.5)],
)
def test_durations(text: str | float, seconds: float) -> None:
    assert seconds_of("study.budget", text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "2 hours", "2h and more", "-2h", "h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"study.budget=.* is no duration: write 45s"):
        seconds_of("study.budget", text)
