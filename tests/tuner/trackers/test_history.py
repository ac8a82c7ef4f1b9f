from pathlib import Path

import pyarrow.parquet
import pytest

from tuner.errors import UserError
from tuner.trackers.history import HistoryRow, HistoryTracker, read_history


class Clock:
    """Seconds that pass only when a test moves them."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_columns_by_hand(tmp_path: Path) -> None:
    clock = Clock()
    history = HistoryTracker(tmp_path, window=3, clock=clock)
    for number, reward in enumerate([1.0, 5.0, 3.0, 2.0]):
        clock.now += 2.0
        history.add_episode(reward, step=10 * number)
    history.close()
    table = pyarrow.parquet.read_table(tmp_path / "history.parquet")
    assert table.to_pydict() == {
        "mean_reward": [1.0, 3.0, 3.0, pytest.approx(10 / 3)],  # the last leaves the first out: (5 + 3 + 2) / 3
        "best_reward": [1.0, 5.0, 5.0, 5.0],
        "episode_reward": [1.0, 5.0, 3.0, 2.0],
        "step": [0, 10, 20, 30],
        "time": [2.0, 4.0, 6.0, 8.0],
    }
    assert [str(column.type) for column in table.schema] == ["double", "double", "double", "int64", "double"]


def test_resuming_appends_and_goes_on_from_the_last_row(tmp_path: Path) -> None:
    first = HistoryTracker(tmp_path, window=2, clock=Clock())
    first.add_episode(9.0, 10)
    first.add_episode(1.0, 20)
    first.close()
    clock = Clock()
    second = HistoryTracker(tmp_path, window=2, clock=clock)
    clock.now += 4.0
    second.add_episode(3.0, 30)
    second.close()
    assert [row.step for row in read_history(second.path)] == [10, 20, 30]
    assert read_history(second.path)[-1] == HistoryRow(
        mean_reward=2.0, best_reward=9.0, episode_reward=3.0, step=30, time=4.0
    )


def test_resuming_from_an_older_checkpoint_replaces_what_is_passed_again(tmp_path: Path) -> None:
    clock = Clock()
    first = HistoryTracker(tmp_path, clock=clock)
    for step in (10, 20, 30):
        clock.now += 1.0
        first.add_episode(100.0 if step == 30 else 1.0, step)
    first.close()
    clock = Clock()
    second = HistoryTracker(tmp_path, clock=clock)
    clock.now += 5.0
    second.add_episode(2.0, 20)
    second.add_episode(2.0, 20)  # two environments may finish in the same step
    second.close()
    rows = read_history(second.path)
    assert [(row.step, row.episode_reward) for row in rows] == [(10, 1.0), (20, 2.0), (20, 2.0)]
    assert rows[-1].best_reward == 2.0  # the 100 was never reached on this path
    assert rows[-1].time == 6.0  # 1 s before the resume and 5 s after it


def test_the_file_is_written_in_intervals_and_never_torn(tmp_path: Path) -> None:
    clock = Clock()
    history = HistoryTracker(tmp_path, write_interval_s=10.0, clock=clock)
    history.add_episode(1.0, 1)
    assert not history.path.exists()
    clock.now += 10.0
    history.add_episode(2.0, 2)
    assert len(read_history(history.path)) == 2
    history.add_episode(3.0, 3)
    assert len(read_history(history.path)) == 2
    history.close()
    assert len(read_history(history.path)) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["history.parquet"]


def test_no_episode_makes_no_file(tmp_path: Path) -> None:
    HistoryTracker(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_file_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "history.parquet"
    path.write_bytes(b"not parquet at all")
    with pytest.raises(UserError, match="no readable training history"):
        HistoryTracker(tmp_path)
    pyarrow.parquet.write_table(pyarrow.table({"step": [1]}), path)
    with pytest.raises(UserError, match="is without some columns of mean_reward"):
        HistoryTracker(tmp_path)
    assert path.exists()


def test_a_disk_that_refuses_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    history = HistoryTracker(tmp_path / "file" / "folder")
    history.add_episode(1.0, 1)
    history.close()
    (record,) = caplog.records
    assert "could not be written" in record.message
