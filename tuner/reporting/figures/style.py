"""Common style of all figures: colours by their meaning, and the text of a point under the mouse.

Colours are names of CSS variables, "var(--winner)"; page.js replaces them by their values in the reader's colour
scheme. Labels are escaped, because Plotly reads a part of HTML in them.
"""

import html
import math
import re
from collections.abc import Sequence
from typing import Final

from tuner.results.number_format import describe_params, format_number
from tuner.results.records import RunRecord, StudySummary
from tuner.results.run_labels import shown_label
from tuner.trial.messages import JsonDict

WINNER: Final = "var(--winner)"
DEFAULT: Final = "var(--default)"
TRIAL: Final = "var(--trial)"
FAILED: Final = "var(--failed)"
FAINT: Final = "var(--faint)"
BACKGROUND: Final = "var(--background)"

_TITLE_CHARS: Final = 36  # what stands beside a plot on a telephone

HOVER: Final = "%{customdata}<extra></extra>"
"""Shows a point's `customdata`, and not the name of its trace beside it."""


def hover_text(summary: StudySummary, run: RunRecord) -> str:
    """Returns what a run's point says: label and score, what went wrong, its parameters; escaped."""
    value = "no score" if run.value is None else format_number(run.value)
    said = f"{shown_label(summary, run.label)}: {value}"
    parts = [said, run.reason[:120], describe_params(run.params, limit=12).replace(", ", "\n")]
    return "<br>".join(html.escape(part).replace("\n", "<br>") for part in parts if part)


def run_markers(
    summary: StudySummary, runs: Sequence[RunRecord], x: Sequence[object], y: Sequence[object], marker: JsonDict
) -> JsonDict:
    """Returns a trace with one point per run, which says what the run was."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": list(x),
        "y": list(y),
        "customdata": [hover_text(summary, run) for run in runs],
        "marker": marker,
        "hovertemplate": HOVER,
    }


def axis(title: str, **more: object) -> JsonDict:
    """Returns an axis with a title, and without a line at zero, which means nothing for scores."""
    return {"title": {"text": lines_of(title, _TITLE_CHARS)}, "zeroline": False, **more}


def lines_of(text: str, most_chars: int) -> str:
    """Returns a label in lines of at most `width` characters where it has spaces, dots or underscores; as HTML."""
    parts = re.split(r"(?<=[ ._])", text)
    lines = [""]
    for part in parts:
        if lines[-1] and len(lines[-1]) + len(part.rstrip()) > most_chars:
            lines.append("")
        lines[-1] += part
    return "<br>".join(html.escape(line.rstrip()) for line in lines)


def budget_axis(end: float) -> JsonDict:
    """Returns an axis of shares of the step budget, as far as this one."""
    return axis("part of the step budget", tickformat=".0%", range=[0, end])


def finite(value: float) -> float | None:
    """Returns None for what is no finite number, which JSON and Plotly do not know: a gap in its place."""
    return value if math.isfinite(value) else None
