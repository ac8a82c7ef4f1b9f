"""Data inside a page: those of its figures and Plotly itself, compressed."""

import base64
import gzip
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from tuner.reporting.markup import Html
from tuner.trial.messages import JsonDict

_DIGITS: Final = 7
"""Significant ones of a number that is drawn; a screen shows four."""


def packed_figures(drawings: Mapping[str, JsonDict]) -> JsonDict:
    """The figures as page.js reads them: every text to hover once, numbers as exact as anybody can see.

    Returns:
        "figures" as they are, but that `customdata` holds places in "texts".
    """
    places: dict[str, int] = {}

    def packed(trace: JsonDict) -> JsonDict:
        words = trace.get("customdata", ())
        indices = [None if word is None else places.setdefault(word, len(places)) for word in words]
        return {**_rounded(trace), **({"customdata": indices} if words else {})}

    figures = {
        name: {"data": [packed(trace) for trace in drawing["data"]], "layout": drawing["layout"]}
        for name, drawing in drawings.items()
    }
    return {"texts": list(places), "figures": figures}


def _rounded(item: Any) -> Any:
    if isinstance(item, float):
        return float(f"{item:.{_DIGITS}g}")
    if isinstance(item, dict):
        return {key: _rounded(value) for key, value in item.items() if key != "customdata"}
    return [_rounded(value) for value in item] if isinstance(item, list) else item


def as_script_data(content: object) -> Html:
    """JSON that can stand in a script element: no end tag and no comment can begin in it."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Html(text.replace("<", "\\u003c").replace(">", "\\u003e"))


@lru_cache(maxsize=1)
def as_packed_script(source: str) -> Html:
    """A script in a third of its room, which page.js unpacks and runs. The last is kept: each page has Plotly."""
    return Html(base64.b64encode(gzip.compress(source.encode(), compresslevel=6, mtime=0)).decode())
