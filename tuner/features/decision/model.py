"""The model of a study: which of its runs it looks at, whose run is the next, and what it knows in the end."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tuner.features.decision.allocation import best_of, next_of
from tuner.features.decision.facts import Believed
from tuner.features.decision.gaussian_process import Observations, Posterior, posterior
from tuner.features.decision.parameter_places import coordinates_of
from tuner.features.decision.run_scores import Scoring, moved_up
from tuner.results.metric import FloatArray
from tuner.results.records import CONFIRM, RunRecord
from tuner.results.statistics import student_t
from tuner.study.definition import StudyDefinition

MOST_BEST = 60
"""Configurations that are looked at for their score; as many that lie nearest to them are looked at for their luck."""


class StudyModel:
    """Works out from the runs of a study what is known of its configurations.

    Everything follows from the records, so that a study that goes on after a kill decides as it would have.

    Args:
        definition: The study.
        screened: Its runs in screening.
        drawn: Optuna's parameters, by number of the screening run.
        later: Tells the runs behind screening and before the test, those under way included.
    """

    def __init__(
        self,
        definition: StudyDefinition,
        screened: Sequence[RunRecord],
        drawn: Mapping[int, Mapping[str, object]],
        later: Callable[[], Sequence[RunRecord]],
    ) -> None:
        self._definition, self._later = definition, later
        places = coordinates_of([drawn[run.number] for run in screened], definition.space.distributions())
        self._scoring = Scoring(screened, definition.metric)
        scores = {index: one for index, run in enumerate(screened) if (one := self._scoring(run)) is not None}
        told = list(scores)
        kept = [told[index] for index in considered(places[told], [scores[index].value for index in told])]
        self._screened, self._places = [screened[index] for index in kept], places[kept]
        self._scores = [scores[index] for index in kept]
        self._indices = {run.label: index for index, run in enumerate(self._screened)}
        self._candidates = [index for index, run in enumerate(self._screened) if run.complete]

    def next_run(self, *, is_last: bool) -> RunRecord:
        """The screening run of the configuration that is to run once more.

        Args:
            is_last: Whether no further run follows. Without a run on a fresh seed the best candidate could not be
                chosen, so the last run is its, if it has none.
        """
        again = self._again()
        found = self._found(again)
        leader = self._screened[best_of(found, self._candidates)]
        if is_last and leader.label not in {run.label for run in again if run.stage == CONFIRM}:
            return leader
        return self._screened[next_of(found, self._candidates)]

    def chosen(self) -> tuple[Believed, ...]:
        """The candidates with complete runs of confirmation, the best first."""
        again = self._again()
        found = self._found(again)
        ended = Counter(run.label for run in again if run.outcome is not None)
        fresh = {run.label for run in again if run.complete and run.stage == CONFIRM}
        numbers = [index for index in self._candidates if self._screened[index].label in fresh]
        return tuple(
            _believed(self._screened[index].label, found, index, 1 + ended[self._screened[index].label])
            for index in sorted(numbers, key=lambda index: -found.means[index])
        )

    def _again(self) -> list[RunRecord]:
        return [run for run in self._later() if run.label in self._indices]

    def _found(self, again: Sequence[RunRecord]) -> Posterior:
        """The posterior from these runs; a running one counts with its expected mean (Ginsbourger et al. 2010)."""
        found = self._posterior(again, [])
        pending = [self._indices[run.label] for run in again if run.outcome is None]
        return self._posterior(again, [(index, found.means[index]) for index in pending]) if pending else found

    def _posterior(self, again: Sequence[RunRecord], expected: Sequence[tuple[int, float]]) -> Posterior:
        later = list(filter(None, map(self._scoring, again)))
        told = [*moved_up(self._scores, {one.label for one in later}), *later]
        owners = [*(self._indices[one.label] for one in told), *(index for index, _ in expected)]
        values = [*(one.value for one in told), *(value for _, value in expected)]
        variances = [*(one.variance for one in told), *(0.0 for _ in expected)]
        return posterior(Observations(self._places, np.array(owners), np.array(values), np.array(variances)))


def considered(places: FloatArray, scores: Sequence[float]) -> list[int]:
    """The configurations that a model looks at, by index: of very many the best, and what lies nearest to these.

    The best alone would all be lucky. Those beside them, whatever they scored, show how much of it was luck.

    Args:
        places: [C, D].
        scores: [C].
    """
    best = sorted(range(len(scores)), key=lambda index: (-scores[index], index))[:MOST_BEST]
    kept = set(best)
    rest = [index for index in range(len(scores)) if index not in kept]
    if rest:
        squared = ((places[rest][:, None] - places[best][None]) ** 2).sum(axis=-1).min(axis=-1)
        kept |= {rest[index] for index in np.argsort(squared, kind="stable")[:MOST_BEST]}
    return sorted(kept)


def _believed(label: str, found: Posterior, index: int, num_runs: int) -> Believed:
    """One of them in numbers. How noisy it is, is known from its own runs: hence Student's t, by their number."""
    mean, half = float(found.means[index]), student_t(0.95, num_runs) * float(found.deviations[index])
    return Believed(label, mean, mean - half, mean + half, num_runs)
