import threading
from functools import partial

import pytest

from tuner.trackers.background import BackgroundCalls


def test_calls_are_made_in_order_in_another_thread() -> None:
    made: list[tuple[int, bool]] = []

    def note(number: int) -> None:
        made.append((number, threading.current_thread().name == "test"))

    calls = BackgroundCalls("test", capacity=2)
    for number in range(50):
        assert calls.submit(partial(note, number))
    assert calls.close(timeout_s=60)
    assert made == [(number, True) for number in range(50)]


def test_submit_returns_while_a_call_is_blocked_and_refuses_only_droppable_calls_when_full() -> None:
    entered, release, made = threading.Event(), threading.Event(), []
    calls = BackgroundCalls("test", capacity=2)
    calls.submit(lambda: (entered.set(), release.wait()))  # type: ignore[arg-type, func-returns-value]
    assert entered.wait(60)
    accepted = [calls.submit(lambda: made.append("row"), droppable=True) for _ in range(4)]
    assert accepted == [True, True, False, False]
    assert calls.submit(lambda: made.append("end"))
    release.set()
    assert calls.close(60)
    assert made == ["row", "row", "end"]


def test_close_gives_up_on_a_blocked_call_and_throws_the_rest_away() -> None:
    entered, release, made = threading.Event(), threading.Event(), []
    calls = BackgroundCalls("test", capacity=9)
    calls.submit(lambda: (entered.set(), release.wait(), made.append("begun")))  # type: ignore[arg-type, func-returns-value]
    calls.submit(lambda: made.append("waiting"))
    assert entered.wait(60)
    assert not calls.close(timeout_s=0.0)
    assert not calls.submit(lambda: made.append("late"))
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "test"]
    assert thread.daemon
    release.set()
    thread.join(60)
    assert made == ["begun"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_unexpected_error_ends_the_thread_and_nobody_waits_for_it() -> None:
    ended, made = threading.Event(), []
    calls = BackgroundCalls("test", capacity=9)
    calls.submit(lambda: ended.wait() and 1 / 0)  # type: ignore[arg-type]
    calls.submit(lambda: made.append("never"))
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "test"]
    ended.set()
    thread.join(60)
    assert not calls.submit(lambda: None)
    assert not calls.close(timeout_s=3600)  # at once
    assert made == []


def test_closing_without_calls_starts_no_thread() -> None:
    assert BackgroundCalls("unused", capacity=1).close(timeout_s=3600)
    assert "unused" not in [thread.name for thread in threading.enumerate()]
