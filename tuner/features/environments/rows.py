"""A study of several environments, environment by environment: what its one configuration is worth in each."""

from dataclasses import dataclass

from tuner.features.environments.facts import ENVIRONMENTS, OWN_WINNERS, OwnWinner
from tuner.results.findings import Estimate, estimate
from tuner.results.insights.differences import difference_of
from tuner.results.number_format import counted, format_number, join_words
from tuner.results.records import TEST, StudySummary


@dataclass(frozen=True)
class InEnvironment:
    """Scores on the test seeds in one environment, as the returns that they stand for by the study's metric.

    Attributes:
        name: Of the environment.
        default: Of the default configuration; None: it has none here.
        winner: Of the winner.
        difference: Winner minus default, in pairs over seeds where both ran on the same.
        own: Of the winner of a study of this environment alone.
        own_study: Which study that is; empty: there is none.
    """

    name: str
    default: Estimate | None = None
    winner: Estimate | None = None
    difference: Estimate | None = None
    own: Estimate | None = None
    own_study: str = ""


def by_environment(summary: StudySummary) -> tuple[InEnvironment, ...]:
    """A row for each environment of the study, as far as there are test runs; none of a study of one environment."""
    return tuple(_row(summary, name) for name in ENVIRONMENTS.of(summary))


def scale_sentences(summary: StudySummary) -> tuple[str, ...]:
    """The scale of the scores of a study of several environments; empty for one environment, which has returns."""
    listed = [
        f"{name} {format_number(scale.random)} to {format_number(scale.good)}"
        for name, scale in ENVIRONMENTS.of(summary).items()
    ]
    return (f"Score 0 is the return of a random policy, score 1 that of a good one: {', '.join(listed)}.",) * bool(
        listed
    )


def warnings(summary: StudySummary) -> tuple[str, ...]:
    """Where the winner is no better than random actions, whatever its mean over environments is."""
    return tuple(
        f"In {row.name} {_who_fails(summary, row)}."
        for row in by_environment(summary)
        if row.winner is not None and _is_useless(summary, row.name, row.winner)
    )


def _is_useless(summary: StudySummary, name: str, found: Estimate) -> bool:
    return ENVIRONMENTS.of(summary)[name].score(found.iqm) <= 0.0


def _who_fails(summary: StudySummary, row: InEnvironment) -> str:
    """The winner, and the default configuration if it does not learn there either."""
    assert row.winner is not None
    scale = ENVIRONMENTS.of(summary)[row.name]
    fails = f"does not beat a random policy (score {format_number(scale.score(row.winner.iqm))})"
    if summary.winner_label == summary.default_label:
        return f"the default configuration {fails}"
    if row.default is None or not _is_useless(summary, row.name, row.default):
        return f"the winner {fails}"
    other = f"neither does the default configuration ({format_number(scale.score(row.default.iqm))})"
    return f"the winner {fails}, and {other}"


def sentences(summary: StudySummary) -> tuple[str, ...]:
    """Where the winner is not what its mean over environments promises."""
    rows = by_environment(summary)
    worse = [row for row in rows if row.difference is not None and row.difference.is_below_zero]
    told = [
        f"In {row.name} the default configuration is better (difference {row.difference.signed})."
        for row in worse
        if row.difference is not None
    ]
    behind = [f"{row.name}: {format_number(row.own.iqm)}, study {row.own_study}" for row in rows if row.own is not None]
    if behind:
        told.append(f"Winners of studies of one environment, with the same number of steps: {join_words(behind)}.")
    return tuple(told)


def interval_note(summary: StudySummary) -> str:
    """The meaning of the numbers of single environments, and of the interval over all of them."""
    count = counted(len(ENVIRONMENTS.of(summary)), "environment")
    return (
        "By the study's metric, in returns: interquartile means over test seeds with 95 % intervals. The score of the "
        f"study is the mean over its {count}, each of which counts alike; its interval is over seeds, each with a run "
        "in every environment."
    )


def _row(summary: StudySummary, name: str) -> InEnvironment:
    winner, default = (_returns(summary, name, label) for label in (summary.winner_label, summary.default_label))
    own = OWN_WINNERS.of(summary).get(name)
    is_compared = winner and default and summary.winner_label != summary.default_label
    return InEnvironment(
        name,
        estimate([*default.values()]) if default else None,
        estimate([*winner.values()]) if winner else None,
        difference_of(winner, default) if is_compared else None,
        estimate(_values(own)) if own is not None and own.scores else None,
        own.study if own is not None else "",
    )


def _values(own: OwnWinner) -> list[float]:
    return [score for _, score in own.scores]


def _returns(summary: StudySummary, name: str, label: str | None) -> dict[int, float]:
    """By seed, the returns that the scores of a configuration in one environment stand for."""
    scale = ENVIRONMENTS.of(summary)[name]
    parts = [part for run in summary.stage(TEST, label) for part in run.parts if label and part.environment == name]
    return {part.seed: scale.value(part.score) for part in parts if part.score is not None}
