"""Trials are held to their limits, ended when asked, and leave no process behind."""

import signal
import time
from types import SimpleNamespace

import pytest

from tuner.executors.base import Limits, TrialProgress, TrialReported, TrialStarted
from tuner.executors.local import LocalExecutor
from tuner.trial import Outcome, read_trial, system

GRACE_S = 0.2


def test_silent_trial_has_hung_and_shows_where_it_hangs(driver):
    with LocalExecutor(limits=Limits(silence_s=0.3, grace_s=GRACE_S)) as executor:
        result = driver.run(executor, "hang")
    assert result.outcome is Outcome.HUNG
    assert result.reason == "nothing was heard from it for longer than limits.silence_s=0.3 s"
    assert "in hang" in result.traceback
    assert read_trial(driver.folder / "0").result == result


def test_what_a_trial_says_after_the_verdict_that_it_hung_comes_too_late(driver):
    with LocalExecutor(limits=Limits(silence_s=0.3, grace_s=10.0)) as executor:
        result = driver.run(executor, "sleep_too_long", seconds=1.0)
    assert result.outcome is Outcome.HUNG
    assert read_trial(driver.folder / "0").result == result, "and it is not found complete by the next controller"


def test_a_trial_that_has_written_its_result_has_not_hung(driver):
    with LocalExecutor(limits=Limits(silence_s=1.5, grace_s=GRACE_S)) as executor:
        assert driver.run(executor, "stay_silent_at_the_end", seconds=2.5).outcome is Outcome.COMPLETE


def test_waiting_for_a_verdict_is_not_silence(driver):
    with LocalExecutor(limits=Limits(silence_s=1.5, grace_s=GRACE_S)) as executor:
        driver.start(executor, "wait_for_verdict")
        driver.until(executor, TrialReported)
        assert executor.wait(2.5) == []
        executor.answer("screen/0", "continue")
        assert driver.finish(executor)["screen/0"].outcome is Outcome.COMPLETE


@pytest.mark.parametrize("worked", [False, True])
def test_a_controller_that_was_stopped_takes_no_trial_for_hung(driver, monkeypatch, worked):
    passed = {"monotonic": 0.0, "process_time": 0.0}
    clocks = {name: lambda name=name: getattr(time, name)() + passed[name] for name in passed}
    monkeypatch.setattr("tuner.executors.local.time", SimpleNamespace(**clocks))
    with LocalExecutor(limits=Limits(silence_s=20.0, wall_s=50.0, grace_s=GRACE_S)) as executor:
        driver.start(executor, "hang")
        driver.until(executor, TrialStarted)
        passed["monotonic"] += 60.0
        passed["process_time"] += 60.0 * worked  # then it could have listened
        executor.wait(0.0)
        assert executor._trials["screen/0"].is_ending is worked
        passed["monotonic"] += 1.5  # a turn as there are many
        executor.wait(0.0)
        assert executor._trials["screen/0"].is_ending is worked


def test_wall_limit_lets_the_trial_checkpoint(driver):
    with LocalExecutor(limits=Limits(wall_s=0.5)) as executor:
        result = driver.run(executor, "stay_alive")
    assert (result.outcome, result.reason) == (Outcome.TIMED_OUT, "it ran longer than limits.wall_s=0.5 s")
    assert (driver.folder / "0" / "checkpoint").read_text() == "stopped"
    assert read_trial(driver.folder / "0").result == result  # not STOPPED, as the child itself had to think


def test_memory_limit_counts_the_group(driver):
    with LocalExecutor(limits=Limits(memory_mb=200)) as executor:
        result = driver.run(executor, "fill_memory")
    assert result.outcome is Outcome.OUT_OF_MEMORY
    assert "more than limits.memory_mb=200" in result.reason


@pytest.mark.parametrize("name", ["wall_s", "memory_mb", "silence_s", "grace_s"])
def test_limits_are_positive(name):
    with pytest.raises(ValueError, match=f"limits.{name} must be greater than 0, not 0"):
        Limits(**{name: 0})


def test_stop_all_stops_trials_in_any_state(driver, executor, wait_for_file):
    driver.start(executor, "stay_alive", number=0)
    driver.until(executor, TrialReported)
    driver.start(executor, "stay_alive", number=1)
    executor.answer("screen/0", "continue")
    driver.until(executor, TrialProgress)
    executor.stop_all()
    results = driver.finish(executor)
    assert {key: result.outcome for key, result in results.items()} == {
        "screen/0": Outcome.STOPPED,
        "screen/1": Outcome.STOPPED,
    }
    assert (driver.folder / "0" / "checkpoint").read_text() == "stopped"


def test_trial_that_was_not_forked_yet_is_stopped_at_once(driver, executor):
    driver.start(executor, "complete")
    executor.stop_all()
    result = driver.finish(executor)["screen/0"]
    assert (result.outcome, result.reason, result.seconds) == (Outcome.STOPPED, "asked to stop", 0.0)


def test_trial_that_does_not_listen_is_killed(driver):
    with LocalExecutor(limits=Limits(grace_s=GRACE_S)) as executor:
        driver.start(executor, "hang")
        driver.until(executor, TrialStarted)
        executor.stop_all()
        assert driver.finish(executor)["screen/0"].outcome is Outcome.STOPPED


def test_sigterm_stops_orderly(driver, executor):
    driver.start(executor, "wait_for_verdict")
    pid = driver.until(executor, TrialStarted).pid
    while not (driver.folder / "0" / "note.json").exists():
        executor.wait(0.01)
    system.send_signal(pid, None, signal.SIGTERM)
    result = driver.finish(executor, verdict="")["screen/0"]
    assert (result.outcome, result.reason) == (Outcome.STOPPED, "stopped by SIGTERM")
    assert (driver.folder / "0" / "checkpoint").read_text() == "stopped"


@pytest.mark.parametrize("isolation", ["forkserver", "spawn"])
@pytest.mark.parametrize("end", ["return", "exit", "wait"])
def test_descendants_die_with_the_trial(driver, wait_for_death, wait_for_file, isolation, end):
    with LocalExecutor(isolation=isolation, limits=Limits(grace_s=GRACE_S)) as executor:
        folder = driver.start(executor, "breed", end=end)
        driver.until(executor, TrialStarted)
        wait_for_file(folder / "note.json")
        if end == "wait":
            executor.stop_all()
        driver.finish(executor)
        for pid in driver.note()["pids"]:
            wait_for_death(pid)
        assert not read_trial(folder).alive


def test_close_ends_running_trials_and_keeps_their_folders_sound(driver, executor, wait_for_death):
    folder = driver.start(executor, "stay_alive")
    driver.until(executor, TrialReported)
    server = executor.server_pid
    executor.close()
    executor.close()
    assert read_trial(folder).result.outcome is Outcome.STOPPED
    wait_for_death(server)
    with pytest.raises(RuntimeError, match="closed"):
        driver.start(executor, "complete", number=1)
