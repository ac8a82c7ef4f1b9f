"""A study whose parameters have a declared space."""

from typing import Any

from tests.tuner.reporting.summaries import full_study, run
from tuner.results.records import StudySummary

DECLARED: dict[str, tuple[str, list[Any]]] = {
    "a.entropy": ("linear", [0.0005, 0.1, 0.05]),
    "a.gamma": ("one_minus", [0.9, 0.9999, 0.99]),
    "a.rate": ("log", [0.02, 0.08, 0.04]),
    "a.batch": ("category", [128, 32, 64]),
    "a.unknown": ("", [1.0, 100.0, 10.0]),
}


def declared_study() -> StudySummary:
    runs = [
        run(f"trial {n}", "screen", float(n), params={path: values[n % 3] for path, (_, values) in DECLARED.items()})
        for n in range(9)
    ]
    scales = {path: scale for path, (scale, _) in DECLARED.items() if scale}
    importances = {path: 0.1 * (9 - n) for n, path in enumerate(DECLARED)}
    return full_study(runs=tuple(runs), importances=importances, importance_null={}, scales=scales)
