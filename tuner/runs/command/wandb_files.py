"""A metric in the files of W&B's offline runs: `WANDB_MODE=offline`.

Of the package `wandb` only its messages are used: it has no public way to read its own files. They consist of blocks of
32 KiB with pieces of records, as those of LevelDB's log.
"""

import importlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuner.errors import UserError
from tuner.runs.command.metric_files import GrowingFile, MetricReader, Point, decoded_json, messages

_FILE_HEAD = 7  # :W&B, a number and the version
_BLOCK = 32768
_PIECE = struct.Struct("<IHB")  # checksum, length, kind
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


class WandbHistory(MetricReader):
    """A metric of `wandb.log`; the step is W&B's own unless another key is named.

    Raises:
        UserError: W&B is not installed.
    """

    default_files = "*.wandb"
    needs_step = False

    def __init__(self, folder: Path, files: str, metric: str, step: str | None) -> None:
        super().__init__(folder, files, metric, step or "_step")
        try:
            self._record: Any = importlib.import_module("wandb.proto.wandb_internal_pb2").Record
        except ImportError as error:
            raise UserError("agent.read=wandb needs wandb, which is not installed: pip install wandb") from error

    def _points(self, file: GrowingFile) -> Iterator[Point]:
        for record in messages(self._record, file.pieces(_records)):
            if record.WhichOneof("record_type") != "history":
                continue
            row = {item.key or ".".join(item.nested_key): decoded_json(item.value_json) for item in record.history.item}
            if record.history.HasField("step"):
                row.setdefault("_step", record.history.step.num)
            yield from self._point(row)


def _records(content: bytes, begin: int) -> tuple[list[bytes], int]:
    """The whole records behind a place in the file."""
    found, parts, taken = [], b"", 0
    at = max(begin, _FILE_HEAD)
    while True:
        left = _BLOCK - at % _BLOCK
        if left < _PIECE.size:  # the rest of a block that no piece fits in
            at += left
        if at + _PIECE.size > begin + len(content):
            break
        _, length, kind = _PIECE.unpack_from(content, at - begin)
        start, at = at + _PIECE.size, at + _PIECE.size + length
        if kind == 0 or at > begin + len(content):
            break
        piece = content[start - begin : at - begin]
        parts = piece if kind in (_FULL, _FIRST) else parts + piece
        if kind in (_FULL, _LAST):
            found.append(parts)
            taken = at - begin
    return found, taken
