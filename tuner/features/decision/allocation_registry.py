"""The runs behind screening, handed out one by one to the configurations about which the choice is least sure."""

from collections import Counter
from collections.abc import Callable

import optuna

from tuner.features.decision.facts import RUNS_BEFORE, RUNS_BY_BUDGET
from tuner.features.decision.quota import Quota
from tuner.results.protocol import stage_seeds
from tuner.results.records import CONFIRM
from tuner.study.definition import Candidate, StudyDefinition
from tuner.study.run_registry import Run, SeedRegistry

Choose = Callable[[bool], Candidate]
"""From whether it may be the last run, to the configuration that is to run once more, by all runs so far."""


class AllocationRegistry(SeedRegistry):
    """Runs of a few configurations, each on as many seeds as the choice needs.

    A configuration has its k-th run on the k-th seed of confirmation, so that any two have seeds in common.

    Args:
        study: Optuna's, of the stage.
        definition: The study.
        quota: How many there are.
        choose: Says whose run is the next.
    """

    def __init__(self, study: optuna.Study, definition: StudyDefinition, quota: Quota, choose: Choose) -> None:
        super().__init__(study, CONFIRM, definition, [], [])
        self._quota, self._choose = quota, choose

    @property
    def total(self) -> int:
        """Runs there will be, as far as that is known."""
        return max(self._quota.num_runs, self._total)

    def next_run(self) -> Run | None:
        """Enters one more run, if there is one."""
        number = len(self.study.get_trials(deepcopy=False)) + 1
        if not self._waiting and self._quota.allows(number):
            candidate = self._choose(self._quota.may_end_with(number))
            had = Counter(run.label for run in self.records())[candidate.label]
            taken = {run.seed for run in self.records() if run.label == candidate.label}
            seeds = stage_seeds(self._definition.seed, CONFIRM, had + 1)
            self._wanted = {(candidate.number, next(seed for seed in seeds if seed not in taken)): candidate}
        return super().next_run()


def runs_before(study: optuna.Study, num_screened: int, num_by_budget: int) -> tuple[int, int]:
    """How many runs the stage had when this number was first reached, and how many the budget gave then.

    Where more were screened since runs were handed out, the runs so far tell little of these. Only the budget at the
    first time counts, so that a study that has ended stays so under another one.

    Args:
        study: Optuna's, of the stage.
        num_screened: Configurations there are to choose from.
        num_by_budget: Runs in all that the budget gives now.
    """
    before, by_budget = (
        dict(fact.read(study.user_attrs.get(fact.key_kept, {}))) for fact in (RUNS_BEFORE, RUNS_BY_BUDGET)
    )
    if (key := str(num_screened)) not in before:
        by_budget[key] = num_by_budget
        study.set_user_attr(RUNS_BY_BUDGET.key_kept, by_budget)
        before[key] = len(study.get_trials(deepcopy=False))
        study.set_user_attr(RUNS_BEFORE.key_kept, before)
    return before[key], by_budget.get(key, 0)
