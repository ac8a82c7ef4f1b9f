"""Guarantees for an entry function, without a process around it."""

import signal
import socket
import threading
import time

import pytest

from tuner.trial import Outcome, TrialContext, TrialInterrupted, TrialSpec, current_trial, read_trial
from tuner.trial import folder as files
from tuner.trial.context import ControllerConnection
from tuner.trial.messages import Alive, Log, Report
from tuner.trial.wire import decode, encode_verdict


class Controller:
    """The other end of the line."""

    def __init__(self, folder):
        self.socket, theirs = socket.socketpair()
        self.line = ControllerConnection(theirs)
        spec = TrialSpec("study", "screen", 0, 1, {})
        files.prepare(folder, spec)
        self.context = TrialContext(spec, folder, self.line, 0.0)

    def say(self, verdict):
        self.socket.sendall(encode_verdict(verdict))

    def heard(self):
        """Messages so far."""
        received = b""
        try:
            while data := self.socket.recv(65536, socket.MSG_DONTWAIT):
                received += data
        except BlockingIOError:
            pass
        return [decode(line) for line in received.splitlines()]


@pytest.fixture
def controller(tmp_path):
    controller = Controller(tmp_path / "trial")
    yield controller
    controller.context.close()
    controller.line.detach()
    controller.socket.close()


def test_report_is_on_disk_before_it_is_answered(controller):
    controller.say("continue")
    controller.context.report(1, 2)
    assert controller.heard() == [Report(1.0, 2.0)]
    assert read_trial(controller.context.folder).reports == ((1.0, 2.0),)
    assert controller.context.reported == [(1.0, 2.0)]


def seconds_heard(controller):
    return [(message.step, message.seconds) for message in controller.heard() if isinstance(message, Report)]


def test_seconds_of_work_are_those_since_all_was_built_without_the_wait_for_verdicts(controller, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("tuner.trial.context.monotonic", lambda: now[0])
    wait = controller.line.wait_for_verdict

    def wait_long():
        now[0] += 1000.0
        return wait()

    monkeypatch.setattr(controller.line, "wait_for_verdict", wait_long)
    controller.context.built({})
    for step, work in ((0.5, 2.0), (0.75, 3.0)):
        now[0] += work
        controller.say("continue")
        controller.context.report(step, 1.0)
    controller.say("continue")
    controller.context.report(1.0, 1.0, seconds=77.0)
    assert seconds_heard(controller) == [(0.5, 2.0), (0.75, 5.0), (1.0, 77.0)]
    assert files.read_times(controller.context.folder) == {0.5: 2.0, 0.75: 5.0, 1.0: 77.0}


@pytest.mark.parametrize("from_scratch", [True, False])
def test_what_is_done_again_after_a_kill_counts_once(controller, monkeypatch, from_scratch):
    now = [100.0]
    monkeypatch.setattr("tuner.trial.context.monotonic", lambda: now[0])
    folder = controller.context.folder
    (folder / "reports.jsonl").write_text(
        '{"step": 0.25, "value": 1.0, "seconds": 4.0}\n{"step": 0.5, "value": 1.0, "seconds": 9.0}\n'
    )
    context = TrialContext(controller.context.spec, folder, controller.line, 0.0)
    context.built({})
    for step in (0.25, 0.5, 0.75) if from_scratch else (0.75,):
        now[0] += 3.0
        controller.say("continue")
        context.report(step, 2.0)
    assert seconds_heard(controller)[-1] == (0.75, 12.0)
    assert files.read_times(folder) == {0.25: 4.0, 0.5: 9.0, 0.75: 12.0}
    context.close()


def test_a_sign_of_life_at_each_step_is_cheap(controller, monkeypatch):
    """At most one message a second, for one look at the clock."""
    looks = []
    monkeypatch.setattr("tuner.trial.context.monotonic", lambda: looks.append(1) or 100.0 + len(looks) / 4)
    for _ in range(9):
        controller.context.alive(0.5)
    assert len(looks) == 9
    assert controller.heard() == [Alive(0.5)] * 3


@pytest.mark.parametrize("verdict", ["prune", "pause", "stop"])
def test_interruption_is_raised_again_until_the_entry_gives_in(controller, verdict):
    controller.say(verdict)
    with pytest.raises(TrialInterrupted):
        controller.context.report(0.5, 2)
    for call in (
        lambda: controller.context.report(1, 2),
        lambda: controller.context.alive(1.0),
        controller.context.check,
    ):
        with pytest.raises(TrialInterrupted) as caught:
            call()
        assert caught.value is controller.context.interruption
    assert controller.heard() == [Report(0.5, 2.0)] or controller.heard() == []


def test_controller_that_goes_while_the_trial_waits(controller):
    leaving = threading.Timer(0.05, controller.socket.close)
    leaving.start()
    with pytest.raises(TrialInterrupted, match="stopped: the controller has gone"):
        controller.context.report(0.5, 2)
    leaving.join()


@pytest.mark.parametrize("call", ["report", "log", "alive"])
def test_controller_that_has_gone(controller, call):
    controller.socket.close()
    arguments = {"report": (0.5, 2.0), "log": (1, {"loss": 2.0}), "alive": (0.5,)}[call]
    with pytest.raises(TrialInterrupted) as caught:
        getattr(controller.context, call)(*arguments)
    assert (caught.value.outcome, caught.value.reason) == (Outcome.STOPPED, "the controller has gone")


def test_stop_that_nobody_asked_for_is_found_between_reports(controller):
    controller.context.alive(0.1)
    controller.say("stop")
    time.sleep(0.11)  # it looks at most ten times a second
    with pytest.raises(TrialInterrupted, match="asked to stop by the controller"):
        controller.context.check()


def test_signal_ends_the_wait_for_a_verdict(controller):
    """The effect of SIGTERM in a child: no verdict ever comes, and yet `report` returns."""
    before = signal.signal(signal.SIGALRM, lambda *_: controller.line.end("stopped by SIGTERM"))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(TrialInterrupted, match="stopped by SIGTERM"):
            controller.context.report(0.5, 2)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_alive_may_be_called_at_every_step(controller):
    for step in range(1000):
        controller.context.alive(step / 1000)
    heard = controller.heard()
    assert heard[0] == Alive(0.0)
    assert len(heard) < 20


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_value_that_is_not_finite_diverges(controller, value):
    with pytest.raises(TrialInterrupted, match=r"diverged: the value reported at step 0\.5 is") as caught:
        controller.context.report(0.5, value)
    assert caught.value.outcome is Outcome.DIVERGED
    assert controller.heard() == []


def test_step_must_be_finite(controller):
    with pytest.raises(ValueError, match="finite step, not nan"):
        controller.context.report(float("nan"), 1.0)


def test_numbers_of_other_kinds_are_taken(controller):
    import numpy as np

    controller.say("continue")
    controller.context.report(np.float32(0.5), np.array(2))
    controller.context.log(np.int64(3), {"loss": np.float32(0.25)})
    assert controller.heard() == [Report(0.5, 2.0), Log(3, {"loss": 0.25})]


def test_there_is_no_trial_outside_a_trial():
    assert current_trial() is None


def test_a_process_that_the_trial_has_forked_reports_nothing_and_gets_the_reason(controller):
    controller.line.detach()  # as it does at its fork
    with pytest.raises(TrialInterrupted, match="report only from the process that was started: this is one"):
        controller.context.report(0.5, 1.0)
