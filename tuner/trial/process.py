"""The parent's side of one trial: start its child, hear it, hold it to its limits, judge its end.

A `TrialProcess` never waits and never raises because of its child. It registers its socket and pidfd with the
caller's selector (the data of a registration is the function to call, with the selector's mask, when it is ready);
after each round of the selector the caller calls `advance`.
"""

import logging
import os
import selectors
import time
from collections.abc import Mapping
from pathlib import Path

from tuner.files import sweep_unfinished
from tuner.trial import folder as files
from tuner.trial import system
from tuner.trial.connection import Connection
from tuner.trial.ending import Ending, Step, judge
from tuner.trial.launch import Launcher, module_path
from tuner.trial.messages import (
    Limits,
    Message,
    Outcome,
    Refused,
    Report,
    Started,
    TrialResult,
    TrialSpec,
    Verdict,
)
from tuner.trial.wire import Launch, encode_verdict

_log = logging.getLogger(__name__)

MAX_LAUNCHES = 3
START_LIMIT_S = 300.0
"""How long the fork server may import before a trial that waits for it is given up."""

_EXIT_CODE_WAIT_S = 2.0


class TrialProcess:
    """One trial, one child.

    Args:
        spec: The trial.
        folder: Its folder, made here.
        launcher: Starts the child.
        selector: Where the socket and the pidfd are registered.
        environment: The whole environment of the child.
        limits: What the child may use.
        function: A pickled function to call in place of `spec.entry`; empty for none.

    Attributes:
        environment: The child's.
        result: How the trial ended; None while it has not.

    Raises:
        UserError: The folder cannot be written.
    """

    def __init__(
        self,
        spec: TrialSpec,
        folder: Path,
        launcher: Launcher,
        selector: selectors.BaseSelector,
        environment: Mapping[str, str],
        limits: Limits | None = None,
        function: bytes = b"",
    ) -> None:
        self.spec = spec
        self.folder = folder.absolute()
        self.limits = limits or Limits()
        self.result: TrialResult | None = None
        self._launcher, self._selector = launcher, selector
        self.environment: Mapping[str, str] = dict(environment)
        self._function = function
        self._num_launches = 0
        self._ending: Ending | None = None
        self._pidfd: int | None = None
        self._started_pid: int | None = None
        self._refused = ""
        self._awaits_verdict = False
        self._is_broken = False
        self._forked_at = self._died_at = self._last_heard = 0.0
        files.prepare(self.folder, spec)
        self._launch()

    @property
    def group(self) -> int | None:
        """Number of the child's process group; None before it is forked and after its end."""
        return None if self._died_at or self.result else self._child.pid

    @property
    def is_ending(self) -> bool:
        """Whether this side has decided to end the child."""
        return self._ending is not None

    @property
    def leaves_orphans(self) -> bool:
        """Whether nobody inherits what the child has started and left behind."""
        return not self._launcher.inherits_from(self._child)

    def answer(self, verdict: Verdict) -> None:
        """Answer the open report.

        Raises:
            RuntimeError: There is none.
        """
        if self._ending is not None or self.result is not None:
            return  # it was told to stop
        if not self._awaits_verdict:
            raise RuntimeError(f"trial {self.spec.key} has no report that waits for a verdict")
        self._awaits_verdict = False
        self._last_heard = time.monotonic()
        self._connection.send(encode_verdict(verdict))

    def stop(self, reason: str = "asked to stop") -> None:
        """Ask the child to checkpoint and leave; SIGTERM and SIGKILL follow if it does not."""
        self._end(Outcome.STOPPED, reason, Step.ASK)

    def kill(self, reason: str = "killed by the controller") -> None:
        """End the child and its group at once."""
        self._end(Outcome.STOPPED, reason, Step.KILL)

    def check_memory(self, used_mb: float) -> None:
        """End the child if its group uses more than `limits.memory_mb`. At once: what grows may soon harm others."""
        limit = self.limits.memory_mb
        if limit is not None and used_mb > limit and self._ending is None:
            reason = f"its processes used {used_mb:.0f} MB of memory, more than limits.memory_mb={limit:g}"
            self._end(Outcome.OUT_OF_MEMORY, reason, Step.KILL)

    def advance(self, now: float) -> list[Message]:
        """Take what has happened into account; at the end of the child, set `result`.

        Args:
            now: `time.monotonic()`.

        Returns:
            What the child said, in order. After a `Report` it waits for `answer`.
        """
        self._follow_child(now)
        is_over = self._is_over(now)
        if is_over:
            self._connection.receive(to_the_end=True)
        messages = self._take_messages(now)
        if is_over:
            self._finish(now)
        else:
            self._check_times(now)
            self._escalate(now)
        return messages

    def _launch(self) -> None:
        self._num_launches += 1
        launch = Launch(
            folder=str(self.folder),
            cwd=os.getcwd(),
            path=module_path(),
            environment=dict(self.environment),
            asked_at=time.monotonic(),
            function_size=len(self._function),
        )
        self._asked_at = launch.asked_at
        self._connection = Connection(self._selector)
        self._connection.send(launch.encode() + self._function)
        self._child = self._launcher.launch(self._connection.child_end, self.folder, self.environment)

    def _follow_child(self, now: float) -> None:
        """Take over what the launcher has learnt about the child."""
        child = self._child
        if child.pid is None and child.unknown:  # the server died between the request and its answer
            if self._started_pid is not None:
                child.pid, child.pidfd = self._started_pid, system.open_pidfd(self._started_pid)
            elif not self._connection.is_open and self._ending is None:
                self._launch_again()
        if child.pidfd is not None:
            self._pidfd, child.pidfd = child.pidfd, None
            self._selector.register(self._pidfd, selectors.EVENT_READ, self._on_death)
        if child.pid is not None and not self._forked_at:
            self._forked_at = self._last_heard = now

    def _launch_again(self) -> None:
        if self._num_launches >= MAX_LAUNCHES:
            self._child.error = f"the fork server died {MAX_LAUNCHES} times while it was starting this trial"
            return
        self._connection.close()
        self._launch()

    def _on_death(self, _mask: int) -> None:
        self._died_at = time.monotonic()
        self._drop_pidfd()

    def _take_messages(self, now: float) -> list[Message]:
        if self._is_broken:
            return []
        messages: list[Message] = []
        try:
            for message in self._connection.take_messages():
                self._last_heard = now
                self._take(message)
                messages.append(message)
        except ValueError as error:
            self._is_broken = True
            self._end(Outcome.CRASHED, f"it sent something unreadable: {error}", Step.KILL)
        return [message for message in messages if not isinstance(message, Refused)]

    def _take(self, message: Message) -> None:
        match message:
            case Started(pid):
                self._started_pid = pid
            case Refused(reason):
                self._refused = reason
            case Report(step) if self._awaits_verdict:
                raise ValueError(f"a report at {step:g} before the verdict on its last one")
            case Report():
                self._awaits_verdict = True

    def _check_times(self, now: float) -> None:
        limits = self.limits
        if self._ending is not None:
            return
        if not self._forked_at:
            if now - self._asked_at > START_LIMIT_S:
                self._child.error = f"no process could be started for it within {START_LIMIT_S:g} s"
        elif limits.wall_s is not None and now - self._forked_at > limits.wall_s:
            self._end(Outcome.TIMED_OUT, f"it ran longer than limits.wall_s={limits.wall_s:g} s", Step.ASK)
        elif limits.silence_s is not None and not self._awaits_verdict and now - self._last_heard > limits.silence_s:
            if self._started_pid is not None and files.read_result(self.folder) is not None:
                return  # it is not silent but done, and about to end
            reason = f"nothing was heard from it for longer than limits.silence_s={limits.silence_s:g} s"
            self._end(Outcome.HUNG, reason, Step.TERMINATE)

    def _end(self, outcome: Outcome, reason: str, step: Step) -> None:
        """Begin to end the child at a step, or go on to a later one."""
        if self.result is not None:
            return
        if self._ending is None:
            self._ending = Ending(outcome, reason, step)
        elif step <= self._ending.step:
            return
        self._ending.step, self._ending.next_at = step, 0.0
        self._escalate(time.monotonic())

    def _escalate(self, now: float) -> None:
        ending = self._ending
        if ending is None or now < ending.next_at or ending.step is Step.GIVE_UP:
            return
        if ending.step is Step.ASK:
            self._connection.send(encode_verdict("stop"))
        elif self._child.pid is not None and not self._died_at:
            ending.signal_child(self._child.pid, self._pidfd)
        ending.step = Step(ending.step + 1)
        ending.next_at = now + self.limits.grace_s

    def _is_over(self, now: float) -> bool:
        child, ending = self._child, self._ending
        if child.error:
            return True
        if ending is not None:
            if child.pid is None and not child.unknown:
                return True  # not forked yet: it finds its line closed
            if ending.step is Step.GIVE_UP and now >= ending.next_at:
                return True
        if not self._died_at:
            if self._pidfd is not None or self._connection.is_open or (child.pid is None and not child.unknown):
                return False
            self._died_at = now  # no pidfds here: the end of the line is the end of the child
        self._launcher.reap(child)
        return child.exit_code is not None or child.unknown or now - self._died_at > _EXIT_CODE_WAIT_S

    def _finish(self, now: float) -> None:
        seconds = now - self._forked_at if self._forked_at else 0.0
        written = files.read_result(self.folder) if self._started_pid is not None else None
        failure = self._refused or self._child.error
        if failure:
            self.result = TrialResult(Outcome.CRASHED, failure, "", seconds)
        else:
            output = files.tail_of_output(self.folder)
            self.result = judge(written, self._ending, self._child.exit_code, output, seconds)
        sweep_unfinished(self.folder)  # it may have been killed while it was writing a checkpoint
        if self._started_pid is not None and self.result != written:
            try:
                files.write_result(self.folder, self.result)
            except OSError as error:
                _log.warning("the result of trial %s could not be written: %s", self.spec.key, error)
        self._connection.close()
        self._child.abandoned = True
        self._drop_pidfd()

    def _drop_pidfd(self) -> None:
        if self._pidfd is not None:
            self._selector.unregister(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
