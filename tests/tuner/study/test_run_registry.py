"""A run is entered once and closed once, whatever kills its controller, and the storage says what it was."""

from collections import Counter
from pathlib import Path

import pytest
from optuna.trial import TrialState

from tests.tuner.studies import ControllerDied, FakeExecutor, die_after_writes, journal, run_study
from tests.tuner.study_records import check_complete, scores, stored
from tuner.executors.base import TrialEnded
from tuner.study import StudyStore, summarise


def test_the_storage_says_what_the_coordinates_were(tmp_path: Path) -> None:
    summary = run_study(tmp_path)
    trial = stored(tmp_path).trials[0]
    params = summary.stage("screen")[0].params
    assert trial.params["1-agent.gamma"] == pytest.approx(1.0 - params["agent.gamma"])
    assert 2 ** trial.params["log2(buffer.batch_size)"] == params["buffer.batch_size"]
    assert trial.user_attrs["outcome"] == "complete"
    assert {name: trial.user_attrs[name] for name in params} == params


def test_the_number_of_trials_is_a_total(tmp_path: Path) -> None:
    first = run_study(tmp_path, num_trials=6)
    idle = FakeExecutor()
    assert scores(run_study(tmp_path, idle, num_trials=6)) == scores(first)
    assert idle.started == []
    again = FakeExecutor()
    more = run_study(tmp_path, again, num_trials=9)
    assert len(more.stage("screen")) == 9
    assert [spec.number for spec in again.started if spec.stage == "screen"] == [6, 7, 8]
    assert run_study(tmp_path, idle, num_trials=3).stage("screen") == more.stage("screen")


@pytest.mark.parametrize(("parallel", "lifetime"), [(3, 41), (1, 23), pytest.param(3, 13, marks=pytest.mark.slow)])
def test_a_controller_that_dies_again_and_again_loses_and_repeats_nothing(
    tmp_path: Path, lifetime: int, parallel: int
) -> None:
    ended: Counter[str] = Counter()
    known: dict[tuple[str, int], object] = {}
    for _ in range(200):
        executor = FakeExecutor(parallel, die_after=lifetime)
        executor.on_event = lambda event: ended.update([event.key]) if isinstance(event, TrialEnded) else None
        try:
            summary = run_study(tmp_path, executor)
            break
        except ControllerDied:
            with StudyStore(journal(tmp_path)) as store:
                for run in summarise(store, "study", tmp_path / "studies" / "study").runs:
                    if run.outcome is not None:
                        assert known.setdefault((run.stage, run.number), run) == run
    check_complete(summary)
    assert set(ended.values()) == {1}


@pytest.mark.parametrize(("torn", "lifetime"), [(False, 17), (True, 29)])
def test_dying_in_the_middle_of_any_write_loses_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lifetime: int, torn: bool
) -> None:
    """Every session may write a number of records; the last of them is written, or half written, and then it dies."""
    writes = die_after_writes(monkeypatch, torn=tmp_path / "studies.journal" if torn else None)
    started: Counter[str] = Counter()
    for session in range(100):
        writes.left = lifetime + session % 5
        executor = FakeExecutor(parallel=2)
        executor.on_event = lambda event: started.update([event.key]) if isinstance(event, TrialEnded) else None
        try:
            summary = run_study(tmp_path, executor)
            break
        except ControllerDied:
            continue
    check_complete(summary)
    assert session > 2
    assert set(started.values()) == {1}
    assert len(list(tmp_path.glob("studies.journal.torn-*"))) >= int(torn)


def test_nothing_is_left_running(tmp_path: Path) -> None:
    for lifetime in (30, 60, 90, None):
        try:
            run_study(tmp_path, FakeExecutor(2, die_after=lifetime))
        except ControllerDied:
            continue
    for stage in ("screen", "confirm", "test"):
        assert {trial.state for trial in stored(tmp_path, stage).trials} == {TrialState.COMPLETE}
