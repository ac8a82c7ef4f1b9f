"""Sentences about the searched part of a search space."""

from tuner.features.coverage.facts import COVERAGE, Coverage
from tuner.results.number_format import counted, format_value, join_words
from tuner.results.records import StudySummary

_MOST_NAMED = 3


def sentences(summary: StudySummary) -> list[str]:
    """That the winner lies at an edge of its range, and that the search has looked at one corner only."""
    found = COVERAGE.of(summary)
    if found is None:
        return []
    return [*([_edges(summary, found)] if found.edges else []), *([_corner(found)] if found.is_corner else [])]


def _edges(summary: StudySummary, found: Coverage) -> str:
    values = summary.params_of(summary.winner_label or "")
    named = found.edges[:_MOST_NAMED]
    rest = len(found.edges) - len(named)
    where = join_words(
        [
            *(
                f"{reach.path} {format_value(values.get(reach.path))} ({reach.edge} end of {summary.space[reach.path]})"
                for reach in named
            ),
            *([f"{counted(rest, 'further parameter')} (see the report)"] if rest else []),
        ]
    )
    typed = " ".join(f"'{reach.widen}'" for reach in named)
    return (
        f"The winner and most of the best trials lie at an edge of the search space: {where}. To search beyond it, "
        f"begin another study (study.name=...) with {typed}."
    )


def _corner(found: Coverage) -> str:
    narrow = sorted(found.narrow, key=lambda reach: reach.num_late / reach.expected_late)
    examples = join_words(
        f"{reach.path} {reach.num_late} of {reach.num_parts} parts of its range" for reach in narrow[:_MOST_NAMED]
    )
    return (
        f"The last {found.num_late} trials lie in one corner of the search space: in {len(narrow)} of "
        f"{counted(len(found.reaches), 'parameter')} they cover less than half of what evenly drawn trials would cover "
        f"({examples}). To search elsewhere, run more trials with sampler=qmc."
    )
