"""A population in the results of a study."""

from collections.abc import Iterator
from functools import partial

from tuner.features.population.evolution import Evolution
from tuner.features.population.facts import EVOLVE, STATIC
from tuner.results.features import InResults, RunColumn, ShownIn
from tuner.results.findings import Estimate, estimate
from tuner.results.insights.differences import difference_of, scores_of
from tuner.results.number_format import describe_params, format_number, format_signed
from tuner.results.records import DESCENT, TEST, RunRecord, Scalar, StudySummary
from tuner.trial.messages import JsonDict


def _search(settings: JsonDict) -> Evolution:
    return Evolution(**settings)


def _columns(summary: StudySummary) -> Iterator[RunColumn]:
    names = DESCENT if any(run.descent for run in summary.runs) else ()
    return (RunColumn(name, partial(_place, name), ShownIn.FILE | ShownIn.PAGE, says_which=True) for name in names)


def _place(name: str, run: RunRecord) -> Scalar:
    found: Scalar = getattr(run.descent, name, None)
    return found


def _special(summary: StudySummary) -> str:
    words = "of a population: its winner is a schedule, whose values change while it trains"
    return words if summary.stage(EVOLVE) else ""


def _experiments(summary: StudySummary) -> dict[str, str]:
    label = STATIC.of(summary)
    return {} if label is None else {"static": label}


def sentences(summary: StudySummary) -> tuple[str, ...]:
    """Scores of the population beside the replay of its history, and of a schedule against no schedule."""
    static_label, scores = STATIC.of(summary), scores_of(summary, TEST, summary.winner_label)
    own = [run.score for run in summary.stage(EVOLVE, summary.winner_label) if run.score is not None]
    if not own or static_label is None:
        return ()
    replayed = estimate([*scores.values()])
    details = [
        f"Selection optimism {format_signed(own[0] - replayed.iqm)}: score in the population "
        f"{format_number(own[0])}, score of its schedule from scratch on test seeds {replayed}."
    ]
    static_scores = scores_of(summary, TEST, static_label)
    if static_scores:
        static, what = (
            estimate([*static_scores.values()]),
            describe_params(summary.params_of(static_label), summary.weights),
        )
        details.append(
            f"The best constant configuration is {static_label} ({what}), chosen by its scores while members kept it "
            f"unchanged, and confirmed like the schedules. Its test score is {static}: "
            f"{_against_static(difference_of(scores, static_scores))}"
        )
    return tuple(details)


def _against_static(difference: Estimate) -> str:
    """The gain of a schedule over the best configuration without one, and which of the two to train."""
    amount = difference.signed
    if difference.is_above_zero:
        return f"the schedule is better, by {amount}."
    if difference.is_below_zero:
        return f"the schedule is WORSE, by {amount}. Train with experiment=static instead of the schedule."
    return f"the schedule differs from it by {amount}, which may be chance. The constant one is experiment=static."


PART = InResults(
    search=_search,
    facts=(STATIC,),
    first_stages=(EVOLVE,),
    sizes={"members": "members", "generations": "generations"},
    columns=_columns,
    sentences=sentences,
    special=_special,
    experiments=_experiments,
)
