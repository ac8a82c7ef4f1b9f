"""The parent's side of one trial: start its child, read its messages, hold it to its limits, judge its end.

A `TrialProcess` never waits and never raises because of its child. It registers its socket and pidfd with the
caller's selector (the data of a registration is the function to call, with the selector's mask, when it is ready);
after each round of the selector the caller calls `advance`.

Three things go on side by side, each with states of its own: the `Life` of the child, here; whose `Turn` it is in the
dialogue (`tuner.trial.dialogue`); and the `Step` that is due if this side has decided to end the child
(`tuner.trial.child_end`).
"""

import logging
import os
import selectors
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from tuner.support.text_files import sweep_unfinished
from tuner.trial import folder as files
from tuner.trial import system
from tuner.trial.child_end import Ending, Step, judge
from tuner.trial.connection import Connection
from tuner.trial.dialogue import Dialogue, Turn
from tuner.trial.launch import SILENCE_VARIABLE, Child, Launcher, module_path
from tuner.trial.messages import Limits, Message, Outcome, TrialResult, TrialSpec, Verdict
from tuner.trial.wire import Launch

_log = logging.getLogger(__name__)

MAX_LAUNCHES = 3
START_LIMIT_S = 300.0
"""How long the fork server may import before a trial that waits for it is given up."""

_EXIT_CODE_WAIT_S = 2.0


class Life(Enum):
    """Where a child is in its life. It goes on to a later state only, and may pass over some."""

    ASKED = "asked for"
    """The launcher has been asked for it; asked again if the launcher dies meanwhile."""
    ALIVE = "alive"
    """It has been forked."""
    DEAD = "dead"
    """It has ended; its exit code may be still on its way."""
    OVER = "over"
    """Its end has been judged."""


@dataclass(frozen=True)
class WaitingChild:
    """A child whose trial is over, and which waits for the one that goes on from it.

    Attributes:
        child: Its process.
        pidfd: Becomes readable at its end; None where there are none.
        connection: To it. Closing that ends it.
    """

    child: Child
    pidfd: int | None
    connection: Connection

    def dismiss(self) -> None:
        """Has it end by itself, which takes a moment."""
        self.child.abandoned = True
        self.connection.close()
        if self.pidfd is not None:
            os.close(self.pidfd)


@dataclass(frozen=True)
class ChildOptions:
    """How a child is run.

    Attributes:
        environment: Its whole environment.
        limits: Of its resources.
        function: A pickled function to call in place of the trial's entry; empty for none.
        may_wait: Whether its process may wait, behind a pause, for the trial that goes on.
        waiting: The child of the trial that this one goes on from, in place of a new one.
    """

    environment: Mapping[str, str]
    limits: Limits = field(default_factory=Limits)
    function: bytes = b""
    may_wait: bool = False
    waiting: WaitingChild | None = None


class TrialProcess:
    """One trial, one child.

    Args:
        spec: The trial.
        folder: Its folder, made here.
        launcher: Starts the child.
        selector: Where the socket and the pidfd are registered.
        options: How the child is run.

    Attributes:
        options: As given.
        result: How the trial ended; None while it has not.
        waiting: The child, if it waits behind the end of the trial. To be dismissed by the caller.

    Raises:
        UserError: The folder cannot be written.
    """

    def __init__(
        self,
        spec: TrialSpec,
        folder: Path,
        launcher: Launcher,
        selector: selectors.BaseSelector,
        options: ChildOptions,
    ) -> None:
        self.spec = spec
        self.folder = folder.absolute()
        self.options = options
        self.result: TrialResult | None = None
        self._launcher, self._selector = launcher, selector
        self._life = Life.ASKED
        self._ending: Ending | None = None
        self._pidfd: int | None = None
        self._num_launches = 0
        self._forked_at = self._died_at = 0.0
        self.waiting: WaitingChild | None = None
        self._is_successor = options.waiting is not None
        files.prepare(self.folder, spec)
        self._launch(options.waiting)

    @property
    def group(self) -> int | None:
        """Number of the child's process group; None before it is forked and after its end."""
        return self._child.pid if self._life in (Life.ASKED, Life.ALIVE) else None

    @property
    def began_at(self) -> float:
        """When the child was there, as `time.monotonic()`; 0 before."""
        return self._forked_at

    @property
    def is_ending(self) -> bool:
        """Whether this side has decided to end the child."""
        return self._ending is not None

    @property
    def leaves_orphans(self) -> bool:
        """Whether nobody inherits what the child has started and left behind."""
        return not self._launcher.inherits_from(self._child)

    def answer(self, verdict: Verdict) -> None:
        """Answers the open report.

        Raises:
            RuntimeError: There is none.
        """
        if self.is_ending or self._life is Life.OVER:
            return  # it was asked to stop
        if self._dialogue.turn is not Turn.PARENT:
            raise RuntimeError(f"trial {self.spec.key} has no report that waits for a verdict")
        self._dialogue.answer(verdict)

    def stop(self, reason: str = "asked to stop") -> None:
        """Asks the child to checkpoint and leave; SIGTERM and SIGKILL follow if it does not."""
        self._end(Outcome.STOPPED, reason, Step.ASK)

    def kill(self, reason: str = "killed by the controller") -> None:
        """Ends the child and its group at once."""
        self._end(Outcome.STOPPED, reason, Step.KILL)

    def check_memory(self, used_mb: float) -> None:
        """Ends the child if its group uses more than `limits.memory_mb`. At once: what grows may soon harm others."""
        limit = self.options.limits.memory_mb
        if limit is not None and used_mb > limit and not self.is_ending:
            reason = f"its processes used {used_mb:.0f} MB of memory, more than limits.memory_mb={limit:g}"
            self._end(Outcome.OUT_OF_MEMORY, reason, Step.KILL)

    def advance(self, now: float) -> list[Message]:
        """Takes what has happened into account; at the end of the child, sets `result`.

        Args:
            now: `time.monotonic()`.

        Returns:
            Messages of the child, in order. After a `Report` it waits for `answer`.
        """
        self._follow_launch(now)
        is_over = self._is_over(now)
        if is_over:
            self._dialogue.hear_last_words()
        messages = self._dialogue.hear(now)
        if self._dialogue.turn is Turn.NOBODY:
            self._end(Outcome.CRASHED, f"it sent something unreadable: {self._dialogue.complaint}", Step.KILL)
        if is_over and self._is_successor and self._dialogue.pid is None and not self.is_ending:
            self._replace()
        elif is_over or self._may_rest():
            self._finish(now)
        else:
            if self._dialogue.is_waiting:
                self._dialogue.close()  # so it ends
            self._check_times(now)
            self._escalate(now)
        return messages

    def _may_rest(self) -> bool:
        """Whether the child waits, and may: the fork server lives, which sees to its end, and it is not to be ended."""
        return self._dialogue.is_waiting and not self.is_ending and not self.leaves_orphans

    # From ASKED to ALIVE

    def _launch(self, waiting: WaitingChild | None = None) -> None:
        self._num_launches += waiting is None
        environment, silence_s = dict(self.options.environment), self.options.limits.silence_s
        if silence_s is not None:
            environment[SILENCE_VARIABLE] = f"{silence_s:g}"
        launch = Launch(
            folder=str(self.folder),
            cwd=os.getcwd(),
            path=module_path(),
            environment=environment,
            asked_at=time.monotonic(),
            function_size=len(self.options.function),
            may_wait=self.options.may_wait,
        )
        self._asked_at = launch.asked_at
        self._connection = Connection(self._selector) if waiting is None else waiting.connection
        self._dialogue = Dialogue(self._connection, launch.encode() + self.options.function)
        if waiting is None:
            self._child = self._launcher.launch(self._connection.child_end, self.folder, self.options.environment)
        else:
            self._child = waiting.child
            self._child.pidfd = waiting.pidfd

    def _follow_launch(self, now: float) -> None:
        """Takes over what the launcher has learnt about the child."""
        child = self._child
        if child.pid is None and child.unknown:  # the server died between the request and its answer
            if self._dialogue.pid is not None:
                child.pid, child.pidfd = self._dialogue.pid, system.open_pidfd(self._dialogue.pid)
            elif not self._dialogue.is_open and not self.is_ending:
                self._launch_again()
        if child.pidfd is not None:
            self._pidfd, child.pidfd = child.pidfd, None
            self._selector.register(self._pidfd, selectors.EVENT_READ, self._on_death)
        if child.pid is not None and self._life is Life.ASKED:
            self._life = Life.ALIVE
            self._forked_at = self._dialogue.last_heard = now

    def _launch_again(self) -> None:
        if self._num_launches >= MAX_LAUNCHES:
            self._child.error = f"the fork server died {MAX_LAUNCHES} times while it was starting this trial"
            return
        self._dialogue.close()
        self._launch()

    def _replace(self) -> None:
        """Asks for a child in place of one that had waited, and died before it could begin with this trial."""
        self._is_successor, self._life = False, Life.ASKED
        self._dialogue.close()
        self._launch()

    # Within its limits

    def excuse(self, seconds: float, now: float) -> None:
        """Takes a time off all clocks in which nobody listened: this process was stopped, or the machine paused."""
        self._asked_at = min(self._asked_at + seconds, now)
        self._dialogue.last_heard = min(self._dialogue.last_heard + seconds, now)
        if self._forked_at:
            self._forked_at = min(self._forked_at + seconds, now)
        if self._ending is not None:
            self._ending.next_at += seconds

    def _check_times(self, now: float) -> None:
        """Decides to end a child that takes too long."""
        if self.is_ending:
            return
        if self._life is Life.ASKED:
            if now - self._asked_at > START_LIMIT_S:
                self._child.error = f"no process could be started for it within {START_LIMIT_S:g} s"
            return
        limits = self.options.limits
        if limits.wall_s is not None and now - self._forked_at > limits.wall_s:
            self._end(Outcome.TIMED_OUT, f"it ran longer than limits.wall_s={limits.wall_s:g} s", Step.ASK)
        elif self._dialogue.is_silent(now, limits.silence_s) and self._own_result() is None:
            reason = f"nothing was heard from it for longer than limits.silence_s={limits.silence_s:g} s"
            self._end(Outcome.HUNG, reason, Step.TERMINATE)

    def _own_result(self) -> TrialResult | None:
        """The result that the child itself has written: it is done, and about to end."""
        return None if self._dialogue.pid is None else files.read_result(self.folder)

    # From a decision to DEAD

    def _end(self, outcome: Outcome, reason: str, step: Step) -> None:
        """Begins to end the child at a step, or goes on to a later one."""
        if self._life is Life.OVER:
            return
        if self._ending is None:
            self._ending = Ending(outcome, reason, step)
        elif step <= self._ending.step:
            return
        self._ending.step, self._ending.next_at = step, 0.0
        self._escalate(time.monotonic())

    def _escalate(self, now: float) -> None:
        """Does the step that is due."""
        ending = self._ending
        if ending is None or now < ending.next_at or ending.step is Step.GIVE_UP:
            return
        if ending.step is Step.ASK:
            self._dialogue.ask_to_stop()
        elif self.group is not None:
            ending.signal_child(self.group, self._pidfd)
        ending.step = Step(ending.step + 1)
        ending.next_at = now + self.options.limits.grace_s

    def _on_death(self, _mask: int) -> None:
        self._die(time.monotonic())
        self._drop_pidfd()

    def _die(self, now: float) -> None:
        self._life, self._died_at = Life.DEAD, now

    # From DEAD to OVER

    def _is_over(self, now: float) -> bool:
        """Whether nothing is left to wait for: the child could not start, was given up, or has ended."""
        child, ending = self._child, self._ending
        if child.error:
            return True
        if ending is not None:
            if child.pid is None and not child.unknown:
                return True  # not forked yet: it finds its line closed
            if ending.step is Step.GIVE_UP and now >= ending.next_at:
                return True
        if self._life is not Life.DEAD:
            if not self._line_tells_death():
                return False
            self._die(now)
        self._launcher.reap(child)
        return child.exit_code is not None or child.unknown or now - self._died_at > _EXIT_CODE_WAIT_S

    def _line_tells_death(self) -> bool:
        """Whether the end of the line is the end of the child, as where there are no pidfds."""
        might_exist = self._child.pid is not None or self._child.unknown
        return self._pidfd is None and not self._dialogue.is_open and might_exist

    def _finish(self, now: float) -> None:
        """Judges the end, writes it down, and lets go of the child."""
        seconds = now - self._forked_at if self._forked_at else 0.0
        written = self._own_result()
        failure = self._dialogue.refusal or self._child.error
        if failure:
            self.result = TrialResult(Outcome.CRASHED, failure, "", seconds)
        else:
            output = files.tail_of_output(self.folder)
            self.result = judge(written, self._ending, self._child.exit_code, output, seconds)
        self._life = Life.OVER
        sweep_unfinished(self.folder)  # it may have been killed while it was writing a checkpoint
        if self._dialogue.pid is not None and self.result != written:
            try:
                files.write_result(self.folder, self.result)
            except OSError as error:
                _log.warning("the result of trial %s could not be written: %s", self.spec.key, error)
        if self._may_rest() and self._dialogue.is_open:
            pidfd, self._pidfd = self._pidfd, None
            if pidfd is not None:
                self._selector.unregister(pidfd)
            self.waiting = WaitingChild(self._child, pidfd, self._connection)
        else:
            self._dialogue.close()
            self._child.abandoned = True
            self._drop_pidfd()

    def _drop_pidfd(self) -> None:
        if self._pidfd is not None:
            self._selector.unregister(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
