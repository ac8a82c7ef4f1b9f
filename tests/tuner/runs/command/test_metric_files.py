"""Metrics in files that are being written: JSON lines, CSV, printed lines."""

import json
from pathlib import Path

import pytest

from tuner.errors import UserError
from tuner.runs.command.metric_files import CsvTable, JsonLines, MetricReader, OutputPattern, compiled


def append(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)


def test_json_lines_are_read_as_they_come_from_all_files(tmp_path: Path) -> None:
    reader = JsonLines(tmp_path, "", "charts.ret", "step")
    assert reader.poll() == []
    append(tmp_path / "runs" / "a" / "log.jsonl", '{"step": 1, "charts": {"ret": 2}}\nnoise\n[1]\n{"step": 2, "cha')
    append(tmp_path / "b.jsonl", '{"step": 5, "charts.ret": "7.5", "other": 1}\n')
    append(tmp_path / "b.txt", '{"step": 5, "charts.ret": 8}\n')
    assert sorted(reader.poll()) == [(1.0, 2.0), (5.0, 7.5)]
    append(tmp_path / "runs" / "a" / "log.jsonl", 'rts": {"ret": 3}}\n{"step": 3}\n{"charts": {"ret": 3}}\n')
    assert reader.poll() == [(2.0, 3.0)]
    assert reader.poll() == []
    assert {"charts.ret", "step", "other"} <= reader.names
    assert reader.num_files == 2


def test_a_file_that_is_written_anew_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    reader = JsonLines(tmp_path, "", "v", "s")
    append(path, "".join(json.dumps({"s": step, "v": step}) + "\n" for step in range(3)))
    assert len(reader.poll()) == 3
    path.write_text('{"s": 9, "v": 1}\n')
    assert reader.poll() == [(9.0, 1.0)]


def test_values_that_are_no_numbers_are_left_out_and_nan_is_one(tmp_path: Path) -> None:
    append(tmp_path / "x.jsonl", '{"s": 1, "v": null}\n{"s": 2, "v": true}\n{"s": "x", "v": 1}\n{"s": NaN, "v": 1}\n')
    append(tmp_path / "x.jsonl", '{"s": 3, "v": NaN}\n')
    ((step, value),) = JsonLines(tmp_path, "", "v", "s").poll()
    assert (step, value != value) == (3.0, True)


def test_csv_has_its_names_in_the_first_line(tmp_path: Path) -> None:
    reader = CsvTable(tmp_path, "progress.csv", "eval/mean", "time/steps")
    append(tmp_path / "progress.csv", '#{"t_start": 1}\ntime/steps, eval/mean,"a, b"\n100,1.5,x\n200,,y\n300')
    append(tmp_path / "other.csv", "time/steps,eval/mean\n1,1\n")
    assert reader.poll() == [(100.0, 1.5)]
    append(tmp_path / "progress.csv", ",2.5\n")
    assert reader.poll() == [(300.0, 2.5)]
    (tmp_path / "progress.csv").write_text("eval/mean,time/steps\n7,8\n")
    assert reader.poll() == [(8.0, 7.0)]


def test_printed_lines_are_matched(tmp_path: Path) -> None:
    reader: MetricReader = OutputPattern(tmp_path / "out.log", r"step=(?P<step>[\d,]+) return=(?P<value>\S+)")
    assert reader.poll() == []
    append(tmp_path / "out.log", "hello\nstep=1,000 return=-2.5 step=1,001 return=3\nstep=2 ret")
    assert reader.poll() == [(1000.0, -2.5), (1001.0, 3.0)]
    append(tmp_path / "out.log", "urn=nan?\nstep=3 return=1e3\n")
    assert reader.poll() == [(3.0, 1000.0)]


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
