"""A metric in TensorBoard's event files, of any writer."""

import importlib.util
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuner.errors import UserError
from tuner.runs.command.metric_files import GrowingFile, MetricReader, Point, messages

_LENGTH = struct.Struct("<Q")
_HEAD, _TAIL = 12, 4  # length and its checksum before a record, a checksum behind it
_MOST_BYTES = 2**31


class TensorBoardEvents(MetricReader):
    """A scalar by its tag; the step is the event's own.

    Raises:
        UserError: TensorBoard is not installed.
    """

    default_files = "events.out.tfevents.*"
    needs_step = False

    def __init__(self, folder: Path, files: str, metric: str, step: str | None) -> None:
        super().__init__(folder, files, metric, step)
        check_tensorboard()
        from tensorboard.compat.proto.event_pb2 import Event

        self._event: Any = Event

    def _points(self, file: GrowingFile) -> Iterator[Point]:
        for event in messages(self._event, file.pieces(_records)):
            for value in event.summary.value:
                number = _scalar_of(value)
                if number is not None:
                    self.names.add(value.tag)
                    if value.tag == self.metric:
                        self.has_values = True
                        yield float(event.step), number
                elif value.tag == self.metric:
                    self.names.add(value.tag)
                    self.odd[value.tag] = f"something of the kind {value.WhichOneof('value')}"


def check_tensorboard() -> None:
    """Refuses where its messages cannot be read (UserError)."""
    if importlib.util.find_spec("tensorboard") is None:
        raise UserError(
            "agent.read=tensorboard needs tensorboard, which is not installed: pip install 'note-rl[tensorboard]'"
        )


def _scalar_of(value: Any) -> float | None:
    """As PyTorch's writer stores it, or TensorFlow's second version: a tensor of one number."""
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return float(value.simple_value)
    if kind != "tensor" or any(one.size != 1 for one in value.tensor.tensor_shape.dim):
        return None
    tensor = value.tensor
    for numbers in (tensor.float_val, tensor.double_val, tensor.int_val, tensor.int64_val):
        if len(numbers) == 1:
            return float(numbers[0])
    size = len(tensor.tensor_content)
    if tensor.dtype in (1, 2) and size == (4, 8)[tensor.dtype - 1]:  # DT_FLOAT, DT_DOUBLE
        return float(struct.unpack("<f" if tensor.dtype == 1 else "<d", tensor.tensor_content)[0])
    return None


def _records(content: bytes, begin: int) -> tuple[list[bytes], int]:
    """The whole records of TFRecord; what is damaged ends the file, as nobody can tell where the next one begins."""
    del begin
    found, at = [], 0
    while at + _HEAD <= len(content):
        (length,) = _LENGTH.unpack_from(content, at)
        end = at + _HEAD + length + _TAIL
        if length > _MOST_BYTES or end > len(content):
            break
        found.append(content[at + _HEAD : end - _TAIL])
        at = end
    return found, at
