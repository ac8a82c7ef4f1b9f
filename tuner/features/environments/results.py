"""Several environments in the results of a study."""

from collections.abc import Iterator
from functools import partial

from tuner.features.environments.facts import ENVIRONMENTS, OWN_WINNERS
from tuner.features.environments.rows import scale_sentences, sentences, warnings
from tuner.results.features import InResults, RunColumn, ShownIn
from tuner.results.records import RunRecord, Scalar, StudySummary


def _columns(summary: StudySummary) -> Iterator[RunColumn]:
    return (RunColumn(name, partial(_score_in, name), ShownIn.FILE) for name in ENVIRONMENTS.of(summary))


def _score_in(name: str, run: RunRecord) -> Scalar:
    return next((part.value for part in run.parts if part.environment == name), None)


def _special(summary: StudySummary) -> str:
    words = "of several environments, and a path of changes is followed in one"
    return words if ENVIRONMENTS.of(summary) else ""


PART = InResults(
    facts=(ENVIRONMENTS, OWN_WINNERS),
    columns=_columns,
    preface=scale_sentences,
    sentences=sentences,
    warnings=warnings,
    special=_special,
)
