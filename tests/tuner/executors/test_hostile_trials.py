"""Trials that are broken or wish ill: the controller neither falls nor stalls, and nothing harmful gets past it."""

import re
import time
from dataclasses import replace

import pytest

from tests.tuner.executors.hostile_entries import LINES, RESULTS
from tuner.executors.base import TrialEnded, TrialLogged, TrialReported
from tuner.executors.inline import InlineExecutor
from tuner.support.plain_text import MAX_NAME, MAX_REASON, MAX_TRACEBACK
from tuner.trial import Outcome, read_trial
from tuner.trial.folder import OUTPUT_FILE

HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

LEFT_OUT = r" \[\.\.\. 4,999,5\d\d characters left out; all of it is in output.log \.\.\.\] "
RAISED = {
    "raise_megabytes": f"ValueError: HEADx+{LEFT_OUT}x+TAIL",
    "raise_giant_repr": f"KeyError: x+{LEFT_OUT}x+",
    "raise_surrogate": r"ValueError: half a character: \\ud800",
    "raise_escapes": r"ValueError: before\\x1b\]0;owned\\x07\\x1b\[2J\\x9b31m\\u202ereversed\\ud800after",
    "raise_silent": r"Silent: \(its own text cannot be had\)",
    "raise_named_badly": r"Bad\\x1b\[2J: words",
    "raise_recursion": r"RecursionError: maximum recursion depth exceeded.*",
    "raise_group": r"ExceptionGroup: many\\x1b\[2J \(20 sub-exceptions\)",
    "raise_broken_syntax_error": r"SyntaxError: broken.*",
    "raise_a_long_chain": r"ValueError: link 2999",
}
"""Entry -> pattern of the reported reason."""


def start(driver, executor, entry, number=0, **config):
    spec = replace(driver.spec(entry, number, **config), entry=f"hostile_entries:{entry}")
    executor.start(spec, driver.folder / str(number))


def run(driver, executor, entry, **config):
    start(driver, executor, entry, **config)
    return driver.finish(executor)["screen/0"]


@pytest.fixture
def executor(shared_executor):
    """Whatever a trial does, the next one finds the executor in order."""
    return shared_executor


@pytest.fixture
def inline():
    with InlineExecutor() as executor:
        yield executor


def check_raised(driver, result, entry):
    assert result.outcome is Outcome.CRASHED
    assert re.fullmatch(RAISED[entry], result.reason), result.reason
    assert len(result.reason) <= MAX_REASON
    assert 0 < len(result.traceback) <= MAX_TRACEBACK
    assert not HARMFUL.search(result.reason + result.traceback)
    assert "hostile_entries.py" in result.traceback, "the user's own frames are kept"
    assert read_trial(driver.folder / "0").result == result


@pytest.mark.parametrize("entry", RAISED)
def test_what_an_exception_says_is_cut_and_cleaned(driver, executor, entry):
    check_raised(driver, run(driver, executor, entry), entry)


@pytest.mark.parametrize("entry", RAISED)
def test_the_same_in_the_process_of_the_controller(driver, inline, entry):
    check_raised(driver, run(driver, inline, entry), entry)


def test_the_whole_of_what_was_cut_is_in_the_output(driver, executor, inline):
    for one in (executor, inline):
        result = run(driver, one, "raise_megabytes")
        assert "characters left out; all of it is in output.log" in result.traceback
        assert f"HEAD{'x' * 5_000_000}TAIL" in (driver.folder / "0" / OUTPUT_FILE).read_text()
        (driver.folder / "0" / OUTPUT_FILE).unlink()


def test_names_of_metrics_are_cut_and_cleaned(driver, executor, inline):
    for one in (executor, inline):
        driver.events.clear()
        assert run(driver, one, "log_strange_names").outcome is Outcome.COMPLETE
        (logged,) = [event for event in driver.events if isinstance(event, TrialLogged)]
        assert sorted(logged.metrics.values()) == [1.0, 2.0, 3.0]
        assert logged.metrics["fine/name"] == 3.0
        assert not any(HARMFUL.search(name) for name in logged.metrics)
        assert max(map(len, logged.metrics)) <= MAX_NAME


@pytest.mark.parametrize("line", LINES)
def test_a_line_that_is_no_message_ends_that_trial_and_no_other(driver, executor, line):
    start(driver, executor, "send_raw", 0, line=line)
    driver.start(executor, "complete", 1)
    began = time.process_time()
    results = driver.finish(executor)
    assert time.process_time() - began < 5.0, "the controller worked itself to death"
    assert results["screen/1"].outcome is Outcome.COMPLETE
    assert results["screen/0"].outcome is Outcome.CRASHED
    assert "unreadable" in results["screen/0"].reason
    assert len(results["screen/0"].reason) <= MAX_REASON
    assert not HARMFUL.search(results["screen/0"].reason)
    told = [event for event in driver.events if isinstance(event, TrialReported) and event.key == "screen/0"]
    assert [(event.step, event.value) for event in told] in ([], [(0.25, 1.0)]), "nothing senseless was passed on"


@pytest.mark.parametrize("result", RESULTS)
def test_a_result_that_is_none_is_no_result(driver, executor, result):
    found = run(driver, executor, "leave_a_result", result=result)
    assert (found.outcome, found.reason) == (
        Outcome.CRASHED,
        "its process ended with exit code 0 and left no result",
    )


def test_a_huge_result_is_cut_where_it_is_read(driver, executor):
    result = run(driver, executor, "leave_a_huge_result")
    assert result.outcome is Outcome.CRASHED
    assert result.deterministic
    assert result.reason.startswith("HEAD\\x1b]0;owned")
    assert len(result.reason) <= MAX_REASON
    assert len(result.traceback) <= MAX_TRACEBACK
    assert not HARMFUL.search(result.reason + result.traceback)


def test_pipes_in_the_place_of_files_are_not_waited_for(driver, executor):
    result = run(driver, executor, "leave_pipes")
    assert result.outcome is Outcome.CRASHED
    state = read_trial(driver.folder / "0")
    assert (state.spec, state.reports, state.alive) == (None, (), False)


def test_the_last_words_of_a_killed_trial_are_cleaned(driver, executor):
    result = run(driver, executor, "flood_output")
    assert result.reason == "its process ended with exit code 3 and left no result"
    assert "\\x1b]0;owned" in result.traceback
    assert not HARMFUL.search(result.traceback)


def test_whatever_breaks_around_an_inline_trial_ends_it(driver, inline, monkeypatch):
    monkeypatch.setattr("tuner.executors.inline.files.write_result", lambda *_: 1 / 0)
    driver.start(inline, "complete")
    events = []
    while not any(isinstance(event, TrialEnded) for event in events):
        events = inline.wait(5.0)
        assert events, "the controller waits for ever"
        driver.attend(inline, events)
    assert events[-1].result.outcome is Outcome.CRASHED
    assert "ZeroDivisionError" in events[-1].result.reason
