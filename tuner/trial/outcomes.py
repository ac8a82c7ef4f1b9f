"""The ways in which a trial can end, and what follows from each: one row of one table per outcome.

Code that treats ends differently (dispatcher, guard, penalties, trackers, reports, the parent of a trial's process)
reads the row and names no outcome. A new outcome is a new row.

Standard library only, as the fork server loads this before anything else.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Self


class Counts(Enum):
    """Whether the guard of a study counts a run that ended so among its failures in a row."""

    NEVER = "never"
    UNTIL_A_SUCCESS = "until a success"
    """Such an end says something about its configuration; only while no run at all succeeds, about the study."""
    ALWAYS = "always"


@dataclass(frozen=True)
class Effects:
    """Consequences of an end.

    Attributes:
        succeeded: The run came to a good end.
        scored: Its reports give its score.
        failed: Something is wrong with the run itself. One that is neither is continued when the study is.
        retried: It may be the doing of the machine or the environment: the run goes on from its last checkpoint.
        uses_retry: Going on uses up one of study.retries.
        penalised: The configuration itself is to blame, it would end so again: the sampler gets a bad score, so that
            it does not go there again. Other failures tell it nothing.
        counts: For the guard of too many failures in a row.
        remedy: The usual remedy, for people.
        remedy_first: The output of the run says nothing, so the remedy is shown instead of where to look.
        overrules: Once the parent has decided on this end, no result counts that the child still writes.
        leaves_stacks: The child writes where it is to its output before it is ended.
    """

    succeeded: bool = False
    scored: bool = False
    failed: bool = False
    retried: bool = False
    uses_retry: bool = False
    penalised: bool = False
    counts: Counts = Counts.NEVER
    remedy: str = ""
    remedy_first: bool = False
    overrules: bool = False
    leaves_stacks: bool = False


class Outcome(StrEnum):
    """How a trial ended."""

    COMPLETE = "complete", Effects(succeeded=True, scored=True)
    PRUNED = "pruned", Effects(succeeded=True)
    PAUSED = "paused", Effects(succeeded=True, scored=True)
    CRASHED = (
        "crashed",
        Effects(
            failed=True,
            retried=True,
            uses_retry=True,
            counts=Counts.ALWAYS,
            remedy="an error in the program or its environment; its traceback, if there is one, is in output.log. The "
            "sampler does not use such runs. If memory runs out, the kernel ends a run as well; with "
            "executor.limits.memory_mb the run ends earlier, as out_of_memory",
            overrules=True,
        ),
    )
    DIVERGED = (
        "diverged",
        Effects(
            failed=True,
            penalised=True,
            counts=Counts.UNTIL_A_SUCCESS,
            remedy="numbers overflowed: a lower learning rate, or training.max_grad_norm, keeps them finite",
        ),
    )
    OUT_OF_MEMORY = (
        "out_of_memory",
        Effects(
            failed=True,
            penalised=True,
            counts=Counts.UNTIL_A_SUCCESS,
            remedy="smaller batches, networks or buffers, fewer trials at a time, or a higher "
            "executor.limits.memory_mb",
            remedy_first=True,
        ),
    )
    TIMED_OUT = (
        "timed_out",
        Effects(
            failed=True,
            penalised=True,
            counts=Counts.UNTIL_A_SUCCESS,
            remedy="the run was slow: raise executor.limits.wall_s if that was too little",
            remedy_first=True,
            leaves_stacks=True,
        ),
    )
    HUNG = (
        "hung",
        Effects(
            failed=True,
            retried=True,
            uses_retry=True,
            counts=Counts.ALWAYS,
            remedy="the end of output.log shows where it hung; raise executor.limits.silence_s if it was only slow",
            overrules=True,
            leaves_stacks=True,
        ),
    )
    LOST = (
        "lost",
        Effects(
            failed=True,
            retried=True,
            counts=Counts.ALWAYS,
            remedy="machines left the cluster while it ran; executor.max_lost says how often a run may go on elsewhere",
            remedy_first=True,
        ),
    )
    STOPPED = "stopped", Effects()

    _value_: str
    effects: Effects

    def __new__(cls, value: str, effects: Effects = Effects()) -> Self:
        """Makes a member; its effects are no part of its value."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.effects = effects
        return member
