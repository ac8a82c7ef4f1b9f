"""The figure of a front: what one objective costs in another."""

import html
from collections.abc import Sequence

from tuner.features.objectives.facts import FRONT
from tuner.features.objectives.front_verdict import FrontMember, front_members, objectives_of
from tuner.reporting.figures.style import DEFAULT, FAINT, TRIAL, WINNER, axis, run_markers
from tuner.results.records import SCREEN, StudySummary
from tuner.results.run_labels import shown_label
from tuner.trial.messages import JsonDict


def front_figure(summary: StudySummary) -> JsonDict | None:
    """The first two objectives against each other: all trials, the front and the default configuration."""
    if not summary.others:
        return None
    complete = [run for run in summary.stage(SCREEN) if run.complete]
    points = [(run, values) for run in complete if (values := run.objectives(summary.others)) is not None]
    if not points:
        return None
    first, second = objectives_of(summary)[:2]
    marker = {"color": TRIAL, "size": 8}
    trials = run_markers(
        summary,
        [run for run, _ in points],
        [values[1] for _, values in points],
        [values[0] for _, values in points],
        marker,
    )
    members = front_members(summary)
    front = [member for member in members if member.label in FRONT.of(summary)]
    stage = "" if summary.is_sweep else ", latest stage"
    groups = [
        (f"the front{stage}", [member for member in front if not member.beaten], WINNER, "lines+markers+text"),
        (f"beaten after all{stage}", [member for member in front if member.beaten], FAINT, "markers+text"),
        (
            f"default{stage}",
            [member for member in members if member.label not in FRONT.of(summary)],
            DEFAULT,
            "markers+text",
        ),
    ]
    says = f"%{{text}}: {html.escape(first.name)} %{{y:.5g}}, {html.escape(second.name)} %{{x:.5g}}<extra></extra>"
    data = [{"name": "trials", **trials}]
    for name, group, color, mode in groups:
        if group:
            data.append({"name": name, "mode": mode, "hovertemplate": says, **_members(summary, group, color)})
    axes = {"xaxis": axis(second.label), "yaxis": axis(first.label)}
    return {"data": data, "layout": {"height": 420, **axes}}


def _members(summary: StudySummary, members: Sequence[FrontMember], color: str) -> JsonDict:
    """Configurations by the middle of their first two objectives, in the order of the second, as a line needs them."""
    ordered = sorted(members, key=lambda member: member.values[1].iqm)
    return {
        "type": "scatter",
        "x": [member.values[1].iqm for member in ordered],
        "y": [member.values[0].iqm for member in ordered],
        "text": [html.escape(shown_label(summary, member.label)) for member in ordered],
        "textposition": "top center",
        "line": {"color": color, "width": 1, "dash": "dot"},
        "marker": {"color": color, "size": 12, "symbol": "diamond"},
    }
