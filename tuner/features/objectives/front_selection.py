"""Selection from stage to stage by several objectives. Pure functions over records."""

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.features.objectives.facts import FRONT
from tuner.features.objectives.pareto_front import Losses, as_losses, front_of, spread_over_front
from tuner.results.records import Objective, RunRecord
from tuner.results.selection import AGGREGATES


@dataclass(frozen=True)
class FrontSelection:
    """The configurations that no other one beats in all objectives.

    Attributes:
        others: Objectives behind the score.
        over_seeds: One of `AGGREGATES`.
    """

    others: Sequence[Objective]
    over_seeds: str = "mean"

    def entrants(self, screened: Sequence[RunRecord], count: int) -> tuple[RunRecord, ...]:
        """The complete runs of the screening stage that no other beats, or a wide choice of them."""
        losses = {
            run.number: self._losses(values)
            for run in screened
            if run.complete and (values := run.objectives(self.others)) is not None
        }
        by_number = {run.number: run for run in screened}
        return tuple(by_number[number] for number in spread_over_front(losses, count))

    def chosen(
        self, confirmed: Sequence[RunRecord], candidates: Sequence[RunRecord], raced: Sequence[RunRecord] = ()
    ) -> tuple[RunRecord, ...]:
        """The candidates that no other one beats in all objectives on the confirmation seeds; the best score first.

        Args:
            confirmed: Runs of the confirmation stage; one that crashed to the end counts as the worst there is.
            candidates: As chosen.
            raced: Nothing is raced by several objectives.
        """
        del raced
        known = [self._losses(values) for run in confirmed if (values := run.objectives(self.others)) is not None]
        if not known:
            return ()
        worst = tuple(map(max, zip(*known, strict=True)))
        found: dict[int, Losses] = {}
        for candidate in candidates:
            runs = [run for run in confirmed if run.label == candidate.label and run.outcome is not None]
            if any(run.complete for run in runs):
                rows = [
                    worst if (values := run.objectives(self.others)) is None else self._losses(values) for run in runs
                ]
                # merits and not losses, so that the worst seed is the lowest one
                found[candidate.number] = tuple(
                    -AGGREGATES[self.over_seeds]([-loss for loss in column]) for column in zip(*rows, strict=True)
                )
        by_number = {run.number: run for run in candidates}
        return tuple(by_number[number] for number in sorted(front_of(found), key=lambda number: found[number]))

    def kept(self, winners: Sequence[RunRecord]) -> dict[str, object]:
        """Entries of the choice that the storage keeps besides the winner."""
        return {FRONT.key: [winner.label for winner in winners]}

    def _losses(self, values: Sequence[float]) -> Losses:
        return as_losses(values, [True, *(other.maximised for other in self.others)])
