"""How a child is brought to an end, and how its end is judged."""

import signal
from dataclasses import dataclass
from enum import IntEnum

from tuner.trial import system
from tuner.trial.messages import Outcome, TrialResult

EXIT_FAILED = 70
"""As EX_SOFTWARE of sysexits.h: what runs a trial has failed, and not the trial; the output says how."""


class Step(IntEnum):
    """Steps to end a child, one grace time after the other."""

    ASK = 0
    TERMINATE = 1
    KILL = 2
    GIVE_UP = 3


@dataclass
class Ending:
    """An end that the parent has decided on.

    Attributes:
        outcome: The trial's outcome.
        reason: Why, one sentence for the user.
        step: The next step.
        next_at: When it is due, as `time.monotonic()`.
    """

    outcome: Outcome
    reason: str
    step: Step
    next_at: float = 0.0

    def overrules(self, written: TrialResult) -> bool:
        """Whether it counts, and not what the child wrote after it had been decided on."""
        return self.outcome.effects.overrules or written.outcome is Outcome.STOPPED

    def signal_child(self, pid: int, pidfd: int | None) -> None:
        """Does the step, so far as it consists of signals."""
        if self.step is Step.TERMINATE:
            if self.outcome.effects.leaves_stacks:
                system.send_signal(pid, pidfd, signal.SIGUSR1)  # it writes to its output where it hangs
            system.send_signal(pid, pidfd, signal.SIGTERM)
        elif self.step is Step.KILL:
            system.send_signal(pid, pidfd, signal.SIGKILL)  # it may not have founded its group yet
            system.kill_group(pid)


def judge(
    written: TrialResult | None, ending: Ending | None, exit_code: int | None, output: str, seconds: float
) -> TrialResult:
    """Returns the result of a child that has ended.

    What the child wrote itself counts, except that a child which left orderly because a limit was reached was not just
    stopped, and that one which was given up (it hung, or sent nonsense) comes to no good end after that. Otherwise the
    outcome is that of the process that ended it.

    Args:
        written: The child's result.json, if it is complete.
        ending: The end that the parent had decided on, if it had.
        exit_code: Exit code, or minus the number of the signal that ended the child; None if nobody knows.
        output: The last lines of its output.
        seconds: Its wall time.
    """
    if written is not None and (ending is None or not ending.overrules(written)):
        return written
    if ending is None:
        return TrialResult(Outcome.CRASHED, describe_exit(exit_code), output, seconds)
    trace = "" if ending.outcome is Outcome.STOPPED else output
    return TrialResult(ending.outcome, ending.reason, trace, seconds)


def describe_exit(exit_code: int | None) -> str:
    """Says how a process ended that left no result."""
    if exit_code is None:
        return "its process ended without a result, killed or crashed; how is not known, as the fork server died too"
    if exit_code == EXIT_FAILED:
        return (
            f"its process could not write its result down (exit code {exit_code}): see if its code closes descriptors, "
            "changes the user, deletes the folder of the run or replaces modules"
        )
    if exit_code >= 0:
        return f"its process ended with exit code {exit_code} and left no result"
    names = {int(number): number.name for number in signal.Signals}
    hint = " (by the kernel if memory ran out, or by hand)" if -exit_code == signal.SIGKILL else ""
    return f"its process was killed by {names.get(-exit_code, f'signal {-exit_code}')}{hint}"
