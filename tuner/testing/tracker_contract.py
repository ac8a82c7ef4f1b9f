"""Tests for every tracker, wherever it keeps its data."""

import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tuner.trackers.base import RunInfo, RunTracker, Table, Tracker

_CONFIG: dict[str, Any] = {
    "seed": 3,
    "agent": {"_target_": "my_agents.Mine", "gamma": 0.99, "clip": None, "sizes": [8, 8], "name": "a b/c:d"},
    "tracker": {},
}
_SUMMARY: dict[str, object] = {
    "value": 0.75,
    "outcome": "complete",
    "reason": None,
    "best": {"step": 128, "value": 0.8},
    "trials": Table(("trial", "score"), ((1, 2.5), ("a|b", None))),
}


class TrackerContract:
    """Tests of a tracker. It is closed behind each.

    Attributes:
        log_s: How long `log` may take on average; training waits for it.
        close_s: How long `close` may take beyond the time that it is given.
    """

    log_s = 0.02
    close_s = 5.0

    def make(self) -> Tracker:
        """The tracker. The working directory is an empty folder, in which it must not write without being asked to."""
        raise NotImplementedError

    def recorded(self, info: RunInfo) -> Mapping[int, Mapping[str, float]] | None:
        """The metrics that the tracker has kept of a run, by step. None: they cannot be read here.

        Called when the tracker is closed.
        """
        del info
        return None

    @pytest.fixture(autouse=True)
    def elsewhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An empty working directory."""
        (tmp_path / "working_directory").mkdir()
        monkeypatch.chdir(tmp_path / "working_directory")

    @pytest.fixture
    def tracker(self) -> Iterator[Tracker]:
        """The tracker."""
        tracker = self.make()
        yield tracker
        tracker.close()

    def test_what_is_logged_is_kept_by_step(self, tracker: Tracker, tmp_path: Path) -> None:
        """Each step has the values that it was given, whole numbers included."""
        info = _info(tmp_path)
        run = tracker.start_run(info)
        run.log(0, {"train/loss": 0.5, "train/learning_rate:0": 0.25})
        run.log(128, {"eval/mean_return": 3})
        run.finish(0, {"value": 3.0})
        tracker.close()
        self._is(info, {0: {"train/loss": 0.5, "train/learning_rate:0": 0.25}, 128: {"eval/mean_return": 3.0}})

    def test_what_is_no_number_changes_nothing_else(self, tracker: Tracker, tmp_path: Path) -> None:
        """Values that are not finite are taken, and those beside them are kept."""
        info = _info(tmp_path)
        run = tracker.start_run(info)
        run.log(1, {"a": math.nan, "b": math.inf, "c": 1.0})
        run.log(2, {"a": 2.0})
        run.finish()
        tracker.close()
        kept = self.recorded(info)
        if kept is not None:
            assert (kept[1]["c"], kept[2]["a"]) == (1.0, 2.0)

    def test_runs_are_kept_apart(self, tracker: Tracker, tmp_path: Path) -> None:
        """Several runs at a time, of one name or of several."""
        infos = [_info(tmp_path, number) for number in range(3)]
        runs = [tracker.start_run(info) for info in infos]
        for step in (1, 2):
            for number, run in enumerate(runs):
                run.log(step, {"value": float(10 * number + step)})
        for run in reversed(runs):
            run.finish()
        tracker.close()
        for number, info in enumerate(infos):
            self._is(info, {1: {"value": 10.0 * number + 1}, 2: {"value": 10.0 * number + 2}})

    def test_a_run_is_continued(self, tmp_path: Path) -> None:
        """A later session goes on with the run of a folder; a step that it passes again may come twice."""
        info = _info(tmp_path)
        for steps in ((1, 2), (2, 3)):
            tracker = self.make()
            run = tracker.start_run(info)
            for step in steps:
                run.log(step, {"value": float(step)})
            run.finish()
            tracker.close()
        self._is(info, {1: {"value": 1.0}, 2: {"value": 2.0}, 3: {"value": 3.0}})

    def test_every_end_is_taken(self, tracker: Tracker, tmp_path: Path) -> None:
        """Summaries with texts, nothing, inner values and tables; runs that failed; runs without a measurement."""
        for number, exit_code in enumerate((0, 1)):
            tracker.start_run(_info(tmp_path, number)).finish(exit_code, _SUMMARY)
        tracker.start_run(_info(tmp_path, 2, job_type="study")).finish()

    def test_it_writes_in_the_folder_of_the_run(self, tracker: Tracker, tmp_path: Path) -> None:
        """And in that of its group; nowhere else, unless it was given a place of its own."""
        run = tracker.start_run(_info(tmp_path))
        run.log(1, {"value": 1.0})
        run.finish(0, _SUMMARY)
        tracker.close()
        assert {path.name for path in tmp_path.iterdir()} <= {"studies", "working_directory"}
        assert list((tmp_path / "working_directory").iterdir()) == []

    def test_training_does_not_wait_for_it(self, tracker: Tracker, tmp_path: Path) -> None:
        """`log` returns at once: what is slow is done in a thread of the tracker's own."""
        run = tracker.start_run(_info(tmp_path))
        run.log(0, {"value": 0.0})
        began = time.monotonic()
        for step in range(1, 101):
            run.log(step, {"value": float(step), "other": 1.0})
        assert time.monotonic() - began < 100 * self.log_s
        run.finish()

    def test_close_takes_no_longer_than_it_may(self, tracker: Tracker, tmp_path: Path) -> None:
        """Runs that are open are delivered as far as there is time. What is logged later is dropped."""
        run: RunTracker = tracker.start_run(_info(tmp_path))
        run.log(1, {"value": 1.0})
        began = time.monotonic()
        tracker.close(timeout_s=5.0)
        assert time.monotonic() - began < 5.0 + self.close_s
        run.log(2, {"value": 2.0})
        run.finish()
        tracker.close(timeout_s=0.1)

    def _is(self, info: RunInfo, expected: Mapping[int, Mapping[str, float]]) -> None:
        kept = self.recorded(info)
        if kept is not None:
            assert {step: dict(values) for step, values in kept.items()} == expected


def _info(place: Path, number: int = 0, job_type: str = "screen") -> RunInfo:
    group = place / "studies" / "mine"
    folder = group / f"{job_type}/{number}"
    folder.mkdir(parents=True, exist_ok=True)
    return RunInfo(f"{job_type}/{number}", "mine", _CONFIG, folder, ("word",), job_type, group)
