"""History in the files of W&B's offline runs, as its own process writes them."""

import json
import struct
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2 as messages

from tests.tuner.runs.command.polled import polled
from tuner.runs.command.wandb_files import WandbHistory

BLOCK = 32768


def history(step: int | None, **values: Any) -> bytes:
    record = messages.Record()
    for name, value in values.items():
        item = record.history.item.add()
        item.value_json = json.dumps(value)
        if "__" in name:
            item.nested_key.extend(name.split("__"))
        else:
            item.key = name
    if step is not None:
        record.history.step.num = step
    return bytes(record.SerializeToString())


def written(*records: bytes) -> bytes:
    """As the log of LevelDB: pieces that end with their block."""
    content = b":W&B\xe1\xbe\x00"
    for whole in records:
        rest, first = whole, True
        while True:
            left = BLOCK - len(content) % BLOCK
            if left < 7:
                content += bytes(left)
                left = BLOCK
            piece, rest = rest[: left - 7], rest[left - 7 :]
            kind = (1 if first else 4) if not rest else (2 if first else 3)
            content += struct.pack("<IHB", 0, len(piece), kind) + piece
            first = False
            if not rest:
                break
    return content


def test_history_is_read_as_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "wandb" / "offline-run-1" / "run-1.wandb"
    path.parent.mkdir(parents=True)
    other = messages.Record()
    other.run.run_id = "abc"
    first = [other.SerializeToString(), history(0, ret=1.5), history(1, loss=2.0), history(2, charts__ret=3.0)]
    whole = written(*first, history(3, ret=2.5, note="x"))
    reader = WandbHistory(tmp_path, "", "ret", None)
    path.write_bytes(whole[:-4])
    assert polled(reader) == [(0.0, 1.5)]
    path.write_bytes(whole)
    assert polled(reader) == [(3.0, 2.5)]
    assert polled(reader) == []
    assert {"ret", "loss", "charts.ret"} <= reader.names


def test_records_may_cross_blocks(tmp_path: Path) -> None:
    records = [history(step, ret=float(step), pad="x" * size) for step, size in enumerate([32_000, 700, 90_000, 5, 8])]
    (tmp_path / "run-1.wandb").write_bytes(written(*records))
    assert polled(WandbHistory(tmp_path, "", "ret", None)) == [(float(step), float(step)) for step in range(5)]


def test_another_key_may_be_the_step(tmp_path: Path) -> None:
    (tmp_path / "run-1.wandb").write_bytes(written(history(1, ret=7.0, global_step=500), history(2, ret=8.0)))
    assert polled(WandbHistory(tmp_path, "", "ret", "global_step")) == [(500.0, 7.0)]
