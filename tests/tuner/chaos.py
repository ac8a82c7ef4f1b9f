"""Disturbs a study of real agents at random moments, and compares it with one that was left alone.

The study runs as a command in a folder of its own. Ctrl-C, SIGTERM and `kill -9` come to its controller, its fork
server and its trials, one by one and all together; whenever the command has ended, the same command is given again.
"""

import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from note_rl.training.checkpoint import read_checkpoint
from tuner.results.records import RunRecord
from tuner.study import StudyStore, summarise
from tuner.trial import folder as files

ROOT = Path(__file__).parents[2]
STUDY = "chaos"
MARK = "CHAOS_OF_TESTS"
"""Environment variable that everything has which such a study has started, whatever became of its parents."""

KINDS = ("ctrl-c", "sigterm", "controller", "forkserver", "trial", "everything")
_ENDS = {
    "ctrl-c": (130, -signal.SIGINT),  # the latter as long as it imports
    "sigterm": (130, -signal.SIGTERM),
    "controller": (-signal.SIGKILL,),
    "everything": (-signal.SIGKILL,),
}
"""Exit status of the controller after disturbances that end it."""

_PATIENCE_S = 600.0
"""How long a command may go on without a disturbance; the studies take a few minutes at most."""


class Chaos:
    """One study and who disturbs it.

    Args:
        folder: Where the command runs.
        arguments: Of `tuner tune`.
        seed: Of the disturbances.
        tell: Called with a line for each disturbance.
    """

    def __init__(
        self, folder: Path, arguments: Sequence[str], seed: int = 0, tell: Callable[[str], None] = lambda line: None
    ) -> None:
        self.folder = folder.resolve()
        self.counted: Counter[str] = Counter()
        self.num_sessions = 0
        self._command = [sys.executable, "-m", "tuner", "tune", f"study.name={STUDY}", *arguments]
        self._mark = uuid.uuid4().hex
        self._dice = random.Random(seed)
        self._tell = tell
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, kinds: Sequence[str] = (), longest_wait_s: float = 5.0) -> list[str]:
        """Runs the study to its end, with these disturbances one after the other.

        Args:
            kinds: What is done, of `KINDS`.
            longest_wait_s: Most seconds from the former disturbance, or from the first trial at work, to each.

        Returns:
            What was not done, as the study was over before.
        """
        waiting = list(kinds)
        while True:
            process = self._start()
            try:
                last = self._disturb(process, waiting, longest_wait_s)
                status = process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired as error:
                raise AssertionError(f"it hangs after {dict(self.counted)}:\n{self.output[-3000:]}") from error
            finally:
                process.kill()
                process.wait()
            assert self._may_end_so(status, last), f"status {status} after {last}:\n{self.output[-3000:]}"
            if status == 0:
                break
        if last:  # it came when nothing was left to be stopped
            self.counted[last] -= 1
            waiting.insert(0, last)
        assert self.left_over(patience_s=30.0) == []
        return waiting

    @property
    def output(self) -> str:
        """All that was printed."""
        return (self.folder / "output.txt").read_text(errors="replace")

    def left_over(self, patience_s: float = 0.0) -> list[str]:
        """Living processes that the study has started and that do not end within this time."""
        deadline = time.monotonic() + patience_s
        while (found := list(self._living())) and time.monotonic() < deadline:
            time.sleep(0.1)
        return [f"{process.pid} {' '.join(process.cmdline())[:200]}" for process in found]

    def records(self) -> list[dict[str, Any]]:
        """All runs, without what the clock has to do with."""
        with StudyStore(f"sqlite:///{self.folder}/studies.db") as store:
            runs = summarise(store, STUDY, self.folder / "studies" / STUDY).runs
        return [_timeless(run) for run in runs]

    def parameters(self) -> dict[str, bytes]:
        """Parameters of each run, bit for bit: all arrays of its last checkpoint."""
        found = {}
        for path in sorted((self.folder / "studies" / STUDY).rglob(files.CHECKPOINT_FILE)):
            arrays, _ = read_checkpoint(path)
            place = path.parent.relative_to(self.folder)
            found.update({f"{place}/{name}": array.tobytes() for name, array in arrays.items()})
        return found

    def _may_end_so(self, status: int, last: str) -> bool:
        """Whether a controller may have this exit status after the last disturbance."""
        return status in (*_ENDS.get(last, ()), 0)

    def _start(self) -> subprocess.Popen[bytes]:
        self.num_sessions += 1
        environment = {**os.environ, "PYTHONPATH": str(ROOT), MARK: self._mark}
        with (self.folder / "output.txt").open("ab") as output:
            return subprocess.Popen(self._command, cwd=self.folder, env=environment, stdout=output, stderr=output)

    def _disturb(self, process: subprocess.Popen[bytes], waiting: list[str], longest_wait_s: float) -> str:
        """Does what waits, as long as the controller lives; what has ended it, if anything."""
        while waiting and self._someone_at_work(process):
            time.sleep(self._dice.uniform(0.0, longest_wait_s))
            if process.poll() is not None:
                break
            kind = waiting[0]
            if not self._strike(process, kind):
                continue
            del waiting[0]
            self.counted[kind] += 1
            self._tell(f"{self.counted.total():3d} {kind}")
            if kind in _ENDS:
                return kind
        return ""

    def _someone_at_work(self, process: subprocess.Popen[bytes]) -> bool:
        """Waits for a trial at work; False if the controller ended before."""
        deadline = time.monotonic() + _PATIENCE_S
        while process.poll() is None:
            if self._trials():
                return True
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(self._command, _PATIENCE_S)
            time.sleep(0.05)
        return False

    def _strike(self, process: subprocess.Popen[bytes], kind: str) -> bool:
        """Whether there was something to strike."""
        if kind in ("ctrl-c", "sigterm"):
            process.send_signal(signal.SIGINT if kind == "ctrl-c" else signal.SIGTERM)
            return True
        servers = [one for one in self._living() if "tuner.trial.forkserver" in " ".join(_words_of(one)[:3])]
        trials = self._trials()
        servers = [one for one in servers if one.pid not in {trial.pid for trial in trials} and _leads(one)]
        victims = {"controller": [psutil.Process(process.pid)], "forkserver": servers, "trial": trials[:1]}
        victims["everything"] = [*victims["controller"], *servers, *trials]
        for victim in victims[kind]:
            try:
                victim.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
        return bool(victims[kind])

    def _trials(self) -> list[psutil.Process]:
        """Those that work in a folder of the study, in random order."""
        found = []
        for path in (self.folder / "studies" / STUDY).glob(f"*/*/{files.PID_FILE}"):
            pid = files.read_trial(path.parent).pid
            if pid is not None and psutil.pid_exists(pid):
                found.append(psutil.Process(pid))
        self._dice.shuffle(found)
        return found

    def _living(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found


def _words_of(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:  # it has just ended
        return []


def _leads(process: psutil.Process) -> bool:
    """Whether it is the fork server and no process that was forked from it and forked again."""
    try:
        parent = process.parent()
        return parent is None or "tuner.trial.forkserver" not in " ".join(parent.cmdline()[:3])
    except psutil.NoSuchProcess:  # it has just ended
        return False


def _timeless(run: RunRecord) -> dict[str, Any]:
    return {name: value for name, value in asdict(run).items() if name not in ("seconds", "folder")}


def assert_equal(disturbed: Chaos, alone: Chaos) -> None:
    """Same runs, same curves and scores, same parameters: bit for bit.

    Raises:
        AssertionError: Names what differs.
    """
    left, right = disturbed.records(), alone.records()
    for one, other in zip(left, right, strict=True):
        assert one == other, f"disturbed {one}\nalone {other}"
    learned, expected = disturbed.parameters(), alone.parameters()
    assert learned.keys() == expected.keys()
    different = [name for name in learned if learned[name] != expected[name]]
    assert not different, f"other numbers in {different[:5]}"
