"""The folder of a trial: what is in it, how it is written so that a kill at any instant leaves it readable.

Whole files are written aside and moved; files that grow are appended to line by line, and a last line that was cut
short is passed over by readers and removed by the next child. The right to write is given by a lock that the child
holds until it ends.
"""

import fcntl
import io
import json
import math
import os
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import UserError
from tuner.support.decoding import decode
from tuner.support.plain_text import MAX_REASON, plain
from tuner.support.text_files import atomic_write, sweep_unfinished
from tuner.trial import orphans, system
from tuner.trial.foreign import parse_object, read_file
from tuner.trial.messages import OUTPUT_FILE as OUTPUT_FILE
from tuner.trial.messages import JsonDict, Report, TrialResult, TrialSpec

SPEC_FILE = "trial.json"
REPORTS_FILE = "reports.jsonl"
METRICS_FILE = "metrics.jsonl"
RESULT_FILE = "result.json"
OBJECTIVE_FILE = "objective.json"
CHECKPOINT_FILE = "checkpoint.safetensors"
CLOCK_FILE = "clock.json"
"""Seconds of training until the last checkpoints."""
EVALUATED_FILE = "evaluated.json"
"""Environment steps that were done at each evaluation."""
INHERITED_FILE = "inherited.safetensors"
"""Checkpoint of another run that this one goes on from, with random numbers of its own."""
BEST_FILE = "best.safetensors"
STATE_FOLDER = "state"
"""The saved state of a function in the place of an agent, to go on from."""
LOCK_FILE = "lock"
PID_FILE = "pid"

REPLACED = (CHECKPOINT_FILE, BEST_FILE, CLOCK_FILE, EVALUATED_FILE, RESULT_FILE, OBJECTIVE_FILE, PID_FILE)
"""Files that a trial writes aside, and moves to their place."""
APPENDED = (REPORTS_FILE, METRICS_FILE, OUTPUT_FILE, LOCK_FILE)
"""Files that are written in place; others are written aside and moved, which leaves the target of a link alone."""

_POLL_S = 0.02
_KILL_PATIENCE_S = 5.0  # a killed process ends at once, unless the disk it waits for does not answer
_TAIL_BYTES = 8192
_MAX_DIGEST = 60  # characters
MAX_INPUTS = 200
"""Files that a job of a sweep is kept to have read, and a sweep as a whole."""
_MAX_BYTES = 100_000_000  # of a file that a trial has written: far more than any of ours takes


@dataclass(frozen=True)
class FolderState:
    """State of a trial, read from its folder.

    Attributes:
        spec: The trial, or None if the folder does not exist or was never completed.
        reports: The reported (step, value) pairs, in order.
        result: How it ended; None if it did not come to its end.
        alive: Whether a process holds the folder's lock.
        pid: The process that works in the folder, None if that process is gone.
    """

    spec: TrialSpec | None
    reports: tuple[tuple[float, float], ...]
    result: TrialResult | None
    alive: bool
    pid: int | None


def read_trial(folder: Path) -> FolderState:
    """Reads the folder of a trial, whatever state it was left in. Changes nothing and never waits."""
    try:
        spec = TrialSpec.from_json(_text(folder / SPEC_FILE))
    except (OSError, ValueError):
        spec = None
    return FolderState(spec, tuple(read_reports(folder)), read_result(folder), is_locked(folder), _living_pid(folder))


def wait_until_free(folder: Path, timeout_s: float) -> bool:
    """Waits until no process works in the folder. Returns False if one still does after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while is_locked(folder):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def end_leftover(folder: Path, grace_s: float = 10.0) -> bool:
    """Ends what a killed controller left running in the folder: SIGTERM, `grace_s` seconds, SIGKILL to the whole group.

    Returns when they are gone, which after SIGKILL takes a moment. Only processes that are surely the trial's are
    touched: number and start time of the leader must be those in the pid file, or the leader be gone while members of
    its group live on (as long as they do, its number is not given away).

    Returns:
        Whether there was anything to end.
    """
    noted = _noted_process(folder)
    if noted is None:
        return False
    leader, started = noted
    now = system.start_time(leader)
    if now != started and (now is not None or not system.same_boot(started)):
        return False  # the number is now another process's, or nobody can say whose group it names
    if now is not None:
        system.send_signal(leader, None, signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while system.start_time(leader) == started and time.monotonic() < deadline:
            time.sleep(_POLL_S)
    members = system.group_members(leader)
    if members:
        system.kill_group(leader)
        deadline = time.monotonic() + _KILL_PATIENCE_S
        while system.group_members(leader) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
    return now is not None or bool(members)


def sessions_of(folders: Iterable[Path]) -> set[str]:
    """Returns the marks (`tuner.trial.orphans`) of the processes that last worked in these folders."""
    found = {_noted(folder).get("session") for folder in folders}
    return {session for session in found if isinstance(session, str) and session.count("/") == 2}


def prepare(folder: Path, spec: TrialSpec) -> None:
    """Makes the folder of a trial and writes its trial.json.

    Raises:
        UserError: The folder cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        linked = link_among(folder, APPENDED)
        if linked is not None:
            raise UserError(f"{linked} is a link, and what is written goes to the files of the trial: move it away")
        atomic_write(folder / SPEC_FILE, spec.to_json())
    except OSError as error:
        raise UserError(
            f"the trial folder {folder} cannot be written: {error.strerror or error}.\n"
            "Give a directory that you may write to."
        ) from error


def link_among(folder: Path, names: Iterable[str]) -> Path | None:
    """The first of some files that is a link; None: there is none."""
    return next((folder / name for name in names if (folder / name).is_symlink()), None)


def acquire_lock(folder: Path, patience_s: float) -> int | None:
    """Takes the folder's lock for the life of this process.

    Args:
        folder: The trial's folder.
        patience_s: Seconds to wait for it: a look from outside (`is_locked`) holds it for an instant.

    Returns:
        The descriptor that holds it (not inherited by programs the process starts), or None if another process has it.
    """
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                return None
        time.sleep(_POLL_S)


def is_locked(folder: Path) -> bool:
    """Whether a process works in the folder."""
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def claim(folder: Path) -> None:
    """Notes this process in the pid file and clears what an earlier attempt left unfinished. The lock must be held."""
    pid = os.getpid()
    about = {"pid": pid, "start_time": system.start_time(pid), "session": orphans.own_session()}
    atomic_write(folder / PID_FILE, json.dumps(about))
    clear_unfinished(folder)


def clear_unfinished(folder: Path) -> None:
    """Clear what an earlier attempt left unfinished. The lock must be held."""
    sweep_unfinished(folder)
    (folder / RESULT_FILE).unlink(missing_ok=True)
    for name in (REPORTS_FILE, METRICS_FILE):
        cut_torn_tail(folder / name)


def read_reports(folder: Path) -> list[tuple[float, float]]:
    """Returns the (step, value) pairs reported so far; a line that is cut short, or no report, is passed over."""
    return [(report.step, report.value) for report in _reports(folder)]


def read_times(folder: Path) -> dict[float, float]:
    """Returns step -> seconds of training until then, of the reports that say so."""
    return {report.step: report.seconds for report in _reports(folder) if report.seconds is not None}


def read_logged(folder: Path) -> dict[str, float]:
    """Returns the last value of each metric that was logged and is a finite number."""
    last: dict[str, float] = {}
    for line in _lines(folder / METRICS_FILE):
        with suppress(ValueError):
            values = parse_object(line).items() if line.endswith(b"\n") else ()
            last.update((name, float(value)) for name, value in values if _is_number(value) and name != "step")
    return last


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _reports(folder: Path) -> list[Report]:
    reports = []
    for line in _lines(folder / REPORTS_FILE):
        with suppress(ValueError):
            if line.endswith(b"\n"):
                reports.append(decode(Report, parse_object(line)))
    return reports


def append_line(file: io.FileIO, fields: Mapping[str, object], durable: bool) -> None:
    """Appends one JSON line; `durable` waits until it is on the disk. OSError if it could not be written whole."""
    rest = memoryview(json.dumps(fields).encode() + b"\n")
    while rest:  # in one piece, unless the disk runs full
        rest = rest[file.write(rest) :]
    if durable:
        os.fsync(file.fileno())


def cut_torn_tail(path: Path) -> None:
    """Cuts a last line that is not whole off a file of JSON lines, so that the next one is not glued to it.

    Damage before it is no torn write and stays as it is: readers pass over it.

    Raises:
        OSError: See `torn_bytes`; or a link is in the file's place.
    """
    num_torn = torn_bytes(path)
    if num_torn:
        with open(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "wb") as file:
            file.truncate(os.fstat(file.fileno()).st_size - num_torn)


def torn_bytes(path: Path) -> int:
    """How long the last line of a file of JSON lines is, if it was not written to its end; else 0.

    Raises:
        OSError: There is no JSON in it, so that it is another file.
    """
    lines = _lines(path)
    if not lines or _is_whole(lines[-1]):
        return 0
    is_first = len(lines) == 1 and lines[0][:1] in (b"{", b"\0") and not lines[0].endswith(b"\n")
    if not is_first and not any(map(_is_whole, reversed(lines))):
        raise OSError(f"{path} holds no lines of JSON")
    return 0 if lines[-1].endswith(b"\n") else len(lines[-1])  # a damaged line that has an end is nobody's to remove


def _is_whole(line: bytes) -> bool:
    try:
        parse_object(line)
    except ValueError:
        return False
    return line.endswith(b"\n")


def read_result(folder: Path) -> TrialResult | None:
    """Returns the trial's result, or None if there is none that is complete."""
    try:
        return TrialResult.from_json(_text(folder / RESULT_FILE))
    except (OSError, ValueError):
        return None


def write_result(folder: Path, result: TrialResult) -> None:
    """Writes result.json aside and moves it into place."""
    atomic_write(folder / RESULT_FILE, result.to_json())


def write_objective(folder: Path, objective: JsonDict) -> None:
    """Writes objective.json: what the job of a sweep returned, {"values": [...]} or {"complaint": "why it is none"}.

    "read" in it says which files the job has read: {name: digest}.
    """
    atomic_write(folder / OBJECTIVE_FILE, json.dumps(objective))


def read_objective(folder: Path) -> JsonDict:
    """Returns what `write_objective` wrote; a complaint if that is missing or something else."""
    try:
        objective = parse_object(_text(folder / OBJECTIVE_FILE))
        if "complaint" in objective:
            return {"complaint": plain(str(objective["complaint"]), MAX_REASON, OUTPUT_FILE)}
        values = [float(value) for value in objective["values"]]
        read = objective.get("read", {}).items()
        return {"values": values, "read": {name: digest and str(digest)[:_MAX_DIGEST] for name, digest in read}}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return {"complaint": f"its process left no {OBJECTIVE_FILE}"}


def tail_of_output(folder: Path, num_lines: int = 20) -> str:
    """Returns the last lines of the trial's output."""
    try:
        text = read_file(folder / OUTPUT_FILE, _TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-num_lines:])


def explanation_in(folder: Path) -> Path:
    """Returns the file that says most of how a trial ended: its output, or its result where it printed nothing.

    The folder itself, where neither is there.
    """
    for name in (OUTPUT_FILE, RESULT_FILE):
        with suppress(OSError, ValueError):  # ValueError: no path that the system takes
            if (folder / name).stat().st_size:
                return folder / name
    return folder


def _lines(path: Path) -> list[bytes]:
    try:
        return read_file(path, _MAX_BYTES).splitlines(keepends=True)
    except OSError:
        return []


def _text(path: Path) -> bytes:
    return read_file(path, _MAX_BYTES)


def _noted_process(folder: Path) -> tuple[int, str] | None:
    noted = _noted(folder)
    try:
        return int(noted["pid"]), str(noted["start_time"])
    except (ValueError, KeyError, TypeError):
        return None


def _noted(folder: Path) -> JsonDict:
    try:
        return parse_object(_text(folder / PID_FILE))
    except (OSError, ValueError):
        return {}


def _living_pid(folder: Path) -> int | None:
    noted = _noted_process(folder)
    return noted[0] if noted is not None and system.start_time(noted[0]) == noted[1] else None
