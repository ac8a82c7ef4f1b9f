import json
import math
import resource
from pathlib import Path

import pytest

from tuner.trackers.base import RunInfo, Tracker, TrackerGroup
from tuner.trackers.jsonl import JsonlTracker, read_metrics


def start(folder: Path) -> RunInfo:
    return RunInfo("run", "study", {}, folder)


def test_every_record_is_a_complete_line_on_the_disk_at_once(tmp_path: Path) -> None:
    tracker = JsonlTracker()
    run = tracker.start_run(start(tmp_path / "new"))
    path = tmp_path / "new" / "metrics.jsonl"
    run.log(0, {"train/loss": 0.5})
    assert path.read_text() == '{"step": 0, "train/loss": 0.5}\n'
    run.log(128, {"train/loss": math.nan, "eval/mean_return": 3})
    assert path.read_text().splitlines()[1] == '{"step": 128, "train/loss": null, "eval/mean_return": 3.0}'
    (first, second) = read_metrics(tmp_path / "new")
    assert first == (0, {"train/loss": 0.5})
    assert second[0] == 128
    assert math.isnan(second[1]["train/loss"])
    tracker.close()
    run.log(129, {"train/loss": 1.0})
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize("torn", ['{"step": 2, "a"', '{"step": 2, "a": 1.0}', "\x00\x00\x00"])
def test_continuing_cuts_a_torn_last_line(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "a": 1.0}\n' + torn)
    run = JsonlTracker().start_run(start(tmp_path))
    run.log(2, {"a": 2.0})
    run.finish()
    assert list(read_metrics(tmp_path)) == [(1, {"a": 1.0}), (2, {"a": 2.0})]


def test_a_reader_of_a_living_run_passes_over_a_half_written_line(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "a": 1.0}\n{"step": 2')
    assert list(read_metrics(tmp_path)) == [(1, {"a": 1.0})]
    assert list(read_metrics(tmp_path / "none")) == []


def test_finish_writes_the_summary(tmp_path: Path) -> None:
    run = JsonlTracker().start_run(RunInfo("run", "study", {}, tmp_path, job_type="screen"))
    run.finish(1, {"outcome": "crashed"})
    assert json.loads((tmp_path / "summary.json").read_text()) == {
        "name": "run",
        "group": "study",
        "job_type": "screen",
        "exit_code": 1,
        "summary": {"outcome": "crashed"},
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.jsonl", "summary.json"]


def test_a_folder_that_cannot_be_made_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    run = JsonlTracker().start_run(start(tmp_path / "file" / "run"))
    run.log(1, {"a": 1.0})
    run.finish()
    (record,) = caplog.records
    assert "metrics of run are not written" in record.message
    assert "Not a directory" in record.message


def test_a_disk_that_refuses_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = JsonlTracker().start_run(start(tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        run.log(1, {"a": 1.0})
        run.log(2, {"a": 1.0})
        run.finish()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    (record,) = caplog.records
    assert "File too large" in record.message


def test_a_group_tells_every_tracker(tmp_path: Path) -> None:
    class Recorder:
        def __init__(self) -> None:
            self.told: list[object] = []

        def start_run(self, info: RunInfo) -> "Recorder":
            self.told.append(info.name)
            return self

        def log(self, step: int, metrics: object) -> None:
            self.told.append((step, metrics))

        def finish(self, exit_code: int = 0, summary: object = None) -> None:
            self.told.append((exit_code, summary))

        def close(self, timeout_s: float = 10.0) -> None:
            self.told.append(timeout_s)

    recorders = [Recorder(), Recorder()]
    group: Tracker = TrackerGroup(recorders)
    run = group.start_run(start(tmp_path))
    run.log(1, {"a": 1.0})
    run.finish(1, {"x": 2})
    group.close(3.0)
    assert [recorder.told for recorder in recorders] == [["run", (1, {"a": 1.0}), (1, {"x": 2}), 3.0]] * 2


def test_a_tracker_that_raises_ends_neither_the_run_nor_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        num_calls = 0

        def start_run(self, info: RunInfo) -> "Broken":
            return self

        def log(self, step: int, metrics: object) -> None:
            self.num_calls += 1
            raise RuntimeError("the server is gone")

        def finish(self, exit_code: int = 0, summary: object = None) -> None:
            raise AssertionError("it is disabled")

        def close(self, timeout_s: float = 10.0) -> None:
            raise AssertionError("it is disabled")

    broken = Broken()
    group = TrackerGroup([broken, JsonlTracker()])
    first, second = (group.start_run(start(tmp_path / name)) for name in "ab")
    for run in (first, second):
        run.log(1, {"x": 1.0})
        run.log(2, {"x": 2.0})
        run.finish()
    group.close()
    third = group.start_run(start(tmp_path / "c"))
    third.log(1, {"x": 1.0})
    third.finish()
    assert broken.num_calls == 1
    assert [list(read_metrics(tmp_path / name)) for name in "ab"] == [[(1, {"x": 1.0}), (2, {"x": 2.0})]] * 2
    assert list(read_metrics(tmp_path / "c")) == [(1, {"x": 1.0})]
    (record,) = caplog.records
    assert record.message == "Broken has failed and is disabled; training goes on"
    assert record.exc_info is not None
