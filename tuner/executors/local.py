"""Trials as processes of this machine."""

import os
import selectors
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from note_rl.support.memory import LEAST_OF_A_FORK, LEAST_OF_A_PROCESS, check_processes
from note_rl.support.threads import thread_variables
from tuner.errors import UserError
from tuner.executors.base import Event, TrialEnded, TrialFunction, check_verdict, event_of
from tuner.executors.gpus import GpuChoice, check_per_trial, choose_gpus, gpu_variables
from tuner.executors.leftovers import Leftovers
from tuner.executors.preload import Backend, Preload
from tuner.executors.waiting import WaitingChildren
from tuner.support.by_value import pickled_by_value
from tuner.support.close_at_exit import ClosedAtExit
from tuner.trial import orphans, system
from tuner.trial.forkclient import ForkServer
from tuner.trial.launch import SpawnLauncher
from tuner.trial.messages import Limits, TrialSpec, Verdict
from tuner.trial.process import ChildOptions, TrialProcess
from tuner.trial.warden import Warden

Isolation: TypeAlias = Literal["forkserver", "spawn"]

_QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # Keras imports pyarrow, whose allocator would start a thread
}
_TURN_S = 0.5
_ENDING_TURN_S = 0.05
_MEMORY_INTERVAL_S = 0.5
_LONGEST_TURN_S = 2.0
"""A process that has not worked and comes back later has been stopped, or its machine paused."""


class LocalExecutor(ClosedAtExit):
    """Runs each trial in a process of its own, forked from a server that has imported the backend.

    Use it as a context manager, or call `close`. One thread uses one executor; several executors do not disturb each
    other.

    Args:
        parallel: How many trials run at the same time.
        backend: The framework that the fork server imports, "none" for none, None for nothing at all; or a `Preload`.
        isolation: "forkserver", or "spawn" for a fresh interpreter per trial (seconds each).
        limits: Of a trial's resources.
        threads: Threads per trial, in place of `TrialSpec.threads`.
        gpus: The GPUs dealt out: each trial sees those that the fewest others have.
        gpus_per_trial: Number of them, for trials with a strategy.
        keeps_paused: Whether the process of a paused trial waits for the one that goes on from it, as long as there is
            memory. Not with GPUs: it would keep what it has of theirs; nor with fresh interpreters.

    Raises:
        UserError: The backend is not installed, there is no such GPU, or a value is out of range.
    """

    def __init__(
        self,
        parallel: int = 1,
        backend: Backend | Preload | None = None,
        isolation: Isolation = "forkserver",
        limits: Limits | None = None,
        threads: int | None = None,
        gpus: GpuChoice = "auto",
        gpus_per_trial: int = 1,
        keeps_paused: bool = True,
    ) -> None:
        self.check(parallel, backend, isolation, limits, threads, gpus, gpus_per_trial, keeps_paused)
        self.parallel = parallel
        self.limits = limits or Limits()
        self._threads = threads
        self._gpus = choose_gpus(gpus)
        self._gpus_per_trial = gpus_per_trial
        preload = backend if isinstance(backend, Preload) else Preload(backend)
        self._variables = preload.variables
        sees_gpus = bool(choose_gpus("auto") if self._gpus is None else self._gpus)
        self._keeps_paused = keeps_paused and not sees_gpus and isolation == "forkserver"
        self._trials: dict[str, TrialProcess] = {}
        self._waiting = WaitingChildren(parallel)
        self._events: deque[Event] = deque()
        self._leftovers = Leftovers()
        self._memory_checked_at = 0.0
        self._last_turn = (time.monotonic(), time.process_time())
        self._is_closed = False
        self._selector = selectors.DefaultSelector()
        self._session = orphans.new_session()
        self._warden = Warden(self._session)
        self._launcher: ForkServer | SpawnLauncher
        if isolation == "spawn":
            self._launcher = SpawnLauncher()
        else:
            # one thread: more would be running when it forks; it is started with the first trial, or by warm_up()
            self._launcher = ForkServer(self._selector, preload.modules, self._environment(threads=1))

    @staticmethod
    def check(
        parallel: int = 1,
        backend: Backend | Preload | None = None,
        isolation: Isolation = "forkserver",
        limits: Limits | None = None,
        threads: int | None = None,
        gpus: GpuChoice = "auto",
        gpus_per_trial: int = 1,
        keeps_paused: bool = True,
    ) -> None:
        """Refuses what the constructor refuses, and starts nothing.

        Raises:
            UserError: As the class says.
        """
        for name, value in (("parallel", parallel), ("threads", threads)):
            if value is not None and value < 1:
                raise UserError(f"executor.{name} must be at least 1, not {value}")
        check_processes("executor.parallel", parallel, LEAST_OF_A_PROCESS if isolation == "spawn" else LEAST_OF_A_FORK)
        if isolation not in get_args(Isolation):
            raise UserError(f"executor.isolation must be forkserver or spawn, not {isolation!r}")
        if not isinstance(limits, Limits | None):
            raise UserError(f"executor.limits must be built by tuner.trial.messages.Limits, not {limits!r}")
        check_per_trial(gpus_per_trial, choose_gpus(gpus))
        if not isinstance(backend, Preload):
            Preload(backend)

    @property
    def free_slots(self) -> int:
        """How many trials can be started now."""
        return self.parallel - len(self._trials)

    @property
    def server_pid(self) -> int | None:
        """Number of the fork server's process; None without one."""
        return self._launcher.pid if isinstance(self._launcher, ForkServer) else None

    def warm_up(self) -> None:
        """Begins to start what trials are forked from, which imports a framework for seconds, and does not wait."""
        if isinstance(self._launcher, ForkServer):
            self._launcher.start()

    def reclaim(self, spec: TrialSpec, folder: Path) -> None:
        """Ends what a killed controller left of the trial; see `Executor.reclaim`."""
        self._leftovers.end_in(folder)

    def start(self, spec: TrialSpec, folder: Path, function: TrialFunction | bytes | None = None) -> None:
        """Starts a trial; see `Executor.start`."""
        if self._is_closed or self.free_slots <= 0 or spec.key in self._trials:
            what = "the executor is closed" if self._is_closed else f"{len(self._trials)} of {self.parallel} trials run"
            raise RuntimeError(f"trial {spec.key} cannot be started: {what}")
        self._leftovers.end_deserted()
        if self._threads is not None:
            spec = replace(spec, threads=self._threads)
        running = (trial.options.environment for trial in self._trials.values())
        gpu = gpu_variables(self._gpus, running, self._gpus_per_trial)
        environment = self._environment(spec.threads) | gpu
        pickled = function if isinstance(function, bytes) else pickle_function(function)
        may_wait = self._keeps_paused and not pickled
        waiting = self._waiting.take(spec)
        options = ChildOptions(environment, self.limits, pickled, may_wait, waiting)
        try:
            self._trials[spec.key] = TrialProcess(spec, folder, self._launcher, self._selector, options)
        except BaseException:
            if waiting is not None:
                waiting.dismiss()
            raise

    def wait(self, timeout_s: float | None = None) -> list[Event]:
        """Returns what has happened, waiting for it up to `timeout_s` seconds; see `Executor.wait`."""
        deadline = float("inf") if timeout_s is None else time.monotonic() + timeout_s
        while True:
            remaining = deadline - time.monotonic()
            self._turn(0.0 if self._events else max(0.0, remaining))
            if self._events or not self._trials or remaining <= 0:
                events = list(self._events)
                self._events.clear()
                return events

    def answer(self, key: str, verdict: Verdict) -> None:
        """Answers a `TrialReported`; see `Executor.answer`.

        Raises:
            RuntimeError: The trial runs and has no open report.
        """
        check_verdict(verdict)
        if key in self._trials:
            self._trials[key].answer(verdict)

    def stop_all(self) -> None:
        """Asks all trials to checkpoint and leave; see `Executor.stop_all`. May be called from a signal handler."""
        for trial in list(self._trials.values()):
            trial.stop()

    def close(self) -> None:
        """Ends all trials, orderly and then by force, and the fork server. Calling it again does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._waiting.close()
            self._leftovers.end_deserted()
            self.stop_all()
            while self._trials:
                self._turn(_TURN_S)
        finally:  # an impatient second Ctrl-C comes here
            for trial in self._trials.values():
                trial.kill()
            while self._trials:
                self._turn(_TURN_S)
            self._launcher.close()
            self._selector.close()
            orphans.end_marked(self._session)
            self._warden.close()

    def _environment(self, threads: int) -> dict[str, str]:
        """Returns the environment of a child: this process's, with threads held down and frameworks kept quiet."""
        mark = orphans.marked_with(self._session, os.environ)
        return {**_QUIET, **os.environ, **thread_variables(threads), **self._variables, **mark}

    def _turn(self, timeout_s: float) -> None:
        """Waits a short time for something to happen and takes it into account."""
        is_ending = any(trial.is_ending for trial in self._trials.values())
        if self._trials:
            timeout_s = min(timeout_s, _ENDING_TURN_S if is_ending else _TURN_S)
            self._listen(timeout_s)
        now = time.monotonic()
        self._excuse_absence(now)
        self._check_memory(now)
        self._warden.watch(self._at_work())
        for key, trial in list(self._trials.items()):
            for message in trial.advance(now):
                self._events.append(event_of(key, message))
            if trial.result is not None:
                del self._trials[key]
                if trial.waiting is not None:
                    self._waiting.add(trial.spec, trial.began_at, trial.waiting)
                elif trial.result.outcome.effects.retried:
                    self._waiting.close()  # it may have died for lack of memory
                if trial.leaves_orphans and trial.waiting is None:
                    orphans.end_marked(self._session, self._at_work())
                self._events.append(TrialEnded(key, trial.result))

    def _listen(self, timeout_s: float) -> None:
        for ready, mask in self._selector.select(timeout_s):
            ready.data(mask)

    def _excuse_absence(self, now: float) -> None:
        """After this process was stopped (Ctrl-Z, a paused machine): reads what has arrived, and starts clocks anew."""
        (then, worked), worked_now = self._last_turn, time.process_time()
        self._last_turn = now, worked_now
        absent_s = now - then - (worked_now - worked)
        if absent_s > _LONGEST_TURN_S and self._trials:
            self._listen(0.0)
            for trial in self._trials.values():
                trial.excuse(absent_s, now)

    def _at_work(self) -> list[int]:
        """The processes that belong here: the fork server, and those of the trials."""
        pids = (self.server_pid, *(trial.group for trial in self._trials.values()))
        return [*(pid for pid in pids if pid is not None), *self._waiting.pids]

    def _check_memory(self, now: float) -> None:
        if self.limits.memory_mb is None or now - self._memory_checked_at < _MEMORY_INTERVAL_S:
            return
        self._memory_checked_at = now
        trials = {trial.group: trial for trial in self._trials.values() if trial.group is not None}
        for group, used_mb in system.memory_of_groups(trials).items():
            trials[group].check_memory(used_mb)


def pickle_function(function: TrialFunction | None) -> bytes:
    """The cloudpickle of a function; nothing for None.

    Raises:
        UserError: It holds what cannot be sent to another process.
    """
    if function is None:
        return b""
    import pickle

    try:
        return pickled_by_value(function)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise UserError(
            f"the function {function!r} cannot be sent to a trial's process: {error}.\n"
            "It must not hold on to open files, locks, processes or the like; make these inside of it."
        ) from error
