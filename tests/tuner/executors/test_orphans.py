"""Nothing that a trial has started outlives it, whatever it has left: its group, its session, its parent."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import tuner.trial
from tests.tuner.studies import ControllerDied, FakeExecutor, run_study
from tuner.executors.base import TrialStarted
from tuner.executors.local import LocalExecutor
from tuner.trial import Outcome, orphans, system
from tuner.trial import folder as files

CONTROLLER = """
import sys
from pathlib import Path
from tuner.executors.local import LocalExecutor
from tuner.trial import TrialSpec

sys.path.append(sys.argv[3])
with LocalExecutor(isolation=sys.argv[2]) as executor:
    spec = TrialSpec("study", "screen", 0, 1, {"end": "wait", "bare": False}, entry="trial_entries:scatter")
    executor.start(spec, Path(sys.argv[1]))
    while executor.wait(0.05) or executor.free_slots == 0:
        pass
"""
ISOLATIONS = ("forkserver", "spawn")


def wait_for_note(folder: Path, executor: LocalExecutor | None = None) -> list[int]:
    """The processes that `scatter` has started; the controller goes on meanwhile."""
    deadline = time.monotonic() + 60
    while not (folder / "note.json").exists():
        assert time.monotonic() < deadline
        if executor is None:
            time.sleep(0.05)
        else:
            executor.wait(0.05)
    pids: list[int] = json.loads((folder / "note.json").read_text())["pids"]
    assert all(system.start_time(pid) for pid in pids)
    return pids


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if system.start_time(pid) is not None]


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("end", ["return", "exit"])
def test_nothing_outlives_a_trial_that_ends(driver, isolation, end):
    with LocalExecutor(isolation=isolation) as executor:
        bare = (isolation, end) != ("spawn", "exit")  # by nobody's child without a mark nobody is known
        result = driver.run(executor, "scatter", end=end, bare=bare)
        assert result.outcome is (Outcome.COMPLETE if end == "return" else Outcome.CRASHED)
        assert len(driver.note()["pids"]) == 4 + bare
        assert alive(driver.note()["pids"]) == []


@pytest.mark.parametrize("isolation", [*ISOLATIONS, "orphaned"])
def test_nothing_outlives_a_trial_that_is_killed_and_another_keeps_what_it_has(driver, isolation):
    """Orphaned: its fork server is dead, too."""
    fork, bare = isolation != "spawn", isolation == "forkserver"
    with LocalExecutor(parallel=2, isolation="forkserver" if fork else "spawn") as executor:
        driver.start(executor, "scatter", number=0, end="wait", bare=bare)
        pid = driver.until(executor, TrialStarted).pid
        driver.start(executor, "scatter", number=1, end="wait", bare=bare)
        own, others = (wait_for_note(driver.folder / str(number), executor) for number in (0, 1))
        if isolation == "orphaned":
            os.kill(executor.server_pid, signal.SIGKILL)
            executor.wait(0.3)
        os.kill(pid, signal.SIGKILL)
        while executor.free_slots == 0:
            executor.wait(1.0)
        assert alive(own) == []
        assert alive(others) == others
    assert alive(others) == []


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def kill_all(tmp_path: Path, isolation: str, started: list[subprocess.Popen[bytes]], *, warden: bool) -> list[int]:
    """Kills controller, fork server and trial at the same time, the warden as well if asked to; says who is left."""
    (tmp_path / "controller.py").write_text(CONTROLLER)
    command = [sys.executable, "controller.py", str(tmp_path / "trial"), isolation, str(Path(__file__).parent)]
    root = str(Path(tuner.trial.__file__).parents[2])
    process = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": root})
    started.append(process)
    pids = wait_for_note(tmp_path / "trial")
    victims = [process.pid, files.read_trial(tmp_path / "trial").pid]
    for child in psutil.Process(process.pid).children():
        is_warden = "tuner.trial.warden" in " ".join(child.cmdline())
        if is_warden and warden:
            victims.insert(0, child.pid)  # first, or it finds time to do its work
        else:
            (pids if is_warden else victims).append(child.pid)
    for deadly in (signal.SIGSTOP, signal.SIGKILL):  # stopped first: none can act on the death of another
        for victim in victims:
            os.kill(victim, deadly)
    process.wait()
    return pids


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_nothing_outlives_controller_fork_server_and_trial_killed_together(
    tmp_path, controller, wait_for_death, isolation
):
    for pid in kill_all(tmp_path, isolation, controller, warden=False):
        wait_for_death(pid)


def test_the_next_controller_ends_what_is_left_where_all_were_killed(tmp_path, controller):
    """Its first act is to look whom the folders of open runs name."""
    pids = kill_all(tmp_path, "forkserver", controller, warden=True)
    assert alive(pids) == pids
    with pytest.raises(ControllerDied):
        run_study(tmp_path / "study", FakeExecutor(die_after=3))
    open_run = tmp_path / "study/studies/study/screen/0"
    (open_run / files.PID_FILE).write_bytes((tmp_path / "trial" / files.PID_FILE).read_bytes())
    run_study(tmp_path / "study")
    assert alive(pids) == []


def test_what_belongs_to_a_living_controller_is_not_touched(driver):
    """As in a copy of the folder of a study that runs."""
    with LocalExecutor() as executor:
        folder = driver.start(executor, "scatter", end="wait")
        pids = wait_for_note(folder, executor)
        (session,) = files.sessions_of([folder])
        orphans.end_deserted([session])
        assert alive(pids) == pids
        assert orphans.is_deserted(f"{session}0")


def test_an_executor_within_a_trial_carries_both_marks():
    outer, inner = orphans.new_session(), orphans.new_session()
    environment = orphans.marked_with(inner, orphans.marked_with(outer, {}))
    process = subprocess.Popen(["sleep", "1000"], env={**os.environ, **environment})
    try:
        assert orphans.end_marked(outer)
        assert process.wait(20) == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()


BESIDE = """
import time
from tuner.trial import orphans
orphans.end_with_parent()
print("here", flush=True)
time.sleep(600)
"""


def test_a_process_can_end_with_the_one_that_has_started_it() -> None:
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BESIDE!r}])"
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "here\n"
    (child,) = psutil.Process(parent.pid).children()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert not psutil.wait_procs([child], timeout=20)[1]
