"""One process runs a study, wherever its storage is reached from."""

import functools
import os
import socket
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from optuna.samplers import RandomSampler

from tests.tuner.studies import ControllerDied, FakeExecutor, Script, journal, run_study
from tests.tuner.sweeper.test_sweep_study import SameFolder, definition
from tuner.errors import UserError
from tuner.study import StudyListener, StudyStore
from tuner.study.storage.ownership import OWNER
from tuner.study.sweep.study import Sweep, SweepListener, SweepRunner, SweepSampler
from tuner.trial.system import start_time


def mark(folder: Path, **changes: Any) -> None:
    """Says in the storage that somebody else runs the study."""
    parent = psutil.Process().ppid()
    said = {"host": socket.gethostname(), "pid": parent, "started": start_time(parent), "at": time.time()}
    with StudyStore(journal(folder)) as store:
        study = store.find("study")
        assert study is not None
        study.set_user_attr(OWNER, {**said, "folder": str(folder / "studies" / "study"), **changes})


def owner(folder: Path) -> Any:
    with StudyStore(journal(folder)) as store:
        study = store.find("study")
        assert study is not None
        return study.user_attrs[OWNER]


def test_a_study_that_a_living_process_runs_is_refused(tmp_path: Path) -> None:
    run_study(tmp_path)
    assert owner(tmp_path)["pid"] is None
    mark(tmp_path)
    with pytest.raises(UserError, match=f"is being run by process {os.getppid()} in .*use another study.name"):
        run_study(tmp_path)
    mark(tmp_path, started="another boot:1")  # the number has been given to somebody else since
    run_study(tmp_path)


def test_on_another_machine_whoever_gave_a_sign_lately_counts_as_living(tmp_path: Path) -> None:
    run_study(tmp_path)
    mark(tmp_path, host="elsewhere", at=time.time() - 60.0)
    with pytest.raises(UserError, match="on elsewhere, which was heard of 60 s ago"):
        run_study(tmp_path)
    mark(tmp_path, host="elsewhere", at=time.time() - 600.0)
    run_study(tmp_path)


def test_a_study_is_gone_on_with_where_its_runs_lie(tmp_path: Path) -> None:
    run_study(tmp_path)
    other = tmp_path / "elsewhere"
    with pytest.raises(UserError, match=f"lie in .*go on with study.folder={tmp_path / 'studies'}"):
        run_study(other, url=journal(tmp_path))
    (tmp_path / "studies").rename(tmp_path / "moved")  # then nothing is there to go on with
    run_study(other, url=journal(tmp_path))


def test_it_signs_while_it_runs_and_leaves_the_study_free_if_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.study.storage.ownership.HEARTBEAT_INTERVAL_S", 0.0)
    seen: list[Any] = []

    class Stop(Exception):  # noqa: N818
        pass

    def fail(text: str = "", *_: Any) -> None:
        seen.append(owner(tmp_path))
        if len(seen) == 3:
            raise Stop

    listener = StudyListener()
    monkeypatch.setattr(listener, "on_end", fail)
    with pytest.raises(Stop):
        run_study(tmp_path, listener=listener)
    assert {one["pid"] for one in seen} == {os.getpid()}
    assert seen[0]["at"] < seen[1]["at"] < seen[2]["at"]
    assert owner(tmp_path)["pid"] is None


def test_a_sweep_signs_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.study.storage.ownership.HEARTBEAT_INTERVAL_S", 0.0)
    seen: list[float] = []

    class Watched(FakeExecutor):
        def wait(self, timeout_s: float | None = None) -> list[Any]:
            study = store.find("s")
            assert study is not None
            seen.append(study.user_attrs[OWNER]["at"])
            if len(seen) == 3:
                raise ControllerDied
            return super().wait(timeout_s)

    @contextmanager
    def made() -> Any:
        yield Watched(behave=lambda spec, attempt: Script([(1.0, 0.5)]))

    sweep = Sweep(definition(), ("minimize",), SameFolder("job"), SweepSampler(functools.partial(RandomSampler)))
    with StudyStore("memory") as store, pytest.raises(ControllerDied):
        SweepRunner(sweep, store, made, SweepListener()).run(tmp_path)
    assert seen[0] < seen[1] < seen[2]
