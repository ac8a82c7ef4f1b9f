"""Ends a study in which nothing works, and says what would help."""

from dataclasses import dataclass, field

from tuner.results.records import SCREEN, RunRecord
from tuner.study.run_registry import Run
from tuner.trial.folder import explanation_in
from tuner.trial.outcomes import Counts


@dataclass
class Guard:
    """Counts failures in a row; which ends count is in the table of outcomes."""

    limit: int
    streak: list[RunRecord] = field(default_factory=list)
    any_success: bool = False

    def restore(self, record: RunRecord) -> None:
        """Takes a run of an earlier session into account."""
        self.any_success |= record.outcome is not None and record.outcome.effects.succeeded

    def count(self, record: RunRecord) -> bool:
        """Takes a run into account; whether it was one failure too many."""
        self.restore(record)
        self.streak = [*self.streak, record] if self._counts(record) else []
        return len(self.streak) >= self.limit

    def _counts(self, record: RunRecord) -> bool:
        rule = Counts.NEVER if record.outcome is None else record.outcome.effects.counts
        return rule is Counts.ALWAYS or (rule is Counts.UNTIL_A_SUCCESS and not self.any_success)

    def complaint(self, run: Run, num_ended: int, num_trials: int) -> str:
        """The error when it was one failure too many.

        Args:
            run: The last one.
            num_ended: Runs of its stage that have ended.
            num_trials: Trials asked for.
        """
        last, kinds = self.streak[-1], {record.outcome for record in self.streak}
        where = f"See {explanation_in(run.folder)}"
        if last.outcome is not None and last.outcome.effects.remedy_first and len(kinds) == 1:
            remedy = last.outcome.effects.remedy
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
