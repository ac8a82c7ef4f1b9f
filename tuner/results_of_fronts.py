"""The verdict on several objectives: a set of configurations, each of which is the best for somebody."""

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.insights.failures import failed_tests
from tuner.insights.front import as_losses, is_beaten
from tuner.records import CONFIRM, SCREEN, TEST, Objective, RunRecord, StudySummary
from tuner.verdicts import Estimate, Finding, Verdict, estimate
from tuner.wording import describe_params, format_number, join_words

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
    stage = next((stage for stage in (TEST, CONFIRM) if summary.stage(stage)), SCREEN)
    labels = [*summary.front, *([summary.default_label] if summary.stage(TEST, summary.default_label) else [])]
    rows = {label: row for label in labels if (row := _row(summary, summary.stage(stage, label)))}
    losses = {label: _losses(summary, row) for label, row in rows.items()}
    ordered = sorted(rows, key=lambda label: (label not in summary.front, losses[label]))
    return tuple(
        FrontMember(label, rows[label], losses[label], is_beaten(losses[label], losses.values())) for label in ordered
    )


def front_verdict(summary: StudySummary) -> Verdict:
    """Judge a study or sweep of several objectives."""
    names = join_words(
        f"{objective.name} ({'higher' if objective.maximised else 'lower'} is better)"
        for objective in objectives_of(summary)
    )
    members = front_members(summary)
    own = [member for member in members if member.label in summary.front]
    complete = sum(run.complete for run in summary.stage(SCREEN))
    if not own:
        return Verdict(
            Finding.NOT_TESTED,
            f"{complete} trials have finished; which of them no other beats in {names} is not decided yet.",
        )
    verb = "one configuration is" if len(own) == 1 else f"{len(own)} configurations are"
    listed = "; ".join(_described(summary, member) for member in own[:_LISTED])
    rest = f"; and {len(own) - _LISTED} more" if len(own) > _LISTED else ""
    sentence = f"Of {complete} complete trials {verb} beaten by no other in {names}: {listed}{rest}."
    return Verdict(Finding.FRONT, f"{sentence} {_about_default(summary, members)}".strip(), _details(summary, own))


def _row(summary: StudySummary, runs: Sequence[RunRecord]) -> Row:
    known = [values for run in runs if (values := run.objectives(summary.others)) is not None]
    return tuple(estimate(column) for column in zip(*known, strict=True))


def _losses(summary: StudySummary, row: Row) -> tuple[float, ...]:
    return as_losses([value.iqm for value in row], [objective.maximised for objective in objectives_of(summary)])


def _described(summary: StudySummary, member: FrontMember) -> str:
    values = ", ".join(
        f"{objective.name} {format_number(value.iqm)}"
        for objective, value in zip(objectives_of(summary), member.values, strict=True)
    )
    params = describe_params(summary.params_of(member.label), summary.importances, limit=2)
    return f"{member.label} with {values}{f' ({params})' if params else ''}"


def _about_default(summary: StudySummary, members: Sequence[FrontMember]) -> str:
    default = next((member for member in members if member.label == summary.default_label), None)
    if default is None or summary.default_label in summary.front:
        return ""
    values = _described(summary, default)
    if not default.beaten:
        return f"The default configuration is not beaten in all of them either: {values}."
    better = [
        member.label
        for member in members
        if all(a <= b for a, b in zip(member.losses, default.losses, strict=True)) and member.losses != default.losses
    ]
    return f"In all of them at once {join_words(better)} {'beats' if len(better) == 1 else 'beat'} {values}."


def _details(summary: StudySummary, own: Sequence[FrontMember]) -> tuple[str, ...]:
    details = []
    if summary.is_sweep:
        details.append("Each job ran once: values chosen as the best of many are too good.")
    elif summary.stage(TEST):
        details.append("All values are interquartile means on test seeds that nothing was chosen by.")
        lost = [member.label for member in own if member.beaten]
        if lost:
            details.append(f"On these seeds {join_words(lost)} turned out to be beaten after all.")
    else:
        details.append("There is no finished test stage yet: these values are too good, being the best of many.")
    return (*details, *failed_tests(summary))
