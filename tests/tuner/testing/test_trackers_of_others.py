"""Trackers keep the contract that `tuner.testing` offers, and those that break a rule are found."""

import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.tuner.trackers.test_tensorboard import read, reader_without_tensorflow
from tuner.testing import TrackerContract
from tuner.trackers import JsonlTracker, RunInfo, TensorBoardTracker, Tracker, read_metrics

__all__ = ["reader_without_tensorflow"]


class TestJsonl(TrackerContract):
    def make(self) -> Tracker:
        return JsonlTracker()

    def recorded(self, info: RunInfo) -> Mapping[int, Mapping[str, float]]:
        found: dict[int, dict[str, float]] = defaultdict(dict)
        for step, metrics in read_metrics(info.folder):
            found[step].update(metrics)
        return found


class TestTensorBoard(TrackerContract):
    def make(self) -> Tracker:
        return TensorBoardTracker()

    def recorded(self, info: RunInfo) -> Mapping[int, Mapping[str, float]]:
        found: dict[int, dict[str, float]] = defaultdict(dict)
        events = read(info.folder)
        for name in events.Tags()["scalars"]:
            for event in events.Scalars(name):
                if not name.startswith(("final/", "_hparams_")):
                    found[event.step][name] = event.value
        return found


class Careless(JsonlTracker):
    """Writes beside the run, and refuses what is no number."""

    def start_run(self, info: RunInfo) -> "CarelessRun":
        Path("notes.txt").write_text(info.name)
        return CarelessRun()


class CarelessRun:
    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        assert all(map(math.isfinite, metrics.values()))

    def finish(self, exit_code: int = 0, summary: Mapping[str, object] | None = None) -> None:
        """Nothing is left to do."""


@pytest.mark.parametrize("rule", ["what_is_no_number_changes_nothing_else", "it_writes_in_the_folder_of_the_run"])
def test_a_tracker_that_breaks_a_rule_is_found(rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "working_directory").mkdir()
    monkeypatch.chdir(tmp_path / "working_directory")
    with pytest.raises(AssertionError):
        getattr(TrackerContract(), f"test_{rule}")(Careless(), tmp_path)
