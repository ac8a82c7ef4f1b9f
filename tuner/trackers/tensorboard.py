"""TensorBoard: an event file in the folder of each run, so that `tensorboard --logdir STUDY` shows them side by side.

Of the package `tensorboard` no more is used than its messages and its writer of records: what is made for whole
programs there (`EventFileWriter`) imports TensorFlow where that is installed, and so would other packages PyTorch.
"""

import importlib.util
import io
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from tuner.config.paths import flatten
from tuner.errors import UserError
from tuner.support.plain_text import printable_copy
from tuner.trackers.base import RunInfo, Table
from tuner.trial.messages import JsonDict

if TYPE_CHECKING:
    from tensorboard.compat.proto.summary_pb2 import Summary

EVENT_FILES = "events.out.tfevents.*"
FINAL = "final"
"""Group of the values that a run ends with: `final/value`, `final/outcome`."""

logger = logging.getLogger(__name__)
_numbers = count()


class TensorBoardTracker:
    """Writes scalars by environment step, the configuration as hyperparameters, and what the run came to.

    Raises:
        UserError: TensorBoard is not installed.
    """

    def __init__(self) -> None:
        if importlib.util.find_spec("tensorboard") is None:
            raise UserError(
                "tracker=tensorboard needs tensorboard, which is not installed: pip install 'note-rl[tensorboard]'"
            )
        self._open: set[TensorBoardRun] = set()

    def start_run(self, info: RunInfo) -> "TensorBoardRun":
        """Begins the event file of a run, or a further one that takes the place of what is passed again."""
        run = TensorBoardRun(info, self._open.discard)
        self._open.add(run)
        return run

    def close(self, timeout_s: float = 10.0) -> None:
        """Closes the files of runs that nobody finished. Nothing is ever under way."""
        for run in list(self._open):
            run.close()


class TensorBoardRun:
    """One run's event file of this session. A disk that refuses is one warning, and the run goes on.

    The file is made when the first measurement comes: only then it is known from which step on those of an earlier
    session, which went further than its last checkpoint, are passed again.

    Args:
        info: Its description.
        closed: Called when nothing more is written, so that nobody holds on to it.
    """

    def __init__(self, info: RunInfo, closed: Callable[["TensorBoardRun"], None]) -> None:
        self._info = info
        self._closed = closed
        self._file: io.BufferedWriter | None = None
        self._writer: Any = None
        self._ended = False
        self._step = 0
        self._steps: dict[str, int] = {}  # of the newest scalar, by tag

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Writes scalars. What a run that went back measures again, at a step that it had passed, is left out."""
        new = {name: value for name, value in metrics.items() if step > self._steps.get(name, -1)}
        if not new or self._ended:
            return
        self._step = step
        self._steps.update(dict.fromkeys(new, step))
        self._write(lambda: _scalars(new))

    def finish(self, exit_code: int = 0, summary: Mapping[str, object] | None = None) -> None:
        """Writes what the run came to: numbers as scalars, words and tables as text; and closes the file."""
        values = {f"{FINAL}/{name}": value for name, value in (summary or {}).items() if value is not None}
        numbers = {
            name: float(value)
            for name, value in values.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        if not self._ended:
            self._write(lambda: _scalars(numbers))
            self._write(lambda: _texts({name: value for name, value in values.items() if name not in numbers}))
            self._write(lambda: _end_of_session(exit_code))
        self.close()

    def close(self) -> None:
        """Closes the file; nothing is written after that."""
        self._ended = True
        if self._file is not None:
            with suppress(OSError):  # a full disk, which a warning was about
                self._file.close()
            self._file = None
        self._closed(self)

    def _write(self, make: "Callable[[], Summary]") -> None:
        """Appends what is made to the file, which is begun with the first of it."""
        try:
            if self._file is None:
                self._begin()
            self._add(summary=make())
        except OSError as error:
            logger.warning("%s is not written for TensorBoard any more: %s", self._info.name, error)
            self.close()

    def _begin(self) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder = self._info.folder
        folder.mkdir(parents=True, exist_ok=True)
        continued = any(folder.glob(EVENT_FILES))
        # files are read in the order of their names
        name = f"{time.time():.6f}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        self._file = (folder / EVENT_FILES.replace("*", name)).open("xb")
        self._writer = RecordWriter(self._file)
        self._add(file_version="brain.Event:2")
        if continued:  # TensorBoard forgets what earlier files have from this step on
            self._add(session_log=SessionLog(status=SessionLog.START))
        self._add(summary=_hyperparameters(self._info))

    def _add(self, **content: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        assert self._file is not None
        self._writer.write(Event(wall_time=time.time(), step=self._step, **content).SerializeToString())
        self._file.flush()


def _scalars(values: Mapping[str, float]) -> "Summary":
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()])


def _texts(values: Mapping[str, object]) -> "Summary":
    """Text that TensorBoard shows as Markdown."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.text.metadata import create_summary_metadata
    from tensorboard.util.tensor_util import make_tensor_proto

    metadata = create_summary_metadata(display_name=None, description=None)
    texts = {name: _markdown(value).encode() for name, value in printable_copy(dict(values)).items()}
    return Summary(
        value=[
            Summary.Value(tag=name, metadata=metadata, tensor=make_tensor_proto([text])) for name, text in texts.items()
        ]
    )


def _markdown(value: object) -> str:
    if not isinstance(value, Table):
        return str(value)
    rows = [value.columns, ["---"] * len(value.columns), *value.rows]
    cells = [[str("" if cell is None else cell).replace("|", r"\|").replace("\n", " ") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _hyperparameters(info: RunInfo) -> "Summary":
    """The configuration, for the tab HParams; what is not said is left out."""
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb

    config: JsonDict = printable_copy(flatten(info.config))
    known = {path: value for path, value in config.items() if value is not None}
    plain = {path: value if isinstance(value, bool | int | float) else str(value) for path, value in known.items()}
    return hparams_pb(plain, trial_id=info.name)


def _end_of_session(exit_code: int) -> "Summary":
    """The summary by which the tab HParams shows how a run has ended."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import api_pb2, metadata
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo

    status = api_pb2.STATUS_SUCCESS if exit_code == 0 else api_pb2.STATUS_FAILURE
    end = HParamsPluginData(session_end_info=SessionEndInfo(status=status, end_time_secs=time.time()))
    described = metadata.create_summary_metadata(end)
    return Summary(
        value=[Summary.Value(tag=metadata.SESSION_END_INFO_TAG, metadata=described, tensor=metadata.NULL_TENSOR)]
    )
