"""A warning behind the verdict of a study whose code was edited on the way."""

from collections.abc import Iterator

from tuner.features.edited_code.facts import EDITED
from tuner.results.features import InResults
from tuner.results.number_format import join_words
from tuner.results.records import StudySummary


def _warnings(summary: StudySummary) -> Iterator[str]:
    if files := EDITED.of(summary):
        was = "was" if len(files) == 1 else "were"
        yield f"{join_words(files)} {was} edited while the study ran: runs before and after may differ for that reason."


PART = InResults(facts=(EDITED,), warnings=_warnings)
