"""A tracker that remembers its calls, and trials that have accidents."""

from collections.abc import Mapping
from typing import Any

from tests.tuner.studies import Script, learn
from tuner.trackers.base import RunInfo
from tuner.trial.messages import Outcome, TrialResult, TrialSpec


class FakeTracker:
    """Remembers its calls."""

    def __init__(self) -> None:
        self.runs: list[FakeRun] = []

    def start_run(self, info: RunInfo) -> "FakeRun":
        self.runs.append(FakeRun(info))
        return self.runs[-1]

    def close(self, timeout_s: float = 10.0) -> None:
        pass


class FakeRun:
    def __init__(self, info: RunInfo) -> None:
        self.info = info
        self.rows: list[tuple[int, Mapping[str, float]]] = []
        self.ends: list[tuple[int, Mapping[str, Any]]] = []

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        assert not self.ends
        self.rows.append((step, metrics))

    def finish(self, exit_code: int = 0, summary: Mapping[str, Any] | None = None) -> None:
        self.ends.append((exit_code, summary or {}))


def accidents(spec: TrialSpec, attempt: int) -> Script:
    script = learn(spec, attempt)
    if spec.key == "screen/1":
        return Script(script.curve[:2], TrialResult(Outcome.CRASHED, "KeyError: 'obs'"))
    if spec.key == "screen/2" and attempt == 1:
        return Script(script.curve[:2], TrialResult(Outcome.CRASHED, "killed"))
    if spec.key == "screen/3":
        return Script(script.curve[:2], TrialResult(Outcome.DIVERGED, "the loss is nan"))
    return script
