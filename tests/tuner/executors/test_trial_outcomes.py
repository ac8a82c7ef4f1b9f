"""Whatever a trial does ends as a typed value."""

import json

import pytest

from tuner.executors.base import (
    TrialBuilt,
    TrialEnded,
    TrialLogged,
    TrialProgress,
    TrialReported,
    TrialStarted,
)
from tuner.executors.local import LocalExecutor
from tuner.trial import Outcome, read_trial
from tuner.trial.folder import METRICS_FILE


def test_complete_trial_in_an_interpreter_of_its_own_says_everything_in_order(driver):
    """From a fork server, and what else all executors do: test_executor_contract.py."""
    with LocalExecutor(isolation="spawn") as executor:
        result = driver.run(executor, "complete", learning_rate=0.1)
    assert result.outcome is Outcome.COMPLETE
    assert [type(event) for event in driver.events] == [
        TrialStarted,
        TrialBuilt,
        TrialLogged,
        TrialProgress,
        *[TrialReported] * 3,
        TrialEnded,
    ]
    assert [(event.step, event.value) for event in driver.events[4:7]] == [(0.25, 2.5), (0.5, 5.0), (1.0, 10.0)]
    assert driver.events[1].config == {"learning_rate": 0.1, "used": True}
    assert 0 < driver.events[1].seconds < result.seconds
    logged = driver.events[2]
    assert logged.step == 3
    assert logged.metrics["loss"] == 0.5
    assert logged.metrics["bad"] != logged.metrics["bad"]  # NaN arrives
    state = read_trial(driver.folder / "0")
    assert state.result == result
    assert state.reports == ((0.25, 2.5), (0.5, 5.0), (1.0, 10.0))
    assert state.spec == driver.spec("complete", learning_rate=0.1)
    assert not state.alive
    line = (driver.folder / "0" / METRICS_FILE).read_text()
    assert json.loads(line) == {"step": 3, "loss": 0.5, "bad": None}


def test_current_trial_is_known_to_any_function(driver, shared_executor):
    assert driver.run(shared_executor, "report_elsewhere").outcome is Outcome.COMPLETE


def test_exception_keeps_its_traceback(driver, shared_executor):
    result = driver.run(shared_executor, "raise_error")
    assert result.outcome is Outcome.CRASHED
    assert result.reason == "KeyError: 'no such key'"
    assert 'raise KeyError("no such key")' in result.traceback
    output = (driver.folder / "0" / "output.log").read_text()
    assert output.startswith("before the error\n")
    assert 'raise KeyError("no such key")' in output


def test_entry_that_cannot_be_imported_crashes_with_a_traceback(driver, shared_executor):
    result = driver.run(shared_executor, "no_such_function")
    assert result.outcome is Outcome.CRASHED
    assert "no_such_function" in result.reason


@pytest.mark.parametrize(
    ("entry", "outcome", "reason"),
    [
        ("raise_diverged", Outcome.DIVERGED, "DivergedError: the loss is nan"),
        ("raise_out_of_memory", Outcome.OUT_OF_MEMORY, "OutOfMemoryError: tried to allocate 1 TB"),
        ("report_nan", Outcome.DIVERGED, "the value reported at step 1 is nan"),
        ("leave", Outcome.CRASHED, "SystemExit: 0"),
        ("exit_at_once", Outcome.CRASHED, "its process ended with exit code 7 and left no result"),
        (
            "kill_itself",
            Outcome.CRASHED,
            "its process was killed by SIGKILL (by the kernel if memory ran out, or by hand)",
        ),
        ("segfault", Outcome.CRASHED, "its process was killed by SIGSEGV"),
    ],
)
def test_the_kind_of_end_is_reported(driver, shared_executor, entry, outcome, reason):
    result = driver.run(shared_executor, entry)
    assert (result.outcome, result.reason) == (outcome, reason)
    assert read_trial(driver.folder / "0").result == result  # the parent writes what the child could not


def test_last_output_stands_in_for_a_traceback(driver, shared_executor):
    assert driver.run(shared_executor, "exit_at_once").traceback == "last words"


def test_segmentation_fault_shows_where(driver, shared_executor):
    assert "in segfault" in driver.run(shared_executor, "segfault").traceback


def test_value_that_is_not_finite_is_neither_written_nor_sent(driver, shared_executor):
    driver.run(shared_executor, "report_nan")
    assert read_trial(driver.folder / "0").reports == ((0.5, 1.0),)
    assert [event.step for event in driver.events if isinstance(event, TrialReported)] == [0.5]


def test_spawned_child_that_exits_is_a_crash(driver):
    with LocalExecutor(isolation="spawn") as executor:
        assert driver.run(executor, "exit_at_once").reason.startswith("its process ended with exit code 7")


def test_pause_verdict_pauses(driver, shared_executor):
    result = driver.run(shared_executor, "wait_for_verdict", verdict="pause")
    assert (result.outcome, result.outcome.effects.failed) == (Outcome.PAUSED, False)
    assert (driver.folder / "0" / "checkpoint").read_text() == "paused"
