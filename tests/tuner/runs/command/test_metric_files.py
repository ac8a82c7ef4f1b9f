"""Metrics in files that are being written: JSON lines, CSV, printed lines."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tuner.runs.command.polled import polled
from tuner.errors import UserError
from tuner.runs.command.metric_files import CsvTable, JsonLines, MetricReader, OutputPattern, compiled
from tuner.runs.command.score_grid import ScoreGrid


def append(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)


def test_json_lines_are_read_as_they_come_from_all_files(tmp_path: Path) -> None:
    reader = JsonLines(tmp_path, "", "charts.ret", "step")
    assert polled(reader) == []
    append(tmp_path / "runs" / "a" / "log.jsonl", '{"step": 1, "charts": {"ret": 2}}\nnoise\n[1]\n{"step": 2, "cha')
    append(tmp_path / "b.jsonl", '{"step": 5, "charts.ret": "7.5", "other": 1}\n')
    append(tmp_path / "b.txt", '{"step": 5, "charts.ret": 8}\n')
    assert sorted(polled(reader)) == [(1.0, 2.0), (5.0, 7.5)]
    append(tmp_path / "runs" / "a" / "log.jsonl", 'rts": {"ret": 3}}\n{"step": 3}\n{"charts": {"ret": 3}}\n')
    assert polled(reader) == [(2.0, 3.0)]
    assert polled(reader) == []
    assert {"charts.ret", "step", "other"} <= reader.names
    assert reader.num_files == 2


def test_a_folder_that_goes_while_it_is_listed_costs_no_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(tmp_path / "log.jsonl", '{"step": 1, "ret": 2}\n')
    reader, listed, fails = JsonLines(tmp_path, "", "ret", "step"), Path.glob, iter((True, False, *[True] * 3))

    def racing(self: Path, pattern: str) -> Iterator[Path]:
        if next(fails):
            raise FileNotFoundError(f"{self}/tmp-checkpoint-5")
        return iter(list(listed(self, pattern)))

    monkeypatch.setattr(Path, "glob", racing)
    assert polled(reader) == [(1.0, 2.0)]
    append(tmp_path / "log.jsonl", '{"step": 2, "ret": 3}\n')
    assert polled(reader) == [(2.0, 3.0)], "those that are known are read"


def test_a_file_that_is_written_anew_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    reader = JsonLines(tmp_path, "", "v", "s")
    append(path, "".join(json.dumps({"s": step, "v": step}) + "\n" for step in range(3)))
    assert len(polled(reader)) == 3
    path.write_text('{"s": 9, "v": 1}\n')
    assert polled(reader) == [(9.0, 1.0)]


def test_values_that_are_no_numbers_are_left_out_and_nan_is_one(tmp_path: Path) -> None:
    append(tmp_path / "x.jsonl", '{"s": 1, "v": null}\n{"s": 2, "v": true}\n{"s": "x", "v": 1}\n{"s": NaN, "v": 1}\n')
    append(tmp_path / "x.jsonl", '{"s": 3, "v": NaN}\n')
    ((step, value),) = polled(JsonLines(tmp_path, "", "v", "s"))
    assert (step, value != value) == (3.0, True)


def test_a_table_of_another_system_may_begin_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfstep,ret\n1,2\n")
    assert polled(CsvTable(tmp_path, "", "ret", "step")) == [(1.0, 2.0)]


def test_csv_has_its_names_in_the_first_line(tmp_path: Path) -> None:
    reader = CsvTable(tmp_path, "progress.csv", "eval/mean", "time/steps")
    append(tmp_path / "progress.csv", '#{"t_start": 1}\ntime/steps, eval/mean,"a, b"\n100,1.5,x\n200,,y\n300')
    append(tmp_path / "other.csv", "time/steps,eval/mean\n1,1\n")
    assert polled(reader) == [(100.0, 1.5)]
    append(tmp_path / "progress.csv", ",2.5\n")
    assert polled(reader) == [(300.0, 2.5)]
    (tmp_path / "progress.csv").write_text("eval/mean,time/steps\n7,8\n")
    assert polled(reader) == [(8.0, 7.0)]


def test_printed_lines_are_matched(tmp_path: Path) -> None:
    reader: MetricReader = OutputPattern(tmp_path / "out.log", r"step=(?P<step>[\d,]+) return=(?P<value>\S+)")
    assert polled(reader) == []
    append(tmp_path / "out.log", "hello\nstep=1,000 return=-2.5 step=1,001 return=3\nstep=2 ret")
    assert polled(reader) == [(1000.0, -2.5), (1001.0, 3.0)]
    append(tmp_path / "out.log", "urn=nan?\nstep=3 return=1e3\n")
    assert polled(reader) == [(3.0, 1000.0)]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "is no regular expression"),
        (r"step=(?P<step>\d+)", r"needs \(\?P<value>...\); write for example"),
        ("x", r"needs \(\?P<step>...\) and \(\?P<value>...\)"),
    ],
)
def test_a_pattern_needs_both_groups(pattern: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        compiled(pattern)


ROWS = [(100.0, 1.5), (200.0, 2.5), (300.0, 3.5)]


def rewritten(path: Path, text: str, atomic: bool) -> None:
    """As `to_csv` and `json.dump` write a file: into the old one, or aside and moved into its place."""
    if atomic:
        (path.parent / "aside").write_text(text)
        (path.parent / "aside").replace(path)
    else:
        path.write_text(text)


def csv_of(rows: list[tuple[float, float]], more: str = "") -> str:
    return f"step,ret{more}\n" + "".join(f"{step},{value}\n" for step, value in rows)


@pytest.mark.parametrize("atomic", [False, True])
def test_a_table_that_is_written_whole_each_time_gives_each_row(tmp_path: Path, atomic: bool) -> None:
    path, reader = tmp_path / "log.csv", CsvTable(tmp_path, "", "ret", "step")
    grid, ended = ScoreGrid(400, 4, None), []
    for num_rows in (1, 2, 3):
        rewritten(path, csv_of(ROWS[:num_rows]), atomic)
        ended += grid.take(reader.poll())
    assert ended == [(0.25, 1.5), (0.5, 2.5), (0.75, 3.5)]


def test_a_last_line_without_an_end_counts_once_the_program_has_ended(tmp_path: Path) -> None:
    path, reader = tmp_path / "log.csv", CsvTable(tmp_path, "", "ret", "step")
    path.write_text("step,ret\n100,1.5\n200,2.5")
    assert [batch.points for batch in reader.poll()] == [[(100.0, 1.5)]]
    reader.is_complete = True
    assert [batch.points for batch in reader.poll()] == [[(200.0, 2.5)]]
    assert reader.poll() == []


def test_a_table_that_gets_a_column_is_read_anew(tmp_path: Path) -> None:
    """It is longer than what was read, and what stands behind that is the middle of a row."""
    path, reader = tmp_path / "log.csv", CsvTable(tmp_path, "", "ret", "step")
    path.write_text(csv_of(ROWS[:2]))
    reader.poll()
    path.write_text("loss,step,ret\n" + "".join(f"0.001,{step},{value}\n" for step, value in ROWS))
    (batch,) = reader.poll()
    assert (batch.anew, batch.points) == (True, ROWS)


def test_a_table_that_is_seen_empty_while_it_is_written_loses_and_doubles_nothing(tmp_path: Path) -> None:
    path, reader = tmp_path / "log.csv", CsvTable(tmp_path, "", "ret", "step")
    grid = ScoreGrid(400, 1, None)
    for text in (csv_of(ROWS[:2]), "", csv_of(ROWS[:1]) + "200.0,", csv_of(ROWS)):
        path.write_text(text)
        assert grid.take(reader.poll()) == []
    assert grid.finish() == [(1.0, 2.5)]


def test_another_file_in_its_place_is_read_from_its_beginning(tmp_path: Path) -> None:
    path, reader = tmp_path / "x.jsonl", JsonLines(tmp_path, "", "v", "s")
    same = "".join(json.dumps({"s": step, "v": step, "pad": "x" * 300}) + "\n" for step in (1, 2))
    rewritten(path, same, atomic=True)
    assert len(polled(reader)) == 2
    rewritten(path, same, atomic=True)
    (batch,) = reader.poll()
    assert (batch.anew, len(batch.points)) == (True, 2)


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("columns", [False, True])
def test_a_list_of_objects_and_an_object_of_columns_are_read(tmp_path: Path, indent: int, columns: bool) -> None:
    path, reader = tmp_path / "log.json", JsonLines(tmp_path, "*.json", "m.ret" if not columns else "ret", "step")
    grid, ended = ScoreGrid(400, 4, None), []
    for num_rows in (1, 2, 3):
        rows = ROWS[:num_rows]
        listed = [{"step": step, "m": {"ret": value}} for step, value in rows]
        table = {"step": [step for step, _ in rows], "ret": [value for _, value in rows]}
        text = json.dumps(table if columns else listed, indent=indent)
        path.write_text(text[: len(text) - 9])
        ended += grid.take(reader.poll())
        path.write_text(text)
        ended += grid.take(reader.poll())
    assert ended == [(0.25, 1.5), (0.5, 2.5), (0.75, 3.5)]


def test_lines_behind_one_that_is_not_whole_are_read(tmp_path: Path) -> None:
    append(tmp_path / "x.jsonl", '{"s": 1, "v"\n[INFO] ready\n{"s": 2, "v": 5}\n{"s": 3, "v": 6}\n')
    append(tmp_path / "y.jsonl", '[INFO] ready\n{"s": 4, "v": 7}\n{"s": 5, "v": 8}')  # and a last one without an end
    assert polled(JsonLines(tmp_path, "", "v", "s")) == [(2.0, 5.0), (3.0, 6.0), (4.0, 7.0), (5.0, 8.0)]


def test_another_reader_goes_on_behind_a_line_that_a_kill_has_cut(tmp_path: Path) -> None:
    first = CsvTable(tmp_path, "", "ret", "step")
    append(tmp_path / "log.csv", csv_of(ROWS[:1]) + "150.0,2")
    polled(first)
    first.skip_rest()
    append(tmp_path / "log.csv", "step,ret\n200.0,2.5\n")  # the names again, as of a program that goes on
    second = CsvTable(tmp_path, "", "ret", "step")
    second.go_to(json.loads(json.dumps(first.positions)))
    assert [(batch.anew, batch.points) for batch in second.poll()] == [(False, [(200.0, 2.5)])]
    path = tmp_path / "log.csv"
    path.write_text(csv_of(ROWS, ",loss"))
    third = CsvTable(tmp_path, "", "ret", "step")
    third.go_to(first.positions)
    assert [batch.anew for batch in third.poll()] == [True]
    fourth = CsvTable(tmp_path, "", "ret", "step")
    fourth.go_to({"log.csv": {"offset": "x"}})
    assert [(batch.anew, batch.points) for batch in fourth.poll()] == [(True, ROWS)]
