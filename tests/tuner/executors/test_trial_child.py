"""The process of a trial: its kind, and how work gets into it."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

import tuner.trial
from tuner.errors import UserError
from tuner.executors.local import LocalExecutor
from tuner.trial import Outcome, TrialSpec, read_trial

SCRIPT = """
import sys
from pathlib import Path
from tuner.executors.local import LocalExecutor
from tuner.trial import TrialSpec

print("script runs")
factor = 3

def double(x):
    return factor * x

def objective(trial):
    import helper_beside_the_script
    trial.report(1.0, double(trial.spec.config["x"]) + helper_beside_the_script.OFFSET)

with LocalExecutor() as executor:
    executor.start(TrialSpec("study", "screen", 0, 1, {"x": 2}), Path("trial"), objective)
    while executor.free_slots == 0:
        for event in executor.wait():
            print(event)
            if type(event).__name__ == "TrialReported":
                executor.answer(event.key, "continue")
"""


@pytest.mark.parametrize("isolation", ["forkserver", "spawn"])
def test_child_is_a_process_of_its_own_kind(driver, tmp_path, monkeypatch, isolation):
    (tmp_path / "cwd").mkdir()
    with LocalExecutor(isolation=isolation, threads=3) as executor:
        monkeypatch.chdir(tmp_path / "cwd")  # as everything else: what holds when the trial is started counts
        monkeypatch.setenv("SET_BY_TEST", "seen")
        assert driver.run(executor, "look_around").outcome is Outcome.COMPLETE
    note = driver.note()
    assert note["stdin"] == ""
    assert note["pid"] == note["group"] == note["session"]
    assert note["sigint"]
    assert note["threads"] == "3"
    assert note["variable"] == "seen"
    assert note["cwd"] == str(tmp_path / "cwd")
    assert str(tmp_path / "cwd") in note["path"]
    assert str(Path(__file__).parent) in note["path"]
    assert read_trial(driver.folder / "0").spec.threads == 3
    # stdin, stdout, stderr, control line, lock, reports, metrics, and the listing itself: nothing of anybody else's
    assert len(note["descriptors"]) == 8
    output = (driver.folder / "0" / "output.log").read_text()
    assert sorted(output.splitlines()) == ["from a program", "to stderr", "to stdout"]


def test_output_of_attempts_is_appended(driver, executor):
    for _ in range(2):
        driver.run(executor, "raise_error")
    assert (driver.folder / "0" / "output.log").read_text().count("before the error") == 2


def test_children_do_not_share_numpys_global_random_state(driver, executor):
    driver.start(executor, "look_around", number=0)
    driver.start(executor, "look_around", number=1)
    driver.finish(executor)
    assert driver.note(0)["random"] != driver.note(1)["random"]
    assert [driver.note(number)["seed"] for number in (0, 1)] == [11, 12]


def test_function_of_a_script_without_a_main_guard_works(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "helper_beside_the_script.py").write_text("OFFSET = 100\n")
    root = str(Path(tuner.trial.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == "script runs"
    assert lines.count("script runs") == 1
    assert "TrialReported(key='screen/0', step=1.0, value=106.0)" in lines
    assert read_trial(tmp_path / "trial").result.outcome is Outcome.COMPLETE


def test_module_in_the_working_directory_is_found(tmp_path, monkeypatch, executor):
    (tmp_path / "module_of_the_user.py").write_text("def entry(trial):\n    trial.report(1, 5)\n")
    monkeypatch.chdir(tmp_path)
    executor.start(TrialSpec("study", "screen", 0, 1, {}, entry="module_of_the_user:entry"), tmp_path / "trial")
    events = []
    while executor.free_slots < 2:
        for event in executor.wait(20):
            events.append(type(event).__name__)
            if events[-1] == "TrialReported":
                executor.answer(event.key, "continue")
    assert events == ["TrialStarted", "TrialReported", "TrialEnded"]


def test_large_function_and_config_arrive(driver, executor):
    """Larger than the buffers of sockets, so that nobody may wait for the other."""
    blob = os.urandom(3_000_000)
    executor.start(driver.spec("unused", argument="x" * 3_000_000), driver.folder, lambda trial: len(blob) == 3_000_000)
    assert driver.finish(executor)["screen/0"].outcome is Outcome.COMPLETE


def test_two_executors_work_side_by_side(driver, executor):
    with LocalExecutor() as other:
        assert other.server_pid is None, "nobody waits for imports before there is a trial"
        driver.start(executor, "complete", number=0)
        driver.start(other, "complete", number=1)
        assert driver.finish(executor)["screen/0"].outcome is Outcome.COMPLETE
        assert driver.finish(other)["screen/1"].outcome is Outcome.COMPLETE
        assert executor.server_pid != other.server_pid


def test_an_executor_that_was_warmed_up_has_its_server_for_the_first_trial(driver):
    with LocalExecutor() as executor:
        executor.warm_up()
        server = executor.server_pid
        assert server is not None
        executor.warm_up()
        driver.start(executor, "complete")
        assert driver.finish(executor)["screen/0"].outcome is Outcome.COMPLETE
        assert executor.server_pid == server
    with LocalExecutor() as unused:
        unused.warm_up()
        server = unused.server_pid
    assert not psutil.pid_exists(server), "closed without a trial, it is gone all the same"


def test_folder_that_cannot_be_written_is_refused(tmp_path, executor, driver):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=f"{tmp_path}/file/trial cannot be written: Not a directory"):
        executor.start(driver.spec("complete"), tmp_path / "file" / "trial")
    assert executor.free_slots == 2


def test_function_that_cannot_be_pickled_is_refused(tmp_path, executor, driver):
    lock = threading.Lock()
    with pytest.raises(UserError, match="cannot be sent to a trial's process"):
        executor.start(driver.spec("complete"), tmp_path, lambda trial: lock.acquire())
    assert executor.free_slots == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"parallel": 0}, "executor.parallel must be at least 1, not 0"),
        ({"threads": -1}, "executor.threads must be at least 1, not -1"),
        ({"isolation": "thread"}, "executor.isolation must be forkserver or spawn, not 'thread'"),
        ({"backend": "jax"}, "backend must be one of torch, keras, none, not 'jax'"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        LocalExecutor(**arguments)


def test_backend_that_is_not_installed_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"backend=torch needs torch, .* pip install 'note-rl\[torch\]'"):
        LocalExecutor(backend="torch")


def test_no_more_trials_than_slots(driver, executor):
    driver.start(executor, "complete", number=0)
    with pytest.raises(RuntimeError, match="screen/0 cannot be started"):
        driver.start(executor, "complete", number=0)
    driver.start(executor, "complete", number=1)
    assert executor.free_slots == 0
    with pytest.raises(RuntimeError, match="2 of 2 trials run"):
        driver.start(executor, "complete", number=2)
    driver.finish(executor)
    assert executor.wait(None) == []  # nothing runs: nothing to wait for
