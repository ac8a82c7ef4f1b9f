"""Interactions on the report page."""

from tuner.features.interactions.facts import INTERACTIONS, Interactions
from tuner.features.interactions.figures import interactions_figure
from tuner.reporting.elements import figure, reason, section
from tuner.reporting.features import InReporting
from tuner.reporting.markup import Html
from tuner.results.findings import Verdict
from tuner.results.number_format import join_words
from tuner.results.records import StudySummary
from tuner.trial.messages import JsonDict


def _figures(summary: StudySummary) -> dict[str, JsonDict]:
    found = INTERACTIONS.of(summary)
    return {} if found is None else {"interactions-figure": interactions_figure(found)}


def _sections(summary: StudySummary, found: Verdict) -> list[Html]:
    del found
    return [_section(summary)]


def _section(summary: StudySummary) -> Html:
    """Which parameters act together, where there are enough trials to say."""
    title = "Which parameters act together"
    found = INTERACTIONS.of(summary)
    if found is None:
        missing = (
            "The study has not worked out what pairs of parameters do together: that takes two parameters that every "
            f"trial has, {Interactions.MIN_TRIALS} trials with a score, and SALib and scikit-learn (extra report)."
        )
        return section("interactions", title, reason(missing))
    words = (
        "How two parameters together change the order of trials beyond the effect of each alone, as a share of all "
        "differences (functional ANOVA of a Gaussian process, second order). The mark is what the largest of "
        f"all pairs reaches by chance in one study of twenty: {_together(found)}"
    )
    return section("interactions", title, figure("interactions-figure", words))


def _together(found: Interactions) -> str:
    if not found.found:
        return (
            f"no pair is above it with {Interactions.LEAST_SHARE:.0%} or more, so parameters may be looked at one by "
            "one, as far as these trials can tell."
        )
    pairs = join_words(f"{first} with {second} ({share:.0%})" for first, second, share in found.found)
    verb = "is" if len(found.found) == 1 else "are"
    return f"above it {verb} {pairs}. What is good for one depends on the other: move them together."


PART = InReporting(figures=_figures, parameter_sections=_sections)
