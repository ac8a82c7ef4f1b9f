"""The section about several objectives: what one costs in terms of the other."""

from tuner.features.objectives.facts import FRONT
from tuner.features.objectives.front_verdict import front_members, objectives_of
from tuner.reporting.elements import figure, number_cell, reason, section, table, text_cell
from tuner.reporting.markup import Html, tag
from tuner.results.records import StudySummary
from tuner.results.run_labels import shown_label


def front_section(summary: StudySummary) -> Html:
    """The front as a figure and as a table; the default configuration beside it."""
    title = "What one objective costs in another"
    members = front_members(summary)
    if not members:
        return section("front", title, reason("No configuration has a value of every objective yet."))
    heads = ["configuration", *(objective.name for objective in objectives_of(summary)), "seeds", "beaten"]
    titles = {objective.name: objective.label for objective in objectives_of(summary)}
    rows = [
        tag(
            "tr",
            text_cell(shown_label(summary, member.label)),
            *(number_cell(value.iqm, str(value).partition(" (")[0]) for value in member.values),
            number_cell(member.values[0].n, str(member.values[0].n)),
            text_cell("yes" if member.beaten else "no"),
            class_="winner" if member.label in FRONT.of(summary) else None,
        )
        for member in members
    ]
    words = "A gain in one objective costs some of the other, along the dotted line."
    return section("front", title, figure("front-figure", words), table("front-table", heads, rows, titles))
