"""Trials in this process: the same events, folders and outcomes as in processes of their own, in strict turns."""

import os
import signal
import threading
import time

import pytest

from tuner.errors import UserError
from tuner.executors.base import TrialReported, TrialStarted
from tuner.executors.inline import InlineExecutor
from tuner.trial import Outcome, TrialSpec, current_trial, read_trial
from tuner.trial.context import set_current_trial
from tuner.trial.folder import OUTPUT_FILE, PID_FILE, acquire_lock


@pytest.fixture
def inline():
    with InlineExecutor(parallel=2) as executor:
        yield executor


def test_current_trial_is_known_to_any_function_and_to_no_other(driver, inline):
    assert driver.run(inline, "report_elsewhere").outcome is Outcome.COMPLETE
    driver.start(inline, "report_elsewhere", 1)
    driver.start(inline, "report_elsewhere", 2)
    assert {result.outcome for result in driver.finish(inline).values()} == {Outcome.COMPLETE}
    assert current_trial() is None


@pytest.mark.parametrize(
    ("entry", "outcome", "reason"),
    [
        ("raise_error", Outcome.CRASHED, "KeyError: 'no such key'"),
        ("raise_diverged", Outcome.DIVERGED, "DivergedError: the loss is nan"),
        ("raise_out_of_memory", Outcome.OUT_OF_MEMORY, "OutOfMemoryError: tried to allocate 1 TB"),
        ("report_nan", Outcome.DIVERGED, "the value reported at step 1 is nan"),
        ("leave", Outcome.CRASHED, "SystemExit: 0"),
    ],
)
def test_every_end_is_a_value(driver, inline, entry, outcome, reason):
    result = driver.run(inline, entry)
    assert (result.outcome, result.reason) == (outcome, reason)
    assert read_trial(driver.folder / "0").result == result


def test_a_traceback_is_kept(driver, inline):
    result = driver.run(inline, "raise_error")
    assert 'raise KeyError("no such key")' in result.traceback
    assert 'raise KeyError("no such key")' in (driver.folder / "0" / OUTPUT_FILE).read_text()


def test_trials_take_turns_at_reports_and_only_one_runs_at_a_time(driver, inline):
    for number in (0, 1):
        driver.start(inline, "complete", number)
    num_threads = threading.active_count()
    driver.finish(inline)
    assert num_threads == threading.active_count(), "nothing runs before wait()"
    order = [event.key[-1] for event in driver.events if isinstance(event, TrialReported)]
    assert "".join(order) == "010101"


def test_each_trial_draws_the_random_numbers_that_it_would_draw_alone(driver, inline):
    for number in (0, 1):
        driver.start(inline, "draw", number, draws=number)
    driver.finish(inline)
    together = [event.value for event in driver.events if isinstance(event, TrialReported)]
    driver.run(inline, "draw", number=2, draws=0)
    driver.run(inline, "draw", number=3, draws=1)
    alone = [event.value for event in driver.events if isinstance(event, TrialReported)][4:]
    assert [*together[0::2], *together[1::2]] == alone
    assert len(set(alone)) == 4


def test_stop_all_ends_trials_that_wait_for_a_verdict_or_for_their_first_turn(driver, inline):
    driver.start(inline, "complete", 0)
    driver.until(inline, TrialReported)
    driver.start(inline, "complete", 1)
    inline.stop_all()
    inline.stop_all()
    inline.answer("screen/0", "continue")  # too late, and not wrong
    results = driver.finish(inline, "")
    assert {result.outcome for result in results.values()} == {Outcome.STOPPED}
    assert read_trial(driver.folder / "0").reports == ((0.25, 2.5),)
    assert read_trial(driver.folder / "1").reports == ()


def test_wait_returns_when_its_time_is_up_and_a_hung_trial_keeps_nothing_from_ending(driver):
    gate = threading.Event()
    executor = InlineExecutor()
    executor.start(driver.spec("complete"), driver.folder / "0", lambda context: gate.wait())
    began = time.monotonic()
    assert [type(event) for event in executor.wait(0.05)] == [TrialStarted]
    assert executor.wait(0.05) == []
    assert time.monotonic() - began >= 0.1
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "trial screen/0"]
    assert thread.daemon
    executor.close()
    assert thread.is_alive(), "nobody can end it"
    gate.set()
    thread.join()


def test_a_folder_in_use_is_refused(driver, inline):
    (driver.folder / "0").mkdir(parents=True)
    lock = acquire_lock(driver.folder / "0", 0.0)
    assert lock is not None
    result = driver.run(inline, "complete")
    os.close(lock)
    assert result.outcome is Outcome.CRASHED
    assert "another process runs this trial" in result.reason


def test_no_pid_file_names_the_controller_as_a_trial_to_be_killed(driver, inline):
    driver.run(inline, "complete")
    assert not (driver.folder / "0" / PID_FILE).exists()


def test_too_many_trials_and_answers_out_of_place_are_refused(driver, inline):
    with pytest.raises(UserError, match=r"executor.parallel must be at least 1, not 0"):
        InlineExecutor(parallel=0)
    for number in (0, 1):
        driver.start(inline, "complete", number)
    with pytest.raises(RuntimeError, match="2 of 2 trials run"):
        driver.start(inline, "complete", 2)
    with pytest.raises(RuntimeError, match="no report that waits"):
        inline.answer("screen/0", "continue")
    with pytest.raises(ValueError, match="a verdict is one of"):
        inline.answer("screen/0", "maybe")


def test_a_signal_reaches_the_controller_while_a_trial_runs(driver, inline):
    caught = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: caught.append(number))
    try:
        inline.start(driver.spec("complete"), driver.folder / "0", lambda context: signal.raise_signal(signal.SIGUSR1))
        driver.finish(inline)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert caught == [signal.SIGUSR1]


def test_what_a_trial_puts_in_the_place_of_its_context_stays_there_over_its_reports(inline, tmp_path):
    seen = []

    class Guard:
        def __init__(self, context):
            self.context = context

        def report(self, step, value):
            seen.append((self.context.spec.number, step))
            self.context.report(step, value)

    def entry(context):
        set_current_trial(Guard(context))
        for step in (0.25, 0.5, 1.0):
            current_trial().report(step, 1.0)

    for number in (1, 2):
        inline.start(TrialSpec("study", "screen", number, 0, {}), tmp_path / str(number), entry)
    while inline.free_slots < inline.parallel:
        for event in inline.wait(10.0):
            if isinstance(event, TrialReported):
                inline.answer(event.key, "continue")
    assert sorted(seen) == [(number, step) for number in (1, 2) for step in (0.25, 0.5, 1.0)]
