"""The verdict on several objectives: a set of configurations, each of which is the best for somebody."""

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.features.objectives.facts import FRONT
from tuner.features.objectives.pareto_front import as_losses, front_of, is_beaten
from tuner.results.features import is_excluded, warnings_of_features
from tuner.results.findings import Estimate, Finding, Verdict, estimate
from tuner.results.insights.failures import failed_tests
from tuner.results.missing_runs import missing_tests, unfinished_tests
from tuner.results.number_format import counted, describe_params, join_words
from tuner.results.records import CONFIRM, SCREEN, TEST, Objective, RunRecord, StudySummary

_LISTED = 4
Row = tuple[Estimate, ...]
"""One estimate for each objective."""


@dataclass(frozen=True)
class FrontMember:
    """A configuration of the front, or the default one.

    Attributes:
        label: of the configuration.
        values: of each objective, over the runs of its latest stage.
        losses: their middles, turned so that lower is better.
        beaten: whether another member, or the default, is better in all of them on these runs.
    """

    label: str
    values: Row
    losses: tuple[float, ...]
    beaten: bool


def objectives_of(summary: StudySummary) -> tuple[Objective, ...]:
    """All objectives, the metric first."""
    return (Objective("score", summary.metric_name, summary.maximised), *summary.others)


def front_members(summary: StudySummary) -> tuple[FrontMember, ...]:
    """The front by the first objective, best first, and the default configuration behind it where it was tested."""
    stage = _latest(summary)
    default = [summary.default_label] if stage == TEST and summary.stage(TEST, summary.default_label) else []
    labels = [*FRONT.of(summary), *default]
    rows = {label: row for label in labels if (row := _row(summary, summary.stage(stage, label)))}
    losses = {label: _losses(summary, row) for label, row in rows.items()}
    rivals = [losses[label] for label in rows if not is_excluded(summary, label)]
    ordered = sorted(rows, key=lambda label: (label not in FRONT.of(summary), losses[label]))
    return tuple(FrontMember(label, rows[label], losses[label], is_beaten(losses[label], rivals)) for label in ordered)


def front_verdict(summary: StudySummary) -> Verdict:
    """Judges a study or sweep of several objectives."""
    members = front_members(summary)
    own = [member for member in members if member.label in FRONT.of(summary)]
    complete = sum(run.complete for run in summary.stage(SCREEN))
    if not own:
        return Verdict(
            Finding.NOT_TESTED,
            f"{complete} trials have finished; the front (best in {_named(summary)}) is not decided yet.",
        )
    unbeaten = [member for member in own if not member.beaten]
    listed = "; ".join(_described(summary, member) for member in unbeaten[:_LISTED])
    rest = f"; and {len(unbeaten) - _LISTED} more" if len(unbeaten) > _LISTED else ""
    sentence = f"{_how_many(summary, complete, len(unbeaten))}{': ' if listed else ''}{listed}{rest}."
    sentences = filter(None, (sentence, _about_default(summary, members), *warnings_of_features(summary)))
    return Verdict(Finding.FRONT, " ".join(sentences), _details(summary, own))


def _latest(summary: StudySummary) -> str:
    """The stage that the front is judged by: the last one that has finished."""
    begun = [stage for stage in (TEST, CONFIRM) if summary.stage(stage)]
    if TEST in begun and missing_tests(summary, FRONT.of(summary)):
        begun.remove(TEST)
    return next(iter(begun), SCREEN)


def _named(summary: StudySummary) -> str:
    return join_words(
        f"{objective.name} ({'higher' if objective.maximised else 'lower'} is better)"
        for objective in objectives_of(summary)
    )


def _how_many(summary: StudySummary, complete: int, num_unbeaten: int) -> str:
    """How the front came about, stage by stage; those that were not confirmed may be no worse than those that were."""
    if summary.is_sweep:
        verb = "configuration is" if num_unbeaten == 1 else "configurations are"
        return f"Of {complete} complete trials {num_unbeaten} {verb} beaten by no other in {_named(summary)}"
    screened = len(screen_front(summary))
    sentence = (
        f"{screened} of {counted(complete, 'complete trial')} {'was' if screened == 1 else 'were'} unbeaten in "
        f"{_named(summary)} in screening"
    )
    confirmed = len({run.label for run in summary.stage(CONFIRM)})
    if confirmed:
        chosen = f"{confirmed} of them, spread over the front," if confirmed < screened else f"the best {confirmed}"
        sentence += f"; {chosen} {'was' if confirmed == 1 else 'were'} confirmed"
    seeds = {TEST: "on test seeds", CONFIRM: "on their seeds"}.get(_latest(summary), "of these")
    return f"{sentence}; {seeds} {num_unbeaten or 'none'} {'are' if num_unbeaten > 1 else 'is'} unbeaten"


def screen_front(summary: StudySummary) -> list[str]:
    """Labels of the screening trials that no other one beats."""
    rows = {run.label: _row(summary, [run]) for run in summary.stage(SCREEN) if run.complete and run.feasible}
    return front_of({label: _losses(summary, row) for label, row in rows.items() if row})


def _row(summary: StudySummary, runs: Sequence[RunRecord]) -> Row:
    known = [values for run in runs if (values := run.objectives(summary.others)) is not None]
    return tuple(estimate(column) for column in zip(*known, strict=True))


def _losses(summary: StudySummary, row: Row) -> tuple[float, ...]:
    return as_losses([value.iqm for value in row], [objective.maximised for objective in objectives_of(summary)])


def _described(summary: StudySummary, member: FrontMember) -> str:
    values = ", ".join(
        f"{objective.name} {value.mean}" for objective, value in zip(objectives_of(summary), member.values, strict=True)
    )
    params = describe_params(summary.params_of(member.label), summary.weights, limit=2)
    return f"{member.label} with {values}{f' ({params})' if params else ''}"


def _about_default(summary: StudySummary, members: Sequence[FrontMember]) -> str:
    default = next((member for member in members if member.label == summary.default_label), None)
    if default is None:
        return ""
    if FRONT.of(summary) == (summary.default_label,):
        return f"{default.label.capitalize()} is the default configuration, and no other one is of the front."
    if summary.default_label in FRONT.of(summary):
        of_it = ", which was of the front," if default.beaten else ", one of the front,"
        return f"{default.label.capitalize()}{of_it} is the default configuration."
    values = _described(summary, default)
    if not default.beaten:
        either = " either" if any(not member.beaten for member in members if member is not default) else ""
        return f"The default configuration is not beaten{either}: {values}."
    better = [
        member.label
        for member in members
        if all(a <= b for a, b in zip(member.losses, default.losses, strict=True)) and member.losses != default.losses
    ]
    return f"In all objectives together {join_words(better)} {'beats' if len(better) == 1 else 'beat'} {values}."


def _details(summary: StudySummary, own: Sequence[FrontMember]) -> tuple[str, ...]:
    details = []
    if summary.is_sweep:
        details.append("Each job ran once, and the best of many values are usually too good.")
    elif _latest(summary) == TEST:
        details.append("All values are interquartile means on held-out test seeds.")
        lost = [member.label for member in own if member.beaten]
        if lost:
            details.append(f"On these seeds {join_words(lost)} turned out to be beaten after all.")
    else:
        state = unfinished_tests(summary, FRONT.of(summary)) or "There is no finished test stage yet"
        details.append(f"{state}. These values are usually too good, as the best of many.")
    return (*details, *failed_tests(summary))
