"""The runs behind screening, handed out one by one to the configurations about which the choice is least sure."""

from collections import Counter
from collections.abc import Callable

import optuna

from tuner.features.decision.facts import RUNS_BEFORE, RUNS_BY_BUDGET
from tuner.results.protocol import stage_seeds
from tuner.results.records import CONFIRM
from tuner.study.definition import Candidate, StudyDefinition
from tuner.study.run_registry import Run, SeedRegistry

Choose = Callable[[bool], Candidate]
"""From whether it is the last run, to the configuration that is to run once more, by all runs so far."""

OneMore = Callable[[int], bool]
"""From how many runs there would be, to whether a budget leaves time for that."""


class AllocationRegistry(SeedRegistry):
    """Runs of a few configurations, each on as many seeds as the choice needs.

    A configuration has its k-th run on the k-th seed of confirmation, so that any two have seeds in common.

    Args:
        study: Optuna's, of the stage.
        definition: The study.
        num_runs: How many there are to be in all, at least.
        choose: Says whose run is the next.
        one_more: Says whether another follows these.
    """

    def __init__(
        self, study: optuna.Study, definition: StudyDefinition, num_runs: int, choose: Choose, one_more: OneMore
    ) -> None:
        super().__init__(study, CONFIRM, definition, [], [])
        self._total = max(num_runs, self._total)
        self._choose, self._one_more = choose, one_more

    def next_run(self) -> Run | None:
        """Enters one more run, up to the number there are to be, and then as long as another fits."""
        left = self._total - len(self.study.get_trials(deepcopy=False))
        if not self._waiting and left <= 0 and self._one_more(self._total + 1):
            self._total += 1
            left = 1
        if not self._waiting and left > 0:
            candidate = self._choose(left == 1)
            had = Counter(run.label for run in self.records())[candidate.label]
            taken = {run.seed for run in self.records() if run.label == candidate.label}
            seeds = stage_seeds(self._definition.seed, CONFIRM, had + 1)
            self._wanted = {(candidate.number, next(seed for seed in seeds if seed not in taken)): candidate}
        return super().next_run()


def runs_in_all(study: optuna.Study, num_screened: int, num_anew: int, num_by_budget: int) -> int:
    """How many runs the stage is to have, those handed out before included.

    Args:
        study: Optuna's, of the stage.
        num_screened: Configurations there are to choose from. Where more were screened since runs were handed out,
            the runs so far tell little of these.
        num_anew: Runs that follow each time.
        num_by_budget: Runs in all that the budget gives. Only the budget at the first time counts.
    """
    before, by_budget = (
        dict(fact.read(study.user_attrs.get(fact.key_kept, {}))) for fact in (RUNS_BEFORE, RUNS_BY_BUDGET)
    )
    if (key := str(num_screened)) not in before:
        by_budget[key] = num_by_budget
        study.set_user_attr(RUNS_BY_BUDGET.key_kept, by_budget)
        before[key] = len(study.get_trials(deepcopy=False))
        study.set_user_attr(RUNS_BEFORE.key_kept, before)
    return max(before[key] + num_anew, by_budget.get(key, 0))
