"""The summary of a study as JSON text: report.json."""

import json
from collections.abc import Iterator
from typing import Any

from note_rl.support.formats import marked, split_mark, why_unreadable
from tuner.results.features import all_facts
from tuner.results.json_values import decoded, encoded, json_lines
from tuner.results.records import StudySummary
from tuner.support.decoding import decode


def summary_to_json(summary: StudySummary) -> str:
    """The text; `summary_from_json` gives an equal summary back. NaN and infinities survive the trip."""
    content = encoded(summary)
    del content["facts"]
    content |= {fact.key: encoded(fact.of(summary)) for fact in all_facts()}
    lines = ",\n".join(f"{json.dumps(key)}: {json_lines(value)}" for key, value in marked(content).items())
    return f"{{\n{lines}\n}}\n"


def summary_from_json(text: str) -> StudySummary:
    """Inverse of `summary_to_json`.

    Raises:
        ValueError: not a summary, or written by a later version.
    """
    content = json.loads(text)
    mark, content = split_mark(content if isinstance(content, dict) else {})
    why = why_unreadable(mark)
    if why is not None:
        raise ValueError(f"not a study summary that can be read: {why}")
    content = decoded(content)
    facts = dict(_facts_from(content))
    return decode(StudySummary, {**content, "facts": facts})


def _facts_from(content: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Takes the facts of all features out."""
    for fact in all_facts():
        kept = content.pop(fact.key, None)
        found = fact.default if kept is None else fact.read(kept)
        if found != fact.default:
            yield fact.key, found
