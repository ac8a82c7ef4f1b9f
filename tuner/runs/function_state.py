"""Saved state of a function in the place of an agent: a folder of its own making, or arrays and numbers.

Each checkpoint is a numbered folder. It is written aside and moved into place when it is whole; then older ones are
removed. Arrays are written as `note_rl.training.checkpoint` writes them, what is no array as JSON: no pickle.
"""

import importlib
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from note_rl.errors import CheckpointError
from note_rl.support.atomic_files import atomic_folder
from note_rl.support.formats import WRITTEN_BY, marked, why_unreadable
from note_rl.training.checkpoint import read_checkpoint, write_checkpoint
from note_rl.types import Array
from tuner.errors import UserError
from tuner.results.metric import STEP_TOLERANCE
from tuner.support.plain_text import MAX_NAME, one_line
from tuner.support.text_files import FULL, parse_json
from tuner.trial.folder import METRICS_FILE, STATE_FOLDER
from tuner.trial.messages import JsonDict
from tuner.trial.reporter import Reporter

HEAD_FILE, ARRAYS_FILE = "checkpoint.json", "state.safetensors"
_FILES = "files"
_NUMBERED = re.compile(r"\d{6,12}")
_ASIDE = re.compile(r"\..+\.(?P<pid>\d{1,10})-\w+\.aside")
_MOST_BYTES_OF_A_NUMBER = 8
_CHUNK = 2**20


def report(trial: Reporter, step: float, value: float, metrics: Mapping[str, float], state: Any = None) -> None:
    """Reports a value of a run, and what was measured beside it; see `tuner.report`.

    Raises:
        UserError: A metric is no number, or `state` is nothing that can be saved.
        TrialInterrupted: The run is to end early.
    """
    for name, measured in metrics.items():
        if _scalar(measured) is None:
            given = one_line(repr(measured), MAX_NAME)
            raise UserError(f"tuner.report(..., {name}={given}): a metric must be one number")
    plainly = {name: float(_scalar(measured) or 0.0) for name, measured in metrics.items()}
    if state is not None:
        place, number = _scalar(step), _scalar(value)
        wrong = getattr(trial, "wrong", lambda *_: "")(place, number)
        refused = bool(wrong) or None in (place, number)  # by the report that follows
        budget = _total_steps(trial)
        follows = {"step": place, "value": number, "metrics": plainly, "total_steps": budget}
        save(trial, state, None if refused else follows)
    _report(trial, step, value, plainly)


def _report(trial: Reporter, step: float, value: float, metrics: Mapping[str, float]) -> None:
    """An earlier attempt may have been killed between its report and its metrics: they are logged if they are not."""
    place = _scalar(step)
    is_new = place not in dict(trial.reported)
    try:
        trial.report(step, value)
    finally:  # the report may end the run
        if metrics and place is not None and place in dict(trial.reported):  # else it was refused
            if is_new or place in _unlogged(trial):
                trial.log(_place(trial, place), {**metrics, REPORT_STEP: place})
            _unlogged(trial).discard(place)


_UNLOGGED: WeakKeyDictionary[Reporter, set[float]] = WeakKeyDictionary()


def _unlogged(trial: Reporter) -> set[float]:
    """Where earlier attempts have made reports without metrics; none of a run that keeps no metrics to look at."""
    if trial not in _UNLOGGED:
        path = folder_of(trial) / METRICS_FILE
        reported = {step for step, _ in trial.reported} if path.exists() else set()
        _UNLOGGED[trial] = reported.difference(_logged_steps(path)) if reported else reported
    return _UNLOGGED[trial]


def _logged_steps(path: Path) -> Iterator[float]:
    for line in path.read_bytes().splitlines():
        with suppress(ValueError, TypeError):
            row = parse_json(line)
            if isinstance(row, dict) and REPORT_STEP in row and REPORT_METRIC not in row:
                yield float(row[REPORT_STEP])


REPORT_STEP = "report/step"
"""Of a row of metrics that were measured with a report: where in the run that was."""
REPORT_METRIC: Final = "report/value"
"""The trackers' name for the value that a run reports; it has a row of its own."""


def _place(trial: Reporter, step: float) -> int:
    """On the axis of trackers: environment steps of a run that has them."""
    total_steps = _total_steps(trial)
    return round(step * total_steps) if 0.0 < step <= 1.0 and total_steps else round(step)


def _total_steps(trial: Reporter) -> int:
    """The budget of a run; 0: it has none."""
    return int(getattr(trial, "total_steps", 0))


def save(trial: Reporter, state: Any, pending: JsonDict | None = None) -> None:
    """Saves what a run goes on from; see `tuner.checkpoint`.

    Args:
        trial: The run.
        state: A folder, or arrays and numbers.
        pending: The report that comes next, which a run makes that goes on from here and has not.

    Raises:
        UserError: It is nothing that can be saved.
        TrialInterrupted: The run is to end: it was saved before.
    """
    store = FunctionState(folder_of(trial))
    if isinstance(state, Mapping):
        store.write_arrays(state, pending)
    elif isinstance(state, str | os.PathLike):
        store.write_folder(Path(state), pending)
    else:
        given = one_line(repr(state), MAX_NAME)
        raise UserError(f"tuner.checkpoint({given}): give a folder, or a dictionary of arrays and numbers")
    trial.alive(max((step for step, _ in trial.reported), default=0.0))


def resume(trial: Reporter) -> Any:
    """The state in the last complete checkpoint of a run; see `tuner.resume`.

    Raises:
        TrialInterrupted: The run is to end early: the answer to its last report.
        UserError, note_rl.errors.CheckpointError: It is damaged, or of a newer version.
    """
    store = FunctionState(folder_of(trial))
    found = store.newest()
    for why in store.passed_over:
        goes_on = "the run goes on from an older one" if found is not None else "the run begins anew"
        trial.note(f"tuner.resume: {why}: this checkpoint is not used, {goes_on}")
    if found is None:
        return None
    state, pending = found.read(), found.pending
    if pending is not None:  # also if it was reported: the answer may have reached no attempt
        step = float(pending["step"])
        before, after = int(pending.get("total_steps", 0)), _total_steps(trial)
        has_another_budget = 0 < before != after > 0
        if has_another_budget:
            step = step * before / after
        known = next((one for one in trial.reported if abs(one[0] - step) <= STEP_TOLERANCE), None)
        if has_another_budget and known is not None:
            _unlogged(trial).discard(known[0])  # its row of metrics names it by its place in the former budget
        step, value = known or (step, float(pending["value"]))
        _report(trial, step, value, pending["metrics"])
    return state


def folder_of(trial: Reporter) -> Path:
    """The folder of a run."""
    return Path(getattr(trial, "folder", "."))


class FunctionState:
    """The checkpoints of a run that its function writes: the newest complete one counts.

    Args:
        run: The folder of the run.

    Attributes:
        passed_over: Faults in those that `newest` has not taken, the newest first.
    """

    def __init__(self, run: Path) -> None:
        self._root = run / STATE_FOLDER
        self.passed_over: list[str] = []

    def newest(self) -> "SavedState | None":
        """The last complete checkpoint; None: there is none.

        Raises:
            UserError: It is of a newer version.
        """
        self.passed_over = []
        for _, path in sorted(self._numbered(), reverse=True):
            head = _head_of(path)
            if isinstance(head, str):
                self.passed_over.append(head)
            else:
                why = why_unreadable(head.get(WRITTEN_BY))
                if why is not None:
                    raise UserError(f"cannot read the checkpoint {path}: {why}")
                return SavedState(path, head)
        return None

    def read_newest(self) -> Any:
        """The content of the last complete checkpoint; None: there is none.

        A run in progress may replace it meanwhile: then the next one is read.

        Raises:
            UserError, note_rl.errors.CheckpointError: It is damaged, or of a newer version.
        """
        found = self.newest()
        while found is not None:
            try:
                return found.read()
            except (OSError, CheckpointError):
                before, found = found, self.newest()
                if found is None or found.path == before.path:
                    raise
        return None

    @contextmanager
    def writing(self, pending: JsonDict | None = None) -> Iterator[Path]:
        """An empty folder for the files of a checkpoint; behind the block they are the newest one.

        Raises:
            UserError: The disk is full, or the folder cannot be written.
        """
        with self._next({"kind": "folder", "pending": pending}) as folder:
            files = folder / _FILES
            files.mkdir()
            yield files

    def write_folder(self, source: Path, pending: JsonDict | None = None) -> None:
        """Copies a folder. Links in it become what they lead to.

        Raises:
            UserError: There is no such folder, or it cannot be copied.
        """
        if not source.is_dir():
            raise UserError(f"tuner.checkpoint({str(source)!r}): there is no such folder")
        if self._root.absolute().is_relative_to(source.absolute()):
            raise UserError(
                f"tuner.checkpoint({str(source)!r}): that is the folder of the run itself; make one within it, such as "
                "'my_state', and give that"
            )
        with self.writing(pending) as files:
            shutil.copytree(source, files, dirs_exist_ok=True)

    def write_arrays(self, state: Mapping[str, Any], pending: JsonDict | None = None) -> None:
        """Writes arrays and numbers, in dictionaries, lists and tuples of any depth.

        Raises:
            UserError: Something else is in it.
            note_rl.errors.CheckpointError: It cannot be written.
        """
        arrays: dict[str, Array] = {}
        tree = _encoded(state, "", arrays)
        with self._next({"kind": "arrays", "pending": pending}) as folder:
            write_checkpoint(folder / ARRAYS_FILE, arrays, {"state": tree})

    @contextmanager
    def _next(self, about: JsonDict) -> Iterator[Path]:
        known = list(self._numbered())
        number = max((number for number, _ in known), default=0) + 1
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            with atomic_folder(self._root / f"{number:06d}") as aside:
                aside.mkdir()
                yield aside
                written = {path.relative_to(aside).as_posix(): path for path in _files_in(aside)}
                content = {"files": {name: _on_disk(path) for name, path in written.items()}}
                if about["kind"] == "folder":  # whose files a program may write into, once it has it back
                    content["checksums"] = {name: _checksum(path) for name, path in written.items()}
                head = aside / HEAD_FILE
                head.write_text(json.dumps(marked({**about, **content})), encoding="utf-8")
                _on_disk(head)
        except OSError as error:
            if error.errno in FULL:
                raise UserError(f"tuner.checkpoint: the disk is full ({self._root})") from error
            raise
        for _, path in known:
            shutil.rmtree(path, ignore_errors=True)
        self._sweep()

    def _numbered(self) -> Iterator[tuple[int, Path]]:
        if self._root.is_dir():
            for path in self._root.iterdir():
                if _NUMBERED.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                    yield int(path.name), path

    def _sweep(self) -> None:
        """Removes what killed processes were writing: this process holds the run, and is not writing now."""
        for path in self._root.iterdir():
            if _ASIDE.fullmatch(path.name):
                shutil.rmtree(path, ignore_errors=True)


class SavedState:
    """A complete checkpoint of a function.

    Args:
        path: Its folder.
        head: Its head.

    Attributes:
        path: Its folder.
        pending: The report that was to follow it.
    """

    def __init__(self, path: Path, head: JsonDict) -> None:
        self.path = path
        self._kind = head["kind"]
        self.pending: JsonDict | None = head["pending"]

    def read(self) -> Any:
        """The folder, or arrays and numbers as they were given.

        Raises:
            note_rl.errors.CheckpointError, UserError: It is damaged.
        """
        if self._kind == "folder":
            return self.path / _FILES
        arrays, head = read_checkpoint(self.path / ARRAYS_FILE)
        try:
            return _decoded(head["state"], arrays)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise UserError(f"{self.path / ARRAYS_FILE} is damaged: {error!r}") from error


def _head_of(path: Path) -> JsonDict | str:
    """The head of a checkpoint; of an incomplete one, the reason."""
    try:
        head = parse_json((path / HEAD_FILE).read_bytes())
        sizes, kind, pending = head["files"], head["kind"], head["pending"]
        sums = head.get("checksums", {})  # earlier versions wrote none
        changed = next((name for name, size in sizes.items() if _size(path / name) != size), None)
        changed = changed or next((name for name, one in sums.items() if _checksum(path / name) != one), None)
        whole = kind in ("folder", "arrays") and (pending is None or {"step", "value", "metrics"} <= pending.keys())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{path / HEAD_FILE} cannot be read ({one_line(str(error), MAX_NAME)})"
    if changed is not None:
        return (
            f"{path / changed} was changed or removed after it was saved (copy what tuner.resume() returns before you "
            "change it)"
        )
    if not whole or not (path / (_FILES if kind == "folder" else ARRAYS_FILE)).exists():
        return f"{path} is not complete"
    return dict(head)


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() and not path.is_symlink() else None


def _checksum(path: Path) -> int:
    total = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            total = zlib.crc32(chunk, total)
    return total


def _files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _on_disk(path: Path) -> int:
    """Waits until a file is on the disk; returns its size."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size


def _encoded(value: Any, path: str, arrays: dict[str, Array]) -> Any:
    """JSON form of a value; its arrays are put among `arrays`, by their paths."""
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {"dict": [[_key(key, path), _encoded(one, _below(path, key), arrays)] for key, one in value.items()]}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_encoded(one, _below(path, number), arrays) for number, one in enumerate(value)]}
    is_tensor = _is_tensor(value)
    if not (is_tensor or hasattr(value, "__array__")):
        raise _unfit(path, value)
    try:
        array = np.asarray(value.detach().cpu().numpy() if is_tensor else value)
    except (TypeError, ValueError, RuntimeError) as error:  # bfloat16, sparse tensors: NumPy has nothing of the kind
        raise _unfit(path, value) from error
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > _MOST_BYTES_OF_A_NUMBER:
        raise _unfit(path, value)
    name = path
    while name in arrays:  # a key with a slash in it
        name += "'"
    arrays[name] = array
    return {"tensor" if is_tensor else "array": name}


def _decoded(node: Any, arrays: Mapping[str, Array]) -> Any:
    """The value that `_encoded` had."""
    if not isinstance(node, dict):
        return node
    ((kind, content),) = node.items()
    if kind == "dict":
        return {key: _decoded(one, arrays) for key, one in content}
    if kind in ("list", "tuple"):
        several = [_decoded(one, arrays) for one in content]
        return several if kind == "list" else tuple(several)
    return importlib.import_module("torch").from_numpy(arrays[content]) if kind == "tensor" else arrays[content]


def _is_tensor(value: Any) -> bool:
    """Of PyTorch, which is not imported for the question."""
    return any(kind.__module__ == "torch" and kind.__name__ == "Tensor" for kind in type(value).__mro__)


def _key(key: Any, path: str) -> str | int:
    if isinstance(key, str) or (isinstance(key, int) and not isinstance(key, bool)):
        return key
    raise UserError(f"tuner.checkpoint: {_named(path)} has the key {key!r}; keys must be texts or whole numbers")


def _below(path: str, key: object) -> str:
    return f"{path}/{key}" if path else str(key)


def _unfit(path: str, value: Any) -> UserError:
    kind = type(value).__name__
    dtype = f" of {value.dtype}" if hasattr(value, "dtype") else ""
    return UserError(
        f"tuner.checkpoint: {_named(path)} is a {kind}{dtype}, which is not saved: arrays of numbers, numbers, texts, "
        "and dictionaries, lists and tuples of them are; write anything else to a folder and give that"
    )


def _named(path: str) -> str:
    return f"{path!r}" if path else "it"


def _scalar(value: Any) -> float | None:
    """A number, also one that an array of one element holds; None: it is none."""
    convert: Callable[[Any], float] = float
    if isinstance(value, str | bytes | bool) or getattr(value, "shape", ()) not in ((), (1,)):
        return None
    try:
        return convert(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError, OverflowError):
        return None
