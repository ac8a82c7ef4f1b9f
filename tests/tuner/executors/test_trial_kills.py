"""kill -9 of anything: the child, the fork server, the controller."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

import tuner.trial
from tuner.executors.base import Limits, TrialReported, TrialStarted
from tuner.executors.inline import InlineExecutor
from tuner.executors.local import LocalExecutor
from tuner.trial import Outcome, end_leftover, read_trial, wait_until_free
from tuner.trial import folder as files
from tuner.trial.forkserver import Hello, hello_line
from tuner.trial.launch import module_path, program
from tuner.trial.wire import Launch

CONTROLLER = """
import sys
from pathlib import Path
from tuner.executors.base import TrialReported
from tuner.executors.local import LocalExecutor
from tuner.trial import TrialSpec

folder, entry = Path(sys.argv[1]), sys.argv[2]
sys.path.append(sys.argv[3])
with LocalExecutor() as executor:
    executor.start(TrialSpec("study", "screen", 0, 1, {"end": "wait"}, entry=f"trial_entries:{entry}"), folder)
    print(executor.server_pid, flush=True)
    try:
        while executor.free_slots == 0:
            for event in executor.wait():
                if isinstance(event, TrialReported):
                    executor.answer(event.key, "continue")
                print(type(event).__name__, flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.fixture
def controller(tmp_path):
    """Start a controller in a process (and terminal group) of its own; returns it and its fork server's number."""
    script = tmp_path / "controller.py"
    script.write_text(CONTROLLER)
    started = []

    def start(entry):
        process = subprocess.Popen(
            [sys.executable, str(script), str(tmp_path / "trial"), entry, str(Path(__file__).parent)],
            env={**os.environ, "PYTHONPATH": str(Path(tuner.trial.__file__).parents[2])},
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        started.append(process)
        return process, int(process.stdout.readline())

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def read_until(process, line):
    for read in process.stdout:
        if read.strip() == line:
            return
    raise AssertionError(f"the controller ended before it said {line}")


def test_killed_controller_leaves_a_stopped_trial_and_no_process(controller, tmp_path, wait_for_death):
    process, server = controller("stay_alive")
    read_until(process, "TrialProgress")
    folder = tmp_path / "trial"
    pid = read_trial(folder).pid
    assert pid is not None
    process.kill()
    assert wait_until_free(folder, 20)
    wait_for_death(server)
    wait_for_death(pid)
    state = read_trial(folder)
    assert (state.result.outcome, state.result.reason) == (Outcome.STOPPED, "the controller has gone")
    assert (folder / "checkpoint").read_text() == "stopped"
    assert (state.alive, state.pid, state.reports) == (False, None, ((0.1, 1.0),))


def test_what_a_killed_controller_left_hanging_can_be_ended(controller, tmp_path, wait_for_death, wait_for_file):
    process, server = controller("breed")
    folder = tmp_path / "trial"
    read_until(process, "TrialStarted")
    wait_for_file(folder / "note.json")
    process.kill()
    state = read_trial(folder)
    assert state.alive
    assert not wait_until_free(folder, 0.1)
    assert end_leftover(folder, grace_s=0.1)
    assert wait_until_free(folder, 20)
    wait_for_death(state.pid)
    wait_for_death(server)
    assert not end_leftover(folder, grace_s=0.1)


@pytest.mark.parametrize("make", [LocalExecutor, InlineExecutor])
def test_any_executor_frees_the_folder_of_what_a_killed_controller_left(
    make, controller, tmp_path, monkeypatch, wait_for_death, wait_for_file
):
    monkeypatch.setattr("tuner.executors.leftovers.PATIENCE_S", 0.1)
    monkeypatch.setattr("tuner.trial.folder.end_leftover", partial(end_leftover, grace_s=0.2))
    process, server = controller("breed")
    folder = tmp_path / "trial"
    read_until(process, "TrialStarted")
    wait_for_file(folder / "note.json")
    process.kill()
    state = read_trial(folder)
    assert state.alive
    with make() as executor:
        executor.reclaim(state.spec, folder)
        assert not read_trial(folder).alive
    wait_for_death(state.pid)
    wait_for_death(server)


def test_ctrl_c_stops_trials_orderly(controller, tmp_path, wait_for_death):
    process, server = controller("stay_alive")
    read_until(process, "TrialProgress")
    os.killpg(process.pid, signal.SIGINT)
    assert process.stdout.read().splitlines()[-1] == "interrupted"
    assert process.wait(20) == 0
    assert read_trial(tmp_path / "trial").result.outcome is Outcome.STOPPED
    assert (tmp_path / "trial" / "checkpoint").exists()
    wait_for_death(server)


def test_killed_child_is_a_crash(driver, executor):
    driver.start(executor, "stay_alive")
    os.kill(driver.until(executor, TrialStarted).pid, signal.SIGKILL)
    result = driver.finish(executor)["screen/0"]
    assert (result.outcome, result.reason[:34]) == (Outcome.CRASHED, "its process was killed by SIGKILL ")


def test_trial_outlives_the_fork_server(driver, executor, wait_for_death):
    driver.start(executor, "complete", number=0)
    driver.until(executor, TrialReported)
    server = executor.server_pid
    os.kill(server, signal.SIGKILL)
    executor.wait(0.3)
    driver.start(executor, "complete", number=1)
    executor.answer("screen/0", "continue")
    results = driver.finish(executor)
    assert {key: result.outcome for key, result in results.items()} == {
        "screen/0": Outcome.COMPLETE,
        "screen/1": Outcome.COMPLETE,
    }
    assert executor.server_pid not in (None, server)
    wait_for_death(server)


def test_death_without_a_fork_server_is_noticed(driver, executor, wait_for_death):
    driver.start(executor, "breed", end="wait")
    pid = driver.until(executor, TrialStarted).pid
    while not (driver.folder / "0" / "note.json").exists():
        executor.wait(0.01)
    os.kill(executor.server_pid, signal.SIGKILL)
    executor.wait(0.3)
    os.kill(pid, signal.SIGKILL)
    result = driver.finish(executor)["screen/0"]
    assert result.outcome is Outcome.CRASHED
    assert "as the fork server died too" in result.reason
    for descendant in driver.note()["pids"]:
        wait_for_death(descendant)


@pytest.mark.parametrize("is_warm", [False, True])
def test_fork_server_killed_around_a_request_is_replaced(driver, is_warm):
    for number in range(4):
        with LocalExecutor() as executor:
            if is_warm:
                driver.run(executor, "report_elsewhere", number=10 + number)
            folder = driver.start(executor, "report_elsewhere", number=number)
            driver.attend(executor, executor.wait(0.02 * number))  # while it imports, forks, or has forked
            os.kill(executor.server_pid, signal.SIGKILL)
            driver.finish(executor)
        assert read_trial(folder).result.outcome is Outcome.COMPLETE


def test_second_child_on_one_folder_is_refused(driver, executor):
    folder = driver.start(executor, "stay_alive", number=0)
    driver.until(executor, TrialReported)
    executor.start(driver.spec("stay_alive", number=1), folder)
    events = []
    while executor.free_slots == 0:
        events += executor.wait(10)
    assert [event.key for event in events] == ["screen/1"]
    assert events[0].result.outcome is Outcome.CRASHED
    assert events[0].result.reason == f"another process runs this trial in {folder}"
    assert read_trial(folder).result is None
    assert read_trial(folder).alive
    executor.answer("screen/0", "stop")
    assert driver.finish(executor)["screen/0"].outcome is Outcome.STOPPED


def test_fork_server_that_cannot_start_is_a_crash_that_says_why(driver, monkeypatch):
    with LocalExecutor() as executor:
        driver.run(executor, "complete", number=0)
        monkeypatch.setattr(sys, "executable", "/bin/false")
        os.kill(executor.server_pid, signal.SIGKILL)
        executor.wait(0)
        driver.start(executor, "complete", number=1)
        result = driver.finish(executor)["screen/1"]
    assert result.outcome is Outcome.CRASHED
    assert result.reason.startswith("the fork server died 3 times while it was starting")


@pytest.mark.parametrize("isolation", ["forkserver", "spawn"])
def test_ends_are_noticed_without_pidfds(driver, tmp_path, monkeypatch, isolation):
    """An old kernel, or macOS: the end of the line stands in for the pidfd."""

    def refuse(pid):
        raise OSError(errno.ENOSYS, "not implemented")

    (tmp_path / "sitecustomize.py").write_text(
        "import errno, os\n"
        "def refuse(pid):\n    raise OSError(errno.ENOSYS, 'not implemented')\n"
        "os.pidfd_open = refuse\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.setattr(os, "pidfd_open", refuse)
    with LocalExecutor(isolation=isolation, limits=Limits(silence_s=2.0, grace_s=0.2)) as executor:
        outcomes = [
            driver.run(executor, entry, number=number, end="exit").outcome
            for number, entry in enumerate(["complete", "kill_itself", "breed", "hang"])
        ]
    assert outcomes == [Outcome.COMPLETE, Outcome.CRASHED, Outcome.CRASHED, Outcome.HUNG]


def test_orphan_that_does_not_notice_is_killed(driver, tmp_path, wait_for_death, wait_for_file):
    """The fork server outlives its controller until the last child is gone."""
    spec, folder = driver.spec("breed", end="wait"), tmp_path / "trial"
    files.prepare(folder, spec)
    ours, theirs = socket.socketpair()
    line, child_end = socket.socketpair()
    server = subprocess.Popen(program("tuner.trial.forkserver", theirs.fileno()), pass_fds=[theirs.fileno()])
    theirs.close()
    ours.sendall(hello_line(Hello(module_path(), [], orphan_grace_s=0.2)))
    socket.send_fds(ours, [b'{"fork": 1}\n'], [child_end.fileno()])
    child_end.close()
    line.sendall(Launch(str(folder), str(tmp_path), module_path(), dict(os.environ), time.monotonic()).encode())
    wait_for_file(folder / "note.json")
    child = read_trial(folder).pid
    ours.close()
    line.close()
    assert server.wait(20) == 0
    wait_for_death(child)
    for pid in json.loads((folder / "note.json").read_text())["pids"]:
        wait_for_death(pid)
