"""Whose turn it is between a parent and a child, and the states that a child goes through."""

import selectors
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tuner.trial.connection import Connection
from tuner.trial.dialogue import Dialogue, Turn
from tuner.trial.launch import Child
from tuner.trial.messages import Alive, Limits, Message, Outcome, Refused, Report, Started, TrialSpec
from tuner.trial.process import MAX_LAUNCHES, START_LIMIT_S, ChildOptions, TrialProcess
from tuner.trial.wire import decode_verdict, encode


class Talk:
    """A dialogue and the child's end of it."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self.selector = selector
        connection = Connection(selector)
        self.dialogue = Dialogue(connection, b"launch\n")
        self.child = connection.child_end

    def exchange(self, *messages: Message | bytes, now: float = 1.0) -> list[Message]:
        for message in messages:
            self.child.sendall(message if isinstance(message, bytes) else encode(message))
        for ready, mask in self.selector.select(0.0):
            ready.data(mask)
        return self.dialogue.hear(now)


@pytest.fixture
def selector() -> Iterator[selectors.BaseSelector]:
    with selectors.DefaultSelector() as selector:
        yield selector


@pytest.fixture
def talk(selector: selectors.BaseSelector) -> Iterator[Talk]:
    talk = Talk(selector)
    yield talk
    talk.dialogue.close()
    talk.child.close()


def test_after_a_report_the_parent_has_to_speak(talk: Talk) -> None:
    assert talk.exchange(Started(17), Alive(0.5)) == [Started(17), Alive(0.5)]
    assert (talk.dialogue.turn, talk.dialogue.pid) == (Turn.CHILD, 17)
    assert talk.exchange(Report(0.5, 2.0)) == [Report(0.5, 2.0)]
    assert talk.dialogue.turn is Turn.PARENT
    talk.dialogue.answer("prune")
    assert talk.dialogue.turn is Turn.CHILD
    launch, verdict = talk.child.recv(1000).splitlines()
    assert (launch, decode_verdict(verdict)) == (b"launch", "prune")


def test_a_second_report_before_the_verdict_ends_the_talk(talk: Talk) -> None:
    assert talk.exchange(Report(0.5, 2.0), Report(0.6, 2.0)) == [Report(0.5, 2.0)]
    assert talk.dialogue.turn is Turn.NOBODY
    assert talk.dialogue.complaint == "a report at 0.6 before the verdict on its last one"
    assert talk.exchange(Alive(1.0)) == []


def test_something_unreadable_ends_the_talk(talk: Talk) -> None:
    assert talk.exchange(Alive(0.1), b"{}\n") == []
    assert talk.dialogue.turn is Turn.NOBODY
    assert talk.dialogue.complaint


def test_a_refusal_is_kept(talk: Talk) -> None:
    assert talk.exchange(Refused("busy")) == []
    assert (talk.dialogue.refusal, talk.dialogue.turn) == ("busy", Turn.CHILD)


def test_waiting_for_a_verdict_is_no_silence(talk: Talk) -> None:
    talk.exchange(Alive(0.1), now=10.0)
    assert not talk.dialogue.is_silent(12.0, 2.0)
    assert talk.dialogue.is_silent(12.1, 2.0)
    assert not talk.dialogue.is_silent(1e9, None)
    talk.exchange(Report(0.5, 2.0), now=20.0)
    assert not talk.dialogue.is_silent(1e9, 2.0)


class Telling:
    """A launcher that starts nothing: the test decides what becomes of the children."""

    def __init__(self) -> None:
        self.children: list[Child] = []
        self.ends: list[socket.socket] = []

    def launch(self, control: socket.socket, folder: Path, environment: Mapping[str, str]) -> Child:
        self.ends.append(control)
        self.children.append(Child())
        return self.children[-1]

    def reap(self, child: Child) -> None:
        pass

    def inherits_from(self, child: Child) -> bool:
        return True

    def close(self) -> None:
        for end in self.ends:
            end.close()


@pytest.fixture
def launcher() -> Iterator[Telling]:
    launcher = Telling()
    yield launcher
    launcher.close()


def trial(folder: Path, launcher: Telling, selector: selectors.BaseSelector, **limits: float) -> TrialProcess:
    spec = TrialSpec("study", "screen", 0, 1, {})
    return TrialProcess(spec, folder, launcher, selector, ChildOptions({}, Limits(**limits)))


def turn(selector: selectors.BaseSelector) -> None:
    for ready, mask in selector.select(0.0):
        ready.data(mask)


def test_a_launcher_that_dies_is_asked_again_a_few_times(tmp_path: Path, launcher, selector) -> None:
    process = trial(tmp_path, launcher, selector)
    for number in range(1, MAX_LAUNCHES + 1):
        assert (len(launcher.children), process.result) == (number, None)
        launcher.children[-1].unknown = True
        launcher.ends[-1].close()
        turn(selector)
        process.advance(1.0)
    assert process.result is not None
    assert process.result.reason == f"the fork server died {MAX_LAUNCHES} times while it was starting this trial"


def test_a_child_that_is_never_forked_is_given_up(tmp_path: Path, launcher, selector) -> None:
    process = trial(tmp_path, launcher, selector, wall_s=0.001)
    process.advance(process._asked_at + START_LIMIT_S - 1.0)
    assert (process.group, process.is_ending, process.result) == (None, False, None)
    for _ in range(2):
        process.advance(process._asked_at + START_LIMIT_S + 1.0)
    assert process.result is not None
    assert (process.result.outcome, process.result.seconds) == (Outcome.CRASHED, 0.0)
    assert "no process could be started for it within 300 s" in process.result.reason


def test_a_time_without_a_listener_is_taken_off_all_clocks(tmp_path: Path, launcher, selector) -> None:
    process = trial(tmp_path, launcher, selector, wall_s=50.0, silence_s=20.0, grace_s=5.0)
    launcher.children[0].pid = 2**22 + 1  # above all numbers that Linux gives
    process.advance(100.0)
    process.excuse(60.0, now=161.0)  # forked and heard of at 160 then
    process.advance(180.0)
    assert not process.is_ending
    process.excuse(60.0, now=200.0)  # no clock goes ahead of now
    process.advance(220.0)
    assert not process.is_ending
    process.advance(220.5)
    assert process.is_ending
    process.kill()
    launcher.children[0].exit_code = -9
    launcher.ends[0].close()
    turn(selector)
    process.advance(221.0)
    assert process.result is not None


def test_one_that_is_stopped_before_it_is_forked_is_over_at_once(tmp_path: Path, launcher, selector) -> None:
    process = trial(tmp_path, launcher, selector)
    process.stop("enough")
    process.advance(1.0)
    assert process.result is not None
    assert (process.result.outcome, process.result.reason) == (Outcome.STOPPED, "enough")
    assert launcher.children[0].abandoned


def test_where_nothing_else_tells_the_end_of_the_line_is_the_end_of_the_child(
    tmp_path: Path, launcher, selector
) -> None:
    process = trial(tmp_path, launcher, selector)
    child = launcher.children[0]
    child.pid = 2**22 + 1  # above all numbers that Linux gives
    process.advance(10.0)
    assert (process.group, process.result) == (child.pid, None)
    launcher.ends[0].sendall(encode(Report(1.0, 5.0)))
    launcher.ends[0].close()
    turn(selector)
    assert process.advance(11.0) == [Report(1.0, 5.0)]
    assert (process.group, process.result) == (None, None), "it is dead, and its exit code awaited"
    process.answer("continue")  # the receiver of the report need not know that
    child.exit_code = 3
    assert process.advance(12.0) == []
    assert process.result is not None
    assert (process.result.outcome, process.result.seconds) == (Outcome.CRASHED, 2.0)
    assert "exit code 3" in process.result.reason
