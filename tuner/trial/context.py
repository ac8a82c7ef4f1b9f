"""The child's side of a trial while it runs: what an entry function gets, and its line to the controller."""

import io
import math
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import NoReturn, TypeAlias

from tuner.support.text_files import open_to_append
from tuner.trial import folder as files
from tuner.trial import system
from tuner.trial.messages import (
    Alive,
    Built,
    JsonDict,
    Log,
    Message,
    Outcome,
    Report,
    TrialInterrupted,
    TrialResult,
    TrialSpec,
    Verdict,
)
from tuner.trial.reporter import ControllerLine, Reporter
from tuner.trial.wire import Launch, decode_verdict, encode

ALIVE_INTERVAL_S = 1.0
_POLL_INTERVAL_S = 0.1
_TIME_PLACES = 6  # of seconds
_CHUNK = 65536

NextTrial: TypeAlias = Callable[[TrialResult], tuple[TrialSpec, Path, float]]
"""Ends a trial with its result; the next one of this process, its folder, and when it was asked for."""


class ControllerConnection:
    """The child's end of the socket to its controller. Once the controller has gone it is silent and says "stop"."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._received = bytearray()
        self._ended = ""  # why nothing more is to be expected

    @property
    def stop_reason(self) -> str:
        """Why the line says "stop"."""
        return self._ended or "asked to stop by the controller"

    def read_launch(self) -> tuple[Launch, bytes] | None:
        """Reads the first line and the function behind it; None if the controller left before it had sent them."""
        line = self._read_line()
        if line is None:
            return None
        launch = Launch.decode(line)
        while len(self._received) < launch.function_size:
            if not self._receive(wait=True):
                return None
        function = bytes(self._received[: launch.function_size])
        del self._received[: launch.function_size]
        return launch, function

    def send(self, message: Message) -> None:
        """Sends a message; a controller that has gone is noticed, not raised."""
        try:
            self._socket.sendall(encode(message))
        except OSError:
            self._ended = self._ended or "the controller has gone"

    def wait_for_verdict(self) -> Verdict:
        """Waits for the next verdict; "stop" at the end of the line."""
        line = self._read_line()
        return "stop" if line is None else decode_verdict(line)

    def asks_to_stop(self) -> bool:
        """Whether a "stop" has come unasked or the line has ended. Does not wait."""
        while b"\n" not in self._received and self._receive(wait=False):
            pass
        return bool(self._received or self._ended)  # what comes while no report is open can only be a "stop"

    def end(self, reason: str) -> None:
        """Stops reading from the controller, so that a `wait_for_verdict` that is under way returns "stop".

        For signal handlers: the system call that is interrupted is tried again and finds the end of the line.
        """
        self._ended = self._ended or reason
        try:
            self._socket.shutdown(socket.SHUT_RD)
        except OSError:
            return  # the other end has gone: that is an end of the line too

    def detach(self) -> None:
        """Closes this process's copy of the line. For processes that the trial forks."""
        self._ended = "report only from the process that was started: this is one that it has forked"
        self._socket.close()

    def _read_line(self) -> bytes | None:
        while b"\n" not in self._received:
            if not self._receive(wait=True):
                return None
        line, _, rest = self._received.partition(b"\n")
        self._received = rest
        return bytes(line)

    def _receive(self, wait: bool) -> bool:
        """Takes in what has come; False if nothing has (without `wait`) or nothing will."""
        if self._ended:
            return False
        try:
            received = self._socket.recv(_CHUNK, 0 if wait else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            received = b""
        if not received:
            self._ended = self._ended or "the controller has gone"
            return False
        self._received += received
        return True


class TrialContext:
    """The interface to the controller for the entry function of a trial.

    `report`, `log` and `alive` raise `TrialInterrupted` when the trial has to end; an entry that keeps checkpoints
    catches it, writes one and raises it again. A trial that returns although it was interrupted counts as
    interrupted.

    Attributes:
        spec: The trial.
        folder: Its folder; the entry may put files of its own there.
        interruption: The interruption that was raised, if one was.
        remark: Why the run ended by itself before its budget did; empty if it did not.
        used: The share of its budget that it has used by then.
        began: `time.monotonic()` at its start.

    Args:
        spec: The trial.
        folder: Its folder.
        line: To the controller.
        began: `time.monotonic()` at its start.
        next_trial: What this process may do behind a pause, if it has no children: what these print goes to the folder
            of the trial that has started them.
    """

    def __init__(
        self, spec: TrialSpec, folder: Path, line: ControllerLine, began: float, next_trial: NextTrial | None = None
    ) -> None:
        self._line = line
        self._next_trial = next_trial
        self._begin(spec, folder, began)

    def _begin(self, spec: TrialSpec, folder: Path, began: float) -> None:
        self.spec = spec
        self.folder = folder
        self.interruption: TrialInterrupted | None = None
        self.remark, self.used, self.steps = "", 1.0, ""
        self.began = began
        self._recorded = dict(files.read_reports(folder))
        self._times = files.read_times(folder)
        self._worked, self._since = (
            max(self._times.values(), default=0.0),
            began,
        )  # seconds until then, and from when on
        self._reports = self._open(files.REPORTS_FILE)
        self._metrics = self._open(files.METRICS_FILE)
        self._last_poll = 0.0
        self._last_alive = 0.0

    @property
    def total_steps(self) -> int:
        """Environment steps of its budget; 0: it has none."""
        return int((self.spec.config.get("training") or {}).get("total_steps") or 0)

    @property
    def reported(self) -> list[tuple[float, float]]:
        """The (step, value) pairs reported so far, those of earlier attempts included."""
        return list(self._recorded.items())

    def report(self, step: float, value: float, seconds: float | None = None) -> None:
        """Reports an intermediate value and waits for the verdict.

        The value is on disk before the controller gets it. A step that an earlier attempt has reported already
        keeps the value and the time it had, and these are what the controller gets: resuming does not rewrite
        history.

        Args:
            step: Where in the run: by convention the done fraction of the step budget, in (0, 1].
            value: The metric there.
            seconds: Of training until then. None: those since everything was built, without waiting for verdicts;
                what an earlier attempt did behind its last report does not count, as it is done again.

        Raises:
            TrialInterrupted: PRUNED, PAUSED or STOPPED as the controller says, STOPPED if it has gone, DIVERGED if the
                value is not finite.
            ValueError: The step is not finite, or larger than 2**31.
        """
        self._raise_again()
        step, value = float(step), float(value)
        if math.isfinite(step) and not math.isfinite(value):
            self._interrupt(Outcome.DIVERGED, f"the value reported at step {step:g} is {value}")
        if step not in self._recorded:
            worked = self._worked + monotonic() - self._since
            seconds = round(worked if seconds is None else seconds, _TIME_PLACES)
            report = Report(step, value, seconds)
            files.append_line(self._reports, asdict(report), durable=True)
            self._recorded[step] = value
            self._times[step] = seconds
        self._line.send(Report(step, self._recorded[step], self._times.get(step)))
        verdict = self._line.wait_for_verdict()
        self._worked, self._since = self._times.get(step, self._worked), monotonic()
        if verdict == "prune" and not self.remark:  # a run that has ended is not ended early
            self._interrupt(Outcome.PRUNED, f"pruned at step {step:g} with {self._recorded[step]:g}")
        if verdict == "pause":
            wait = None if self._next_trial is None or system.has_children() else self._wait
            self._interrupt(Outcome.PAUSED, f"paused at step {step:g} with {self._recorded[step]:g}", wait)
        if verdict == "stop":
            self._interrupt(Outcome.STOPPED, self._line.stop_reason)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Writes metrics to metrics.jsonl and sends them to be tracked.

        A value that is not finite is null in the file, as JSON has no other word for it; the trackers get it as it is.

        Raises:
            TrialInterrupted: STOPPED, if the controller asks for it or has gone.
        """
        log = Log(int(step), {str(name): float(value) for name, value in metrics.items()})
        written = {name: value if math.isfinite(value) else None for name, value in log.metrics.items()}
        files.append_line(self._metrics, {"step": log.step, **written}, durable=False)
        self._line.send(log)
        self.check()

    def built(self, config: JsonDict) -> None:
        """Says that everything is built, with the config that was really used. Called once, before the first step."""
        self._since = monotonic()
        self._line.send(Built(self._since - self.began, config))

    def note(self, text: str) -> None:
        """Writes a line for people to what the trial has printed."""
        with open_to_append(self.folder / files.OUTPUT_FILE) as output:
            output.write(f"{text}\n".encode())

    def ends(self, reason: str, used: float) -> None:
        """Says why the run ends by itself before its budget does: it is complete, and not pruned any more.

        Args:
            reason: For people.
            used: The share of its budget that it has used.
        """
        self.remark, self.used = reason, used

    def alive(self, progress: float) -> None:
        """Gives a sign of life. Cheap enough for every environment step: at most one message a second is sent.

        Args:
            progress: The done part of the work, in [0, 1].

        Raises:
            TrialInterrupted: STOPPED, if the controller asks for it or has gone.
        """
        now = monotonic()
        if now - self._last_alive >= ALIVE_INTERVAL_S:
            self._last_alive = now
            self._line.send(Alive(float(progress)))
        self._look(now)

    def check(self) -> None:
        """Raises `TrialInterrupted` if the trial has to end. Looks at most ten times a second."""
        self._look(monotonic())

    def _look(self, now: float) -> None:
        self._raise_again()
        if now - self._last_poll < _POLL_INTERVAL_S:
            return
        self._last_poll = now
        if self._line.asks_to_stop():
            self._interrupt(Outcome.STOPPED, self._line.stop_reason)

    def close(self) -> None:
        """Closes the files."""
        self._reports.close()
        self._metrics.close()

    def _open(self, name: str) -> io.FileIO:
        return open_to_append(self.folder / name)

    def _raise_again(self) -> None:
        if self.interruption is not None:
            raise self.interruption

    def _interrupt(self, outcome: Outcome, reason: str, wait: Callable[[], Path] | None = None) -> NoReturn:
        self.interruption = TrialInterrupted(outcome, reason, wait)
        raise self.interruption

    def _wait(self) -> Path:
        """Ends this trial, and becomes the one that goes on from it; see `TrialInterrupted.wait`."""
        assert self.interruption is not None
        assert self._next_trial is not None
        self.close()
        seconds = monotonic() - self.began
        self._begin(*self._next_trial(TrialResult(Outcome.PAUSED, self.interruption.reason, seconds=seconds)))
        return self.folder


_current: Reporter | None = None


def current_trial() -> Reporter | None:
    """Returns the run that this process is in the middle of, or None outside of one."""
    return _current


def set_current_trial(reporter: Reporter | None) -> None:
    """Names the run that this process is in the middle of. For executors."""
    global _current
    _current = reporter
