"""Scalars in TensorBoard's files, while they are written."""

import struct
from pathlib import Path
from typing import Any

import pytest

from tests.tuner.runs.command.polled import polled
from tuner.errors import UserError
from tuner.runs.command import event_files
from tuner.runs.command.event_files import TensorBoardEvents

pytest.importorskip("tensorboard")


def record(step: int, **kind: Any) -> bytes:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    content = Event(step=step, summary=Summary(value=[Summary.Value(**kind)])).SerializeToString()
    return struct.pack("<QI", len(content), 0) + content + b"\0\0\0\0"


def tensor(**kind: Any) -> Any:
    from tensorboard.compat.proto.tensor_pb2 import TensorProto

    return TensorProto(**kind)


def test_scalars_are_read_as_they_come(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "a" / "events.out.tfevents.1.host"
    path.parent.mkdir(parents=True)
    reader = TensorBoardEvents(tmp_path, "", "charts/ret", None)
    rows = record(5, tag="charts/ret", simple_value=1.5) + record(6, tag="loss", simple_value=9.0)
    later = record(7, tag="charts/ret", simple_value=2.5)
    path.write_bytes(rows + later[:-3])
    assert polled(reader) == [(5.0, 1.5)]
    path.write_bytes(rows + later)
    assert polled(reader) == [(7.0, 2.5)]
    assert reader.names == {"charts/ret", "loss"}


def test_a_damaged_record_is_passed_over(tmp_path: Path) -> None:
    damaged = struct.pack("<QI", 4, 0) + b"\x0a\xff\xff\xff" + b"\0\0\0\0"
    content = record(1, tag="x", simple_value=0.5) + damaged + record(3, tag="x", simple_value=2.5)
    (tmp_path / "events.out.tfevents.1").write_bytes(content)
    assert polled(TensorBoardEvents(tmp_path, "", "x", None)) == [(1.0, 0.5), (3.0, 2.5)]


def test_tensors_of_one_number_are_scalars_too(tmp_path: Path) -> None:
    content = b"".join(
        record(step, tag="x", tensor=one)
        for step, one in enumerate(
            [
                tensor(dtype=1, float_val=[0.5]),
                tensor(dtype=1, tensor_content=struct.pack("<f", 1.5)),
                tensor(dtype=2, tensor_content=struct.pack("<d", 2.5)),
                tensor(dtype=9, int64_val=[3]),
                tensor(dtype=7, string_val=[b"text"]),
                tensor(dtype=1, float_val=[1.0, 2.0]),
            ]
        )
    )
    (tmp_path / "events.out.tfevents.2").write_bytes(content)
    assert polled(TensorBoardEvents(tmp_path, "", "x", None)) == [(0.0, 0.5), (1.0, 1.5), (2.0, 2.5), (3.0, 3.0)]


def test_what_is_damaged_ends_the_file(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.2"
    path.write_bytes(record(1, tag="x", simple_value=1.0) + b"\xff" * 64)
    assert polled(TensorBoardEvents(tmp_path, "", "x", None)) == [(1.0, 1.0)]


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_files.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        UserError, match=r"agent.read=tensorboard needs tensorboard.*pip install 'note-rl\[tensorboard\]'"
    ):
        TensorBoardEvents(tmp_path, "", "x", None)
