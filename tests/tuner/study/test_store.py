"""Studies of a storage: their names, and which command may go on with one."""

from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage, RDBStorage

from tests.tuner.studies import CONFIG, SPACE, FakeExecutor, journal, run_study
from tests.tuner.study_records import scores
from tuner.errors import UserError
from tuner.study import StudyStore
from tuner.study.watching.study_listener import StudyListener


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"space": {"agent": SPACE["agent"]}},
            "begun with another search space: buffer.batch_size was searched over 16 .. 256 (powers of 2), and is not",
        ),
        ({"config": {**CONFIG, "training": {"total_steps": 901}}}, "training.total_steps was 900 and is 901"),
        ({"config": {**CONFIG, "extra": 1}}, "extra is new"),
        ({"config": {**CONFIG, "extra": 0, "wrapper_training": {}}}, "other settings: extra is new."),
        ({"agent": "other"}, "study study is one of synthetic, and this is other.\ngo back to that, or begin another"),
        ({"metric": "final"}, "metric was mixed and is final"),
        ({"over_seeds": "worst"}, "over_seeds was mean and is worst"),
        ({"seed": 5}, "seed was 0 and is 5"),
    ],
)
def test_going_on_otherwise_than_begun_is_refused_with_the_difference(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    before = scores(run_study(tmp_path))
    executor = FakeExecutor()
    with pytest.raises(UserError) as raised:
        run_study(tmp_path, executor, num_trials=10, **changes)
    assert why in str(raised.value)
    assert "study.name=study-2" in str(raised.value)
    assert executor.started == []
    assert scores(run_study(tmp_path)) == before


def test_what_does_not_change_a_score_may_change(tmp_path: Path) -> None:
    run_study(tmp_path, config={**CONFIG, "checkpoint": {"keep": 1}})
    run_study(tmp_path, config={**CONFIG, "checkpoint": {"keep": 2}}, num_test_seeds=3)


def test_a_trial_that_is_over_is_read_once_and_what_others_add_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, read = f"sqlite:///{tmp_path}/studies.db", []
    run_study(tmp_path, url=url)
    of_database = RDBStorage._get_trials

    def counted(*arguments: Any, **others: Any) -> Any:
        found = of_database(*arguments, **others)
        read.extend(one.number for one in found)
        return found

    monkeypatch.setattr(RDBStorage, "_get_trials", counted)
    with StudyStore(url) as store:
        for _ in range(3):
            known = store.require("study").get_trials(deepcopy=False)
        assert sorted(read) == [one.number for one in known]
        optuna.load_study(study_name="study", storage=url).enqueue_trial({"agent.learning_rate": 1e-3})
        assert len(store.require("study").get_trials(deepcopy=False)) == len(known) + 1


def test_a_study_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    theirs = optuna.create_study(storage=f"sqlite:///{tmp_path}/studies.db", study_name="study", direction="minimize")
    theirs.add_trial(optuna.trial.create_trial(value=1.0))
    with pytest.raises(UserError, match="was not made by tuner"):
        run_study(tmp_path, url=f"sqlite:///{tmp_path}/studies.db")
    assert len(theirs.trials) == 1


def test_names_are_listed_latest_first_and_a_wrong_one_gets_the_nearest(tmp_path: Path) -> None:
    for name in ("older", "newer"):
        run_study(tmp_path, name=name)
    with StudyStore(journal(tmp_path)) as store:
        assert store.names() == ["newer", "older"]
        with pytest.raises(UserError, match=r"there is no study newr in .*; did you mean newer\?"):
            store.require("newr")


def test_another_sampler_and_code_on_resume_are_recorded_besides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revisions = iter(["one", "one", "two"])
    monkeypatch.setattr("tuner.study.storage.store.code_revision", lambda folder: next(revisions))
    for sampler in ("RandomSampler", "TPESampler", "TPESampler"):
        summary = run_study(tmp_path, facts={"sampler": sampler})
    assert (summary.sampler, summary.code) == ("RandomSampler; then TPESampler", "one; then two")
    assert summary.space["agent.gamma"] == "0.9 .. 0.9999 (log of 1 - x)"


def test_other_versions_on_resume_are_recorded_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    class Noting(StudyListener):
        def on_note(self, note: str) -> None:
            said.append(note)

    for num_trials, gymnasium, told in (
        (6, "1.3.0", "1.3.0"),
        (6, "1.4.0", "1.3.0"),  # no run is left
        (7, "1.4.0", "1.3.0; then 1.4.0"),
        (8, "1.3.0", "1.3.0; then 1.4.0"),
    ):
        monkeypatch.setattr("tuner.study.storage.store._version_of", {"gymnasium": gymnasium, "numpy": "2.4"}.get)
        said.clear()
        summary = run_study(tmp_path, num_trials=num_trials, listener=Noting())
        assert (summary.versions["gymnasium"], summary.versions["numpy"]) == (told, "2.4")
        wanted = [f"Runs of this study had several versions: gymnasium {told}."] if num_trials > 6 else []
        assert [note for note in said if "versions" in note] == wanted
        assert [note for note in summary.notes if "versions" in note] == wanted


def test_a_study_is_found_without_a_look_at_the_others(tmp_path: Path) -> None:
    """Optuna copies all studies of a storage for a list of their names, and a study is looked up 70 times."""
    run_study(tmp_path, name="one")
    with StudyStore(journal(tmp_path)) as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(JournalStorage, "get_all_studies", None)
        assert store.find("one", "confirm") is not None
        assert store.find("two") is None
