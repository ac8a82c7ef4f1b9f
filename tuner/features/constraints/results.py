"""Constraints in the results of a study."""

from collections.abc import Iterator
from functools import partial

from tuner.features.constraints.facts import CONSTRAINTS
from tuner.features.constraints.feasibility import Feasibility, describe_counts, standing, value_of
from tuner.features.constraints.inequalities import Constraint, is_of_curve, parse_constraints
from tuner.results.features import InResults, RunColumn, ShownIn, chosen
from tuner.results.findings import Finding, Verdict
from tuner.results.metric import SECONDS
from tuner.results.number_format import format_number, join_words
from tuner.results.protocol import StudySettings
from tuner.results.records import CONFIRM, RACE, SCREEN, TEST, RunRecord, Scalar, StudySummary


def _kept(settings: StudySettings) -> Iterator[str]:
    names = (one.name for one in parse_constraints(settings.constraints))
    return (name for name in names if name != SECONDS and not is_of_curve(name))


def _of(summary: StudySummary) -> tuple[Constraint, ...]:
    return parse_constraints(CONSTRAINTS.of(summary))


def _columns(summary: StudySummary) -> Iterator[RunColumn]:
    """Columns for the constrained values that no other column holds, and for whether a run holds all constraints."""
    constraints = _of(summary)
    if not constraints:
        return
    own = Feasibility(constraints)
    others = {
        one.name: one for one in constraints if one.name not in (SECONDS, *(other.name for other in summary.others))
    }
    for name, one in others.items():
        is_there = any(name in run.scores for run in summary.runs)
        shown_in = ~ShownIn.FILE if is_there else ~ShownIn(0)
        yield RunColumn(name, partial(value_of, one), shown_in)
    yield RunColumn("feasible", partial(_feasible, own))


def _feasible(own: Feasibility, run: RunRecord) -> Scalar:
    if not run.complete:
        return None
    violated = own.violated([run])
    return f"no: {join_words(violated)}" if violated else "yes"


def _verdict(summary: StudySummary) -> Verdict | None:
    """That no configuration is feasible, where none is by the latest stage of those that choose."""
    own = Feasibility(_of(summary))
    if not own.constraints or summary.winner_label is not None:
        return None
    for stages in ((CONFIRM,), (RACE, SCREEN), (SCREEN,)):  # as far as it has come
        runs = [run for stage in stages for run in summary.stage(stage) if run.complete]
        first = {run.label: run for run in summary.stage(stages[0]) if run.complete}
        if first and all(own.violated([run for run in runs if run.label == label]) for label in first):
            return Verdict(Finding.NONE_FEASIBLE, f"{own.none_feasible([*first.values()], runs)}. Nothing is chosen.")
    return None


def _preface(summary: StudySummary) -> list[str]:
    """How many are feasible, and by how much what was chosen holds."""
    constraints = _of(summary)
    if not constraints:
        return []
    labels = chosen(summary).labels
    tests = [(label, said) for label in labels if (said := _tested(summary, label))]
    return [
        describe_counts(constraints, summary.stage(SCREEN)),
        *(f"On test seeds, {label}: {said}." for label, said in tests),
    ]


def _tested(summary: StudySummary, label: str) -> str:
    told = []
    for one in _of(summary):
        found = standing(one, summary.stage(TEST, label))
        if found is not None:
            value, holds = found
            told.append(f"{one.name} {value} against {one.comparison} {format_number(one.limit)}: {holds}")
    return "; ".join(told)


def _violated(summary: StudySummary, label: str) -> list[str]:
    """The constraints that a configuration violates on test seeds."""
    runs = [run for run in summary.stage(TEST, label) if run.complete]
    return Feasibility(_of(summary)).violated(runs) if runs else []


def _excludes(summary: StudySummary, label: str) -> bool:
    return bool(_violated(summary, label))


def _warnings(summary: StudySummary) -> list[str]:
    """Of what was chosen, the default configuration and known ones, what the test seeds show that they do not hold."""
    own = chosen(summary).labels
    others = {summary.default_label: "the default configuration", **{one: one for one in summary.baselines}}
    told = [_not_feasible(summary, label, "the winner" if len(own) == 1 else label) for label in own]
    told += [
        _not_feasible(summary, label, name, ", so it is no alternative")
        for label, name in others.items()
        if label not in own
    ]
    return [*filter(None, told)]


def _not_feasible(summary: StudySummary, label: str, name: str, meaning: str = "") -> str:
    violated = _violated(summary, label)
    return f"On test seeds {name} is not feasible ({join_words(violated)}){meaning}." if violated else ""


PART = InResults(
    facts=(CONSTRAINTS,),
    kept_metrics=_kept,
    columns=_columns,
    verdict=_verdict,
    preface=_preface,
    warnings=_warnings,
    excludes=_excludes,
)
