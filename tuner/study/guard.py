"""Ends a study in which nothing works, and says what would help."""

from dataclasses import dataclass, field
from typing import Final

from tuner.results.insights.failures import REMEDIES
from tuner.results.protocol import PENALISED, RETRIED
from tuner.results.records import SCREEN, RunRecord
from tuner.study.run_registry import Run
from tuner.trial import folder as files
from tuner.trial.messages import Outcome

_LIMITED: Final = {Outcome.TIMED_OUT, Outcome.OUT_OF_MEMORY}
"""Ends of which the output of a run says nothing."""


@dataclass
class Guard:
    """Counts failures in a row.

    A configuration that diverges or runs out of memory or time says something about itself; only while no run at all
    has come to a good end do these count as failures too.
    """

    limit: int
    streak: list[RunRecord] = field(default_factory=list)
    any_success: bool = False

    def restore(self, record: RunRecord) -> None:
        """Takes a run of an earlier session into account."""
        self.any_success |= record.outcome in (Outcome.COMPLETE, Outcome.PRUNED)

    def count(self, record: RunRecord) -> bool:
        """Takes a run into account; whether it was one failure too many."""
        self.restore(record)
        failed = record.outcome in RETRIED or (record.outcome in PENALISED and not self.any_success)
        self.streak = [*self.streak, record] if failed else []
        return len(self.streak) >= self.limit

    def complaint(self, run: Run, num_ended: int, num_trials: int) -> str:
        """What is said when it is one too many.

        Args:
            run: The last one.
            num_ended: Runs of its stage that have ended.
            num_trials: Trials asked for.
        """
        last, kinds = self.streak[-1], {record.outcome for record in self.streak}
        where = f"See {run.folder / files.OUTPUT_FILE}"
        if last.outcome in _LIMITED and len(kinds) == 1:
            remedy = REMEDIES[last.outcome]
            where = f"{remedy[:1].upper()}{remedy[1:]}"
        lines = [
            f"{len(self.streak)} runs in a row failed, so the study was stopped. "
            f"The last one, {run.key}: {last.reason or last.outcome}",
            f"{where}; once it is mended, the same command goes on.",
        ]
        if run.stage == SCREEN:
            lines.append(f"{further_trials(len(self.streak), num_ended, num_trials)}.")
        return "\n".join(lines)


def further_trials(num_failed: int, num_ended: int, num_trials: int) -> str:
    """How to have more trials in place of failed ones, which stay counted.

    Args:
        num_failed: Trials to be replaced.
        num_ended: Trials that have ended, these among them.
        num_trials: Trials asked for.
    """
    total = max(num_trials, num_ended) + num_failed
    these = "The failed one counts" if num_failed == 1 else f"These {num_failed} count"
    further = f"study.num_trials={total} has {total - num_ended} further one{'s' * (total - num_ended > 1)}"
    return f"{these} among study.num_trials; {further}, and another study.name=... begins anew"
