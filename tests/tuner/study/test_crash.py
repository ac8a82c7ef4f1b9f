"""Real processes that crash, hang and are killed: nothing is lost, nothing runs twice, nothing is left behind."""

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.tuner.entries import synthetic_curve
from tests.tuner.studies import CONFIG, definition, run_in_processes, run_study, sqlite, warm_processes
from tuner.executors.local import LocalExecutor
from tuner.results.metric import Mixed
from tuner.results.records import RunRecord
from tuner.study import StudyError, StudyStore, summarise
from tuner.study.runner import PROBE
from tuner.trial import folder as files
from tuner.trial.messages import Limits, Outcome

NUM_TRIALS = 12
SLOW = {**CONFIG, "sleep_s": 0.02}
STAGES = ("screen", "confirm", "test")


class Controller:
    """A process that runs a study; what is asked of it is named as in `subprocess.Popen`."""

    def __init__(self, folder: Path, changes: dict[str, Any]) -> None:
        arguments = (folder, {"num_trials": NUM_TRIALS, **changes})
        self._process = warm_processes().Process(target=run_in_processes, args=arguments)
        self._process.start()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int | None:
        self._process.join()
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.pid is not None and self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


Start = Callable[..., Controller]


@pytest.fixture
def start() -> Iterator[Start]:
    """The same command, again and again."""
    processes = []

    def start(folder: Path, **changes: Any) -> Controller:
        processes.append(Controller(folder, changes))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


def until(process: Controller, condition: Callable[[], bool]) -> None:
    while not condition():
        assert process.poll() is None, "it ended too soon"
        time.sleep(0.05)


def runs_in(folder: Path) -> tuple[RunRecord, ...]:
    """All runs the storage knows; none if there is no study yet."""
    if not (folder / "studies.db").exists():
        return ()
    with StudyStore(sqlite(folder)) as store:
        study = store.find("study")
        if study is None or not study.get_trials():
            return ()
        return summarise(store, "study", folder / "studies" / "study").runs


def trial_processes(folder: Path) -> list[int]:
    """Living processes that have a file of the study open."""
    found = []
    for process in psutil.process_iter():
        try:
            opened = [entry.path for entry in process.open_files()]
        except psutil.Error:
            continue
        if any(path.startswith(str(folder)) for path in opened):
            found.append(process.pid)
    return found


def check_all_came_to_one_good_end(folder: Path, num_trials: int = NUM_TRIALS) -> None:
    runs = runs_in(folder)
    assert [run.number for run in runs if run.stage == "screen"] == list(range(num_trials))
    assert [run.number for run in runs if run.stage == "confirm"] == list(range(4))
    assert [run.number for run in runs if run.stage == "test"] == list(range(4))
    for run in runs:
        assert run.outcome is Outcome.COMPLETE
        used = json.loads((Path(run.folder) / "used.json").read_text())
        assert run.value == Mixed()(synthetic_curve(used, run.seed))
        assert run.curve == tuple(synthetic_curve(used, run.seed))
        assert (Path(run.folder) / "finished.log").read_text() == "finished\n"
        steps = (Path(run.folder) / "steps.log").read_text().split()
        assert len(steps) == len(set(steps)), "a step was done twice"
        assert not files.is_locked(Path(run.folder))
    assert trial_processes(folder) == []


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_killing_the_controller_at_random_moments_loses_and_repeats_nothing(
    tmp_path: Path, start: Start, seed: int
) -> None:
    rng = random.Random(seed)
    finished: dict[tuple[str, int], RunRecord] = {}
    for _ in range(4):
        process = start(tmp_path, config=SLOW)
        time.sleep(rng.uniform(0.2, 1.2))
        process.send_signal(signal.SIGKILL)
        process.wait()
        for run in runs_in(tmp_path):
            if run.outcome is not None:
                key = (run.stage, run.number)
                assert finished.setdefault(key, run) == run, "a finished run was changed"
    assert start(tmp_path, config=SLOW).wait() == 0
    check_all_came_to_one_good_end(tmp_path)
    for run in runs_in(tmp_path):
        assert finished.get((run.stage, run.number), run) == run


def test_ctrl_c_stops_the_children_and_the_same_command_goes_on(tmp_path: Path, start: Start) -> None:
    slower = {**SLOW, "sleep_s": 0.03}
    process = start(tmp_path, config=slower)
    until(process, lambda: len(list(tmp_path.glob("studies/study/screen/*/steps.log"))) >= 3)  # the third has begun
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert trial_processes(tmp_path) == []
    stopped = [run for run in runs_in(tmp_path) if run.outcome is None]
    assert 1 <= len(stopped) <= 2
    assert start(tmp_path, config=slower).wait() == 0
    check_all_came_to_one_good_end(tmp_path)


def test_a_second_ctrl_c_ends_at_once_what_does_not_want_to_end(tmp_path: Path, start: Start) -> None:
    process = start(tmp_path, entry="tests.tuner.entries:train_with_accidents", num_trials=3)
    until(process, lambda: len(runs_in(tmp_path)) == 3)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert trial_processes(tmp_path) == []


def test_every_accident_is_recorded_with_its_kind_and_the_study_goes_on(tmp_path: Path) -> None:
    with LocalExecutor(parallel=2, limits=Limits(silence_s=3.0, grace_s=0.5)) as executor:
        summary = run_study(
            tmp_path,
            executor,
            url=sqlite(tmp_path),
            entry="tests.tuner.entries:train_with_accidents",
            probe="tests.tuner.entries:probe",
            num_trials=8,
        )
    screened = {run.number: run for run in summary.stage("screen")}
    assert sorted(screened) == list(range(8))
    assert screened[1].outcome is Outcome.CRASHED
    assert screened[1].value is None
    assert screened[1].reason == "RuntimeError: the replay buffer is upside down"
    assert screened[2].outcome is Outcome.HUNG
    assert screened[2].value is None
    assert screened[3].outcome is Outcome.COMPLETE
    kept = (Path(screened[3].folder) / "steps.log").read_text().split()
    assert len(kept) == 5, "it went on from its fifth step after it had been killed"
    assert screened[4].outcome is Outcome.DIVERGED
    assert screened[4].value == -7.0
    for number in (0, 3, 5, 6, 7):
        run = screened[number]
        used = json.loads((Path(run.folder) / "used.json").read_text())
        assert run.value == Mixed()(synthetic_curve(used, run.seed))
        assert {path: used[path.split(".")[0]][path.split(".")[1]] for path in run.params} == run.params
    assert summary.winner_label is not None
    assert len(summary.stage("test")) == 4


def test_a_config_that_does_not_reach_the_object_is_found_out(tmp_path: Path) -> None:
    with LocalExecutor(parallel=1) as executor, pytest.raises(StudyError) as raised:
        run_study(tmp_path, executor, url=sqlite(tmp_path), entry="tests.tuner.entries:train_deaf", max_failures=2)
    assert "optimizer.learning_rate was sampled as" in str(raised.value)
    assert "is 0.5 in the objects that were built" in str(raised.value)
    assert "the config does not reach the object" in str(raised.value)
    assert [run.outcome for run in runs_in(tmp_path)] == [Outcome.CRASHED, Outcome.CRASHED]


def test_a_study_in_which_nothing_works_is_stopped_with_the_cause(tmp_path: Path) -> None:
    with LocalExecutor(parallel=2) as executor, pytest.raises(StudyError, match="No module named 'my_wrappers'"):
        run_study(
            tmp_path,
            executor,
            url=sqlite(tmp_path),
            entry="tests.tuner.entries:crash",
            max_failures=3,
            num_trials=20,
            retries=0,
        )
    failed = [run for run in runs_in(tmp_path) if run.outcome is Outcome.CRASHED]
    assert 3 <= len(failed) <= 4
    assert trial_processes(tmp_path) == []


def test_an_environment_that_does_not_fit_the_agent_is_refused_before_the_first_trial(tmp_path: Path) -> None:
    with (
        LocalExecutor(parallel=1) as executor,
        pytest.raises(ValueError, match="Pendulum-v1 has continuous ones") as raised,
    ):
        run_study(tmp_path, executor, url=sqlite(tmp_path), probe="tests.tuner.entries:probe_misfit")
    assert "EnvironmentMismatchError" not in str(raised.value)
    assert runs_in(tmp_path) == ()
    assert (tmp_path / "studies" / "study" / PROBE / "0" / files.OUTPUT_FILE).exists()


def test_two_controllers_of_one_study_are_refused(tmp_path: Path, start: Start) -> None:
    process = start(tmp_path, config=SLOW)
    lock = definition(tmp_path).study_folder / "controller.lock"
    until(process, lambda: lock.exists() and lock.read_text() != "")
    with LocalExecutor() as executor, pytest.raises(ValueError, match=f"is being run by process {process.pid}"):
        run_study(tmp_path, executor, url=sqlite(tmp_path), config=SLOW)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 130
