"""Trials in the controller's own process: for synthetic objectives, for debugging, for many quick runs.

Each trial has a thread, but only one of them, or the controller, runs at any moment: a trial runs on until it reports
or ends, then waits for its next turn. So with the same seed a study repeats itself exactly, several trials at a time
included, and a trial draws the random numbers of Python, NumPy and PyTorch that it would draw alone. TensorFlow's are
shared by all.

There is no protection: a trial that hangs, takes all memory or kills its process takes the study with it.
"""

import os
import pickle
import threading
import time
from collections import deque
from pathlib import Path

from note_rl.seeding import shared_random_state
from tuner.errors import UserError
from tuner.executors.base import Event, Limits, TrialEnded, TrialFunction, TrialStarted, check_verdict, event_of
from tuner.executors.leftovers import Leftovers
from tuner.support.close_at_exit import ClosedAtExit
from tuner.support.plain_text import describe_error, traceback_of
from tuner.trial import folder as files
from tuner.trial.context import TrialContext, current_trial, set_current_trial
from tuner.trial.messages import Message, Outcome, Report, TrialResult, TrialSpec, Verdict
from tuner.trial.reporter import Reporter
from tuner.trial.worker import TrialEntry, import_entry, run_entry

_LOCK_PATIENCE_S = 1.0
_CLOSE_PATIENCE_S = 1.0


class InlineExecutor(ClosedAtExit):
    """Runs trials in this process, in turns.

    Args:
        parallel: How many trials are under way at the same time.

    Raises:
        UserError: `parallel` is below 1.
    """

    in_this_process = True

    def __init__(self, parallel: int = 1) -> None:
        self.check(parallel)
        self.parallel = parallel
        self._trials: dict[str, _Turns] = {}
        self._waiting: deque[_Turns] = deque()
        self._running: _Turns | None = None
        self._events: deque[Event] = deque()
        self._leftovers = Leftovers()

    @staticmethod
    def check(parallel: int = 1) -> None:
        """Refuses what the constructor refuses.

        Raises:
            UserError: As the class says.
        """
        if parallel < 1:
            raise UserError(f"executor.parallel must be at least 1, not {parallel}")

    @property
    def limits(self) -> Limits | None:
        """None: a trial in this process may use what it likes."""
        return None

    @property
    def free_slots(self) -> int:
        """How many trials can be started now."""
        return self.parallel - len(self._trials)

    def reclaim(self, spec: TrialSpec, folder: Path) -> None:
        """Ends what another executor's controller left of the trial; see `Executor.reclaim`."""
        self._leftovers.end_in(folder)

    def start(self, spec: TrialSpec, folder: Path, function: TrialFunction | bytes | None = None) -> None:
        """Starts a trial; see `Executor.start`."""
        if self.free_slots <= 0 or spec.key in self._trials:
            raise RuntimeError(f"trial {spec.key} cannot be started: {len(self._trials)} of {self.parallel} trials run")
        self._leftovers.end_deserted()
        files.prepare(folder, spec)
        self._trials[spec.key] = trial = _Turns(spec, folder, self._events, function)
        self._waiting.append(trial)

    def wait(self, timeout_s: float | None = None) -> list[Event]:
        """Lets trials run in turns until something has happened; see `Executor.wait`."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._events and (self._running or self._waiting):
            if self._running is None:
                self._running = self._waiting.popleft()
                self._running.go_on()
            if not self._running.wait_for_pause(None if deadline is None else max(0.0, deadline - time.monotonic())):
                break
            paused, self._running = self._running, None
            if paused.is_over:
                del self._trials[paused.spec.key]
            elif paused.stop_requested:
                self._queue(paused)
        events = list(self._events)
        self._events.clear()
        return events

    def answer(self, key: str, verdict: Verdict) -> None:
        """Answers a `TrialReported`; see `Executor.answer`.

        Raises:
            RuntimeError: The trial runs and has no open report.
        """
        check_verdict(verdict)
        trial = self._trials.get(key)
        if trial is None or trial.stop_requested:
            return
        if not trial.awaits_verdict:
            raise RuntimeError(f"trial {key} has no report that waits for a verdict")
        trial.verdict = verdict
        self._queue(trial)

    def stop_all(self) -> None:
        """Asks all trials to checkpoint and leave; see `Executor.stop_all`."""
        for trial in list(self._trials.values()):
            trial.stop_requested = True
            if trial.awaits_verdict:
                self._queue(trial)

    def close(self) -> None:
        """Ends all trials. One that does not come to a report or a sign of life is left to itself."""
        self._leftovers.end_deserted()
        self.stop_all()
        deadline = time.monotonic() + _CLOSE_PATIENCE_S
        while self._trials and time.monotonic() < deadline:
            self.wait(_CLOSE_PATIENCE_S)
        self._trials.clear()
        self._waiting.clear()

    def _queue(self, trial: "_Turns") -> None:
        trial.awaits_verdict = False
        self._waiting.append(trial)


class _Turns:
    """A trial and its thread; at the same time the trial's line to the controller."""

    def __init__(
        self, spec: TrialSpec, folder: Path, events: deque[Event], function: TrialFunction | bytes | None
    ) -> None:
        self.spec = spec
        self.verdict: Verdict | None = None
        self.awaits_verdict = False
        self.stop_requested = False
        self.is_over = False
        self._folder = folder
        self._events = events
        self._function = function
        self._context: TrialContext | None = None
        self._turn, self._pause = threading.Semaphore(0), threading.Semaphore(0)
        self._reporter: Reporter | None = self._context
        self._thread = threading.Thread(target=self._work, name=f"trial {spec.key}", daemon=True)

    # The controller's side

    def go_on(self) -> None:
        """Lets the trial run until its next report or its end."""
        set_current_trial(self._reporter)
        if not self._thread.is_alive():
            self._thread.start()
        self._turn.release()

    def wait_for_pause(self, timeout_s: float | None) -> bool:
        """Waits until the trial pauses; False if it has not within the time."""
        if not self._pause.acquire(timeout=timeout_s):
            return False
        self._reporter = current_trial()  # the trial may have put one of its own in the place of its context
        set_current_trial(None)
        return True

    # The trial's side

    @property
    def stop_reason(self) -> str:
        """Why the line says "stop"."""
        return "asked to stop by the controller"

    def send(self, message: Message) -> None:
        """Puts a message among the controller's events."""
        if isinstance(message, Report):
            self.awaits_verdict, self.verdict = True, None
        self._events.append(event_of(self.spec.key, message))

    def wait_for_verdict(self) -> Verdict:
        """Ends this turn; the next one begins with the answer, and where the trial's random numbers were."""
        put_back = shared_random_state()
        self._pause.release()
        self._turn.acquire()
        put_back()
        return "stop" if self.stop_requested or self.verdict is None else self.verdict

    def asks_to_stop(self) -> bool:
        """Whether the trial is to end."""
        return self.stop_requested

    def _work(self) -> None:
        self._turn.acquire()
        try:
            result = self._run_locked()
        except BaseException as error:  # noqa: BLE001 - the border of the thread: the controller waits for its end
            result = TrialResult(Outcome.CRASHED, describe_error(error), traceback_of(error))
        self.is_over = True
        self._events.append(TrialEnded(self.spec.key, result))
        self._pause.release()

    def _run_locked(self) -> TrialResult:
        lock = files.acquire_lock(self._folder, _LOCK_PATIENCE_S)
        if lock is None:
            return TrialResult(Outcome.CRASHED, f"another process runs this trial in {self._folder}")
        try:
            files.clear_unfinished(self._folder)
            self._events.append(TrialStarted(self.spec.key, os.getpid(), os.uname().nodename))
            began = time.monotonic()
            self._context = TrialContext(self.spec, self._folder, self, began)
            result = run_entry(self._context, self._find)
            files.write_result(self._folder, result)
            return result
        except OSError as error:  # a full disk
            return TrialResult(Outcome.CRASHED, f"its folder {self._folder} cannot be written: {error}")
        finally:
            os.close(lock)

    def _find(self) -> TrialEntry:
        if isinstance(self._function, bytes):
            function: TrialEntry = pickle.loads(self._function)
            return function
        return self._function or import_entry(self.spec.entry)
