"""The working directory of a program: whole at any instant, and kept where what replaces it gives nothing."""

import os
from pathlib import Path

import pytest

from tuner.runs.command.metric_files import JsonLines
from tuner.runs.command.score_grid import ScoreGrid
from tuner.runs.command.script_folder import ScriptFolder, newest_of


def emptied(run: Path, keep: bool) -> ScriptFolder:
    folder = ScriptFolder(run)
    folder.empty(JsonLines(folder.path, "", "v", "s"), ScoreGrid(10, 2, None), keep)
    return folder


def with_a_file(run: Path) -> ScriptFolder:
    folder = emptied(run, keep=False)
    (folder.path / "model.pt").write_text("x")
    return folder


def test_one_that_is_emptied_is_gone_and_one_that_is_kept_can_be_taken_back(tmp_path: Path) -> None:
    with_a_file(tmp_path)
    folder = emptied(tmp_path, keep=True)
    assert not (folder.path / "model.pt").exists()
    folder.take_back()
    assert (folder.path / "model.pt").exists()
    emptied(tmp_path, keep=True)
    assert (ScriptFolder(tmp_path).path / "model.pt").exists(), "killed before the new one had given a value"
    folder = emptied(tmp_path, keep=True)
    folder.settle()
    folder.take_back()
    assert not (ScriptFolder(tmp_path).path / "model.pt").exists()
    emptied(tmp_path, keep=False)
    assert [path.name for path in tmp_path.iterdir()] == ["script"]


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("instant", range(3))
def test_a_kill_between_two_moves_leaves_a_whole_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: bool, instant: int
) -> None:
    with_a_file(tmp_path)
    moves, rename = [], Path.rename

    def killed(self: Path, target: Path) -> Path:
        moves.append(target)
        if len(moves) > instant:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", killed)
    if instant < 2:
        with pytest.raises(KeyboardInterrupt):
            emptied(tmp_path, keep)
    else:
        emptied(tmp_path, keep)
    monkeypatch.undo()
    path = ScriptFolder(tmp_path).path
    assert (path / "model.pt").exists() == (keep or instant == 0)


def test_what_was_read_is_known_to_the_next_attempt(tmp_path: Path) -> None:
    folder = with_a_file(tmp_path)
    (folder.path / "a.jsonl").write_text('{"s": 1, "v": 2.0}\n')
    reader, grid = JsonLines(folder.path, "", "v", "s"), ScoreGrid(10, 2, None)
    grid.take(reader.poll())
    folder.save(reader, grid)
    with (folder.path / "a.jsonl").open("a") as file:
        file.write('{"s": 2, "v": 6.0}\n')
    again, other = JsonLines(folder.path, "*", "v", "s"), ScoreGrid(10, 2, None)
    ScriptFolder(tmp_path).restore(again, other)
    (batch,) = again.poll()
    assert batch.points == [(2.0, 6.0)]
    other.take([batch])
    assert other.finish()[0] == (0.5, 4.0)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"files": {}, "points": 3}', '{"files": 3, "points": {}}'])
def test_a_damaged_note_of_what_was_read_is_passed_over(tmp_path: Path, content: str) -> None:
    folder = with_a_file(tmp_path)
    (folder.path / "a.jsonl").write_text('{"s": 1, "v": 2.0}\n')
    (folder.path / ".tuner-progress.json").write_text(content)
    reader, grid = JsonLines(folder.path, "", "v", "s"), ScoreGrid(10, 2, None)
    folder.restore(reader, grid)
    assert [batch.points for batch in reader.poll()] == [[(1.0, 2.0)]]


def test_checkpoints_are_found_by_their_time_and_once(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for number, name in enumerate(["b.pt", "deep/a.pt", "c.pt"]):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (number, number))
    (tmp_path / "latest.pt").symlink_to("c.pt")
    (tmp_path / "gone.pt").symlink_to("nothing")
    assert [path.name for path in newest_of(tmp_path, "*.pt", 2)] == ["latest.pt", "a.pt"]
