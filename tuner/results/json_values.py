"""Dataclasses as JSON, with what JSON does not know: NaN and infinities."""

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

_AS_THEY_ARE = frozenset({str, int, bool, type(None)})


def json_lines(item: Any) -> str:
    """JSON text; of a list of objects, such as the runs, one line each."""
    if isinstance(item, list) and item and isinstance(item[0], dict):
        return "[\n{}\n]".format(",\n".join(json.dumps(one, allow_nan=False) for one in item))
    return json.dumps(item, allow_nan=False)


def encoded(item: Any) -> Any:
    """JSON has no NaN and no infinity: these become {"float": "nan"}, which `decoded` reads."""
    if type(item) in _AS_THEY_ARE:
        return item
    if isinstance(item, float):
        return item if math.isfinite(item) else {"float": str(item)}
    if isinstance(item, list | tuple):
        return [encoded(value) for value in item]
    if is_dataclass(item):
        return {one.name: encoded(getattr(item, one.name)) for one in fields(item)}
    if isinstance(item, Mapping):
        return {key: encoded(value) for key, value in item.items()}
    return item


def decoded(item: Any) -> Any:
    """Inverse of `encoded`, but for the classes."""
    if isinstance(item, dict):
        if item.keys() == {"float"} and isinstance(item["float"], str):
            return float(item["float"])
        return {key: decoded(value) for key, value in item.items()}
    return [decoded(value) for value in item] if isinstance(item, list) else item
