"""The tree of a population: parents of its runs, and the line of the winner."""

from collections.abc import Mapping

from tuner.features.population.facts import EVOLVE
from tuner.results.records import RunRecord, StudySummary


def line_of(summary: StudySummary, label: str | None) -> tuple[RunRecord, ...]:
    """The runs from the first generation to that of a label; nothing if the population has no such run."""
    runs = {run.number: run for run in summary.stage(EVOLVE)}
    run = next((one for one in runs.values() if one.label == label), None)
    line: list[RunRecord] = []
    while run is not None and run.descent is not None:
        line.insert(0, run)
        run = None if run.descent.parent is None else runs.get(run.descent.parent)
    return tuple(line)


def changing(summary: StudySummary) -> list[str]:
    """The paths of parameters whose values differ between a run and the one that it went on from."""
    runs = {run.number: run for run in summary.stage(EVOLVE)}
    found: dict[str, None] = {}
    for run in runs.values():
        parent = _parent(run, runs)
        if parent is not None:
            found |= {path: None for path, value in run.params.items() if parent.params.get(path) != value}
    return list(found)


def copies(summary: StudySummary) -> list[tuple[RunRecord, RunRecord]]:
    """Runs that began as a copy of another member, each behind its parent."""
    runs = {run.number: run for run in summary.stage(EVOLVE)}
    pairs = ((parent, run) for run in runs.values() if (parent := _parent(run, runs)) is not None)
    return [pair for pair in pairs if _member(pair[0]) != _member(pair[1])]


def _parent(run: RunRecord, runs: Mapping[int, RunRecord]) -> RunRecord | None:
    number = None if run.descent is None else run.descent.parent
    return None if number is None else runs.get(number)


def _member(run: RunRecord) -> int:
    return -1 if run.descent is None else run.descent.member
