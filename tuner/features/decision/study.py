"""How the winner of a study is chosen by more than the scores of confirmation."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import optuna

from tuner.features.decision.allocation_registry import AllocationRegistry, runs_before
from tuner.features.decision.decision_rules import CONFIRMED, MOST_BY_BUDGET, ByAllRuns, ByModel
from tuner.features.decision.facts import BELIEVED, DECISION
from tuner.features.decision.model import StudyModel
from tuner.features.decision.quota import Quota
from tuner.results.insights.effort import used_share
from tuner.results.records import CONFIRM, TEST, RunRecord
from tuner.results.selection import WinnerSelection, choose_winner
from tuner.study.definition import Candidate, StudyDefinition
from tuner.study.dispatch import Stage
from tuner.study.features import Bench, InStudy, Probe
from tuner.study.storage.store import NUM_SHARED, SETTINGS
from tuner.trial.messages import JsonDict

_KEY = DECISION.key_kept
"""In what the storage keeps as the definition, where another than confirmation decides."""


@dataclass(frozen=True)
class AllRunsSelection(WinnerSelection):
    """The candidate with the best score over all its runs."""

    def chosen(
        self, confirmed: Sequence[RunRecord], candidates: Sequence[RunRecord], raced: Sequence[RunRecord] = ()
    ) -> tuple[RunRecord, ...]:
        """The winner, if a candidate has come to its end on a fresh seed."""
        fresh = {run.label for run in confirmed if run.complete}
        winner = choose_winner(
            [*candidates, *raced, *confirmed], [one for one in candidates if one.label in fresh], self.over_seeds
        )
        return () if winner is None else (winner,)


def _prepare(definition: StudyDefinition, study: optuna.Study, probe: Probe) -> None:
    """Keeps what chooses the winner, for those who tell of it."""
    del probe
    if definition.decision is not None:
        study.set_user_attr(DECISION.key_kept, definition.decision.name)


def _described(definition: StudyDefinition) -> dict[str, str]:
    return {} if definition.decision is None else {_KEY: definition.decision.name}


def _changed(*definitions: JsonDict) -> list[str]:
    before, now = (one.get(_KEY, CONFIRMED) for one in definitions)
    return [] if before == now else [f"{_KEY} was {before} and is {now}"]


def _selection(definition: StudyDefinition) -> AllRunsSelection | None:
    by_all = isinstance(definition.decision, ByAllRuns)
    return AllRunsSelection(definition.settings.over_seeds) if by_all else None


def _decide(bench: Bench, screened: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs those of which the model needs to know more, and takes the highest posterior mean."""
    definition, study = bench.definition, bench.study
    if not isinstance(definition.decision, ByModel):
        return []
    drawn = {trial.number: trial.params for trial in study.get_trials(deepcopy=False)}
    config, space = definition.config, definition.space

    def later() -> list[RunRecord]:
        return [run for run in bench.later() if run.stage != TEST]

    model = StudyModel(definition, screened, drawn, later)

    def choose(is_last: bool) -> Candidate:
        run = model.next_run(is_last=is_last)
        return Candidate.of(run, space.values(drawn[run.number], config))

    stage = bench.open_stage(CONFIRM)
    registry = AllocationRegistry(stage, definition, _quota(bench, stage, screened), choose)
    _keep_number(study, registry.total)  # known only now
    bench.listener.on_stage(CONFIRM, registry.total, registry.records())
    bench.run_stage(Stage(bench.in_parts(registry)))
    known = model.chosen()
    if not known:
        raise bench.nothing_confirmed()
    study.set_user_attr(BELIEVED.key_kept, [asdict(one) for one in known])
    return [run for run in screened if run.label == known[0].label]


def _quota(bench: Bench, stage: optuna.Study, screened: Sequence[RunRecord]) -> Quota:
    """As many runs as without a budget, and more: by a budget of steps as many as it gives, by one of time what fits.

    Screening sets time aside by the runs of the best. Those that the model then selects may take longer, or less.
    """
    definition, settings = bench.definition, bench.definition.settings
    num_anew, num_by_budget = (
        sum(plan.num_runs for plan in definition.plan(num_screened) if plan.stage == CONFIRM)
        for num_screened in (0.0, sum(map(used_share, screened)))
    )
    before, by_budget = runs_before(stage, len(screened), num_by_budget)
    by_time = settings.budget_s is not None
    least = before + num_anew if by_time else max(before + num_anew, by_budget)
    is_open = by_time and settings.max_env_steps is None and bench.is_closed()
    most = MOST_BY_BUDGET if is_open else by_budget

    def fits() -> bool:
        later = [*bench.later()]
        return all(run.stage != TEST for run in later) and bench.fits([*screened, *later])

    def changed(num_runs: int) -> None:
        _keep_number(bench.study, num_runs)
        bench.listener.on_stage(CONFIRM, num_runs, ())

    return Quota(least, by_budget, most, fits, changed)


def _keep_number(study: optuna.Study, num_runs: int) -> None:
    """Writes down how many runs behind screening there are."""
    sizes = study.user_attrs[SETTINGS]
    if sizes[NUM_SHARED] != num_runs:
        study.set_user_attr(SETTINGS, {**sizes, NUM_SHARED: num_runs})


PART = InStudy(
    prepare=_prepare,
    described=_described,
    changed=_changed,
    selection=_selection,
    decide=_decide,
    undecided={BELIEVED.key_kept: []},
)
