"""The section about a population: the parents of its runs, the changes, and the gain of the schedule."""

from collections.abc import Container

from tuner.features.population.descent import changing, copies
from tuner.features.population.facts import EVOLVE
from tuner.reporting.elements import figure, reason, section
from tuner.reporting.markup import Html, join
from tuner.results.number_format import counted
from tuner.results.records import StudySummary


def value_name(number: int) -> str:
    """The place in the page of the figure of a parameter."""
    return f"value-figure-{number}"


def population_section(summary: StudySummary, drawings: Container[str]) -> Html:
    """The tree, each parameter over time, and the schedule against what never changed."""
    title = "The population"
    if "tree-figure" not in drawings:
        return section("population", title, reason("No run of the population has begun."))
    generations = 1 + max(run.descent.generation for run in summary.stage(EVOLVE) if run.descent is not None)
    words = (
        f"Each point is a run of one member over one generation ({counted(generations, 'generation')} so far); "
        f"{counted(len(copies(summary)), 'run')} began as copies of another member, and went on with other values."
    )
    parts = [figure("tree-figure", words)]
    parts += [
        figure(value_name(number), f"{path} over training, by the members and along the winner's line.")
        for number, path in enumerate(changing(summary))
        if value_name(number) in drawings
    ]
    if "replay-figure" in drawings:
        parts.append(figure("replay-figure", "From scratch on the test seeds; means over them."))
    return section("population", title, join(parts))
