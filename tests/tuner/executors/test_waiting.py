"""A paused trial's process waits for the trial that goes on from it, and is nobody's burden if none does."""

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.tuner.executors.conftest import Driver, wait_until
from tuner.errors import UserError
from tuner.executors import waiting
from tuner.executors.base import TrialBuilt, TrialReported
from tuner.executors.local import LocalExecutor
from tuner.trial import Outcome, read_trial, system
from tuner.trial.folder import METRICS_FILE, REPORTS_FILE


def pause(driver: Driver, executor: LocalExecutor, number: int = 0, **changes: Any) -> int:
    """Has a trial pause at its first report; its process."""
    start(driver, executor, number, **changes)
    results = driver.finish(executor, "pause")
    assert [result.outcome for result in results.values()] == [Outcome.PAUSED]
    return int(driver.note(number)["pid"])


def start(driver: Driver, executor: LocalExecutor, number: int, **changes: Any) -> None:
    spec = replace(driver.spec("go_on", number), seed=11)
    executor.start(replace(spec, **changes), driver.folder / str(number))


def hand_over(driver: Driver, source: int, target: int) -> None:
    (driver.folder / str(target)).mkdir()
    for name in (REPORTS_FILE, METRICS_FILE):
        shutil.copyfile(driver.folder / str(source) / name, driver.folder / str(target) / name)


def alive(pid: int) -> bool:
    return system.start_time(pid) is not None


def test_the_next_trial_goes_on_in_the_process_that_has_paused_with_all_that_it_holds(driver, executor):
    pid = pause(driver, executor)
    first = driver.folder / "0"
    assert (alive(pid), read_trial(first).alive, executor._at_work().count(pid)) == (True, False, 1)
    assert read_trial(first).pid is None, "it is not to be found, or ended, there"
    before = {path: path.read_bytes() for path in first.iterdir()}
    hand_over(driver, 0, 1)
    driver.events.clear()
    start(driver, executor, 1, continues="screen/0")
    result = driver.finish(executor)["screen/1"]
    assert result.outcome is Outcome.COMPLETE
    note = driver.note(1)
    assert note == {"pid": pid, "count": 3, "cwd": os.getcwd(), "own": note["own"]}, "counted on, in memory"
    assert read_trial(driver.folder / "1").reports == ((1 / 3, 1.0), (2 / 3, 2.0), (1.0, 3.0))
    told = [(event.step, event.value) for event in driver.events if isinstance(event, TrialReported)]
    assert told == [(1 / 3, 1.0), (2 / 3, 2.0), (1.0, 3.0)]
    assert [event.config for event in driver.events if isinstance(event, TrialBuilt)] == [{"number": 1}]
    assert (driver.folder / "1" / "output.log").read_text() == "part 2\npart 3\n"
    assert {path: path.read_bytes() for path in first.iterdir()} == before, "its own folder is left alone"
    wait_until(lambda: not alive(pid), "it has ended with its second trial")


def test_what_the_trial_has_set_in_its_process_stays_and_what_the_controller_changes_follows(
    driver, executor, monkeypatch
):
    monkeypatch.setenv("SET_BY_CONTROLLER", "first")
    pid = pause(driver, executor)
    assert driver.note(0)["own"] == ["kept", "/added/by/trial", "first"]
    monkeypatch.setenv("SET_BY_CONTROLLER", "second")
    hand_over(driver, 0, 1)
    start(driver, executor, 1, continues="screen/0")
    driver.finish(executor)
    assert (driver.note(1)["pid"], driver.note(1)["own"]) == (pid, ["kept", "/added/by/trial", "second"])


def test_one_with_children_does_not_wait_as_these_print_into_its_folder(driver, executor):
    pid = pause(driver, executor, config={"child": True})
    wait_until(lambda: not alive(pid), "it has left, and its child with it")


def test_one_in_a_fresh_interpreter_does_not_wait(driver):
    with LocalExecutor(isolation="spawn") as executor:
        pid = pause(driver, executor)
        assert not psutil.pid_exists(pid), "no zombie either"


def test_one_whose_successor_cannot_begin_is_dismissed(driver, executor):
    pid = pause(driver, executor)
    (driver.folder / "1").mkdir()
    (driver.folder / "1" / REPORTS_FILE).symlink_to(driver.folder / "elsewhere")
    with pytest.raises(UserError, match="is a link"):
        start(driver, executor, 1, continues="screen/0")
    wait_until(lambda: not alive(pid), "it has left")
    assert executor.free_slots == executor.parallel


def test_all_are_dismissed_where_a_trial_may_have_died_for_lack_of_memory(driver, executor):
    pid = pause(driver, executor)
    driver.run(executor, "kill_itself", number=1)
    wait_until(lambda: not alive(pid), "its memory is given back")


def test_a_trial_may_pause_again_and_again(driver, executor):
    pid = pause(driver, executor)
    for number, verdicts in ((1, ["continue", "pause"]), (2, ["continue", "continue"])):
        hand_over(driver, number - 1, number)
        start(driver, executor, number, continues=f"screen/{number - 1}")
        for verdict in verdicts:
            executor.answer(f"screen/{number}", verdict) if driver.until(executor, TrialReported) else None
        result = driver.finish(executor)[f"screen/{number}"]
    assert (result.outcome, driver.note(2)["pid"], driver.note(2)["count"]) == (Outcome.COMPLETE, pid, 3)


@pytest.mark.parametrize(
    "changes", [{"seed": 12}, {"config": {"other": 1}}, {"continues": ""}, {"continues": "screen/7"}]
)
def test_another_trial_gets_a_process_of_its_own(driver, executor, changes):
    pid = pause(driver, executor)
    hand_over(driver, 0, 1)
    start(driver, executor, 1, **{"continues": "screen/0", **changes})
    assert driver.finish(executor)["screen/1"].outcome is Outcome.COMPLETE
    assert driver.note(1)["pid"] != pid
    if changes.get("continues") is None:  # it was asked for, and differs
        wait_until(lambda: not alive(pid), "what nobody can use has ended")


def test_one_that_is_killed_while_it_waits_is_replaced(driver, executor):
    pid = pause(driver, executor)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not alive(pid), "it is dead")
    hand_over(driver, 0, 1)
    start(driver, executor, 1, continues="screen/0")
    assert driver.finish(executor)["screen/1"].outcome is Outcome.COMPLETE
    assert (driver.note(1)["pid"] != pid, driver.note(1)["count"]) == (True, 3)
    assert read_trial(driver.folder / "1").reports == ((1 / 3, 1.0), (2 / 3, 2.0), (1.0, 3.0))


def test_one_that_dies_on_its_way_to_the_next_trial_is_replaced(driver, executor):
    pid = pause(driver, executor)
    hand_over(driver, 0, 1)
    os.kill(pid, signal.SIGSTOP)
    start(driver, executor, 1, continues="screen/0")
    os.kill(pid, signal.SIGKILL)
    assert driver.finish(executor)["screen/1"].outcome is Outcome.COMPLETE
    assert driver.note(1)["pid"] != pid


def test_those_that_were_passed_over_are_dismissed_and_so_are_those_of_another_stage(driver, executor):
    passed, kept = pause(driver, executor, 0), pause(driver, executor, 1)
    hand_over(driver, 1, 2)
    assert alive(passed)
    start(driver, executor, 2, continues="screen/1")
    wait_until(lambda: not alive(passed), "nobody will ask for it")
    driver.finish(executor)
    assert driver.note(2)["pid"] == kept
    other = pause(driver, executor, 4)
    driver.run(executor, "complete", number=5)
    assert alive(other)
    executor.start(replace(driver.spec("complete", 6), stage="confirm"), driver.folder / "6")
    driver.finish(executor)
    wait_until(lambda: not alive(other), "the stage is over")


def test_all_end_with_the_executor(driver):
    with LocalExecutor(parallel=2) as executor:
        pids = [pause(driver, executor, number) for number in range(3)]
        assert all(map(alive, pids))
    assert not any(map(alive, pids))


def test_none_waits_where_memory_is_short_or_it_is_not_wanted(driver, executor, monkeypatch):
    free = [200e6, 200e6, 200e6 - 1]  # two at a time of 100 MB each: there is room until the second start
    monkeypatch.setattr(waiting, "free_memory", lambda: free.pop(0) if len(free) > 1 else free[0])
    monkeypatch.setattr(system, "memory_of_groups", lambda groups: dict.fromkeys(groups, 100.0))
    first = pause(driver, executor)
    assert alive(first)
    second = pause(driver, executor, 2)
    wait_until(lambda: not alive(first), "the one that has waited for longest makes room")
    wait_until(lambda: not alive(second), "there is no room for it")
    with LocalExecutor(keeps_paused=False) as plain:
        pid = pause(driver, plain, 1)
        wait_until(lambda: not alive(pid), "it was not to wait")


def test_those_that_ran_beside_the_one_that_goes_on_are_kept(driver, executor):
    for number in range(2):
        start(driver, executor, number)
    driver.finish(executor, "pause")
    hand_over(driver, 1, 2)
    start(driver, executor, 2, continues="screen/1")
    driver.finish(executor)
    pid = driver.note(0)["pid"]
    assert alive(pid)
    hand_over(driver, 0, 3)
    start(driver, executor, 3, continues="screen/0")
    driver.finish(executor)
    assert driver.note(3)["pid"] == pid


@pytest.mark.parametrize(
    ("visible", "gpus", "waits"), [("3", "auto", False), ("3", None, False), ("3", 0, True), ("", "auto", True)]
)
def test_one_that_may_hold_memory_of_a_gpu_does_not_wait(driver, monkeypatch, visible, gpus, waits):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with LocalExecutor(gpus=gpus) as executor:
        pid = pause(driver, executor)
        assert (pid in executor._at_work()) == waits


def test_one_that_is_asked_to_stop_as_it_pauses_does_not_wait(driver, executor):
    start(driver, executor, 0)
    driver.until(executor, TrialReported)
    executor.answer("screen/0", "pause")
    executor.stop_all()
    driver.finish(executor)
    pid = int(driver.note(0)["pid"])
    wait_until(lambda: not alive(pid), "it has left")
    assert pid not in executor._at_work()


def test_a_process_that_waits_leaves_with_its_controller(driver, tmp_path: Path):
    import subprocess
    import sys

    program = (
        "import sys, time; sys.path.insert(0, {here!r})\n"
        "from pathlib import Path\n"
        "from tests.tuner.executors.conftest import Driver\n"
        "from tests.tuner.executors.test_waiting import pause\n"
        "from tuner.executors.local import LocalExecutor\n"
        "driver = Driver(Path({folder!r})); executor = LocalExecutor()\n"
        "print(pause(driver, executor), flush=True); time.sleep(600)\n"
    ).format(here=str(Path(__file__).parent), folder=str(tmp_path / "trials"))
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    assert alive(pid)
    process.kill()
    process.wait()
    process.stdout.close()
    wait_until(lambda: not alive(pid), "nobody is there to go on")
