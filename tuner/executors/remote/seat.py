"""The far end: a process that runs one trial at a time on its machine."""

import hashlib
import os
import platform
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

import note_rl
import tuner
from tuner.executors.base import TrialEnded
from tuner.executors.local import LocalExecutor
from tuner.executors.remote.exchange import Happened, Order, SeatInfo, SeatSettings, TrialStart
from tuner.executors.remote.folder_changes import FolderWatch, apply_changes, size_of
from tuner.trial import folder as files
from tuner.trial.messages import Outcome, TrialResult, TrialSpec

_SCRATCH_PREFIX: Final = "tuner-seat-"
_ALWAYS: Final = ("numpy", "gymnasium")
_PACKAGES: Final = {"torch": ("torch",), "keras": ("keras", "tensorflow"), "none": (), None: ()}
_BUILT_ON: Final = {"torch": ("stable-baselines3", "sb3-contrib", "sbx-rl", "jax")}
"""Libraries whose algorithms may run in the place of an agent, by the module that they need first."""
_NOT_INSTALLED: Final = "not installed"


class Seat:
    """One trial at a time, through a LocalExecutor.

    Every call of `exchange` has a number; one that is asked again, since its answer was lost on the way, is answered
    the same and done once.

    Args:
        settings: Its settings.
    """

    def __init__(self, settings: SeatSettings) -> None:
        self._settings = settings
        self._executor = LocalExecutor(
            1, settings.preload, settings.isolation, settings.limits, settings.threads, gpus=None, keeps_paused=False
        )  # the GPUs that it sees are those that the cluster has given it; a part of a run may come to another seat
        self._scratch, self._lock = own_folder(_SCRATCH_PREFIX)
        self._key = ""
        self._watch: FolderWatch | None = None
        self._number = -1
        self._last = Happened()
        self._heard_at = time.monotonic()
        if settings.lease_s is not None:
            threading.Thread(target=self._leave_when_deserted, args=(settings.lease_s,), daemon=True).start()

    def hello(self) -> SeatInfo:
        """Where it is."""
        preload = self._settings.preload
        return SeatInfo(socket.gethostname(), os.getpid(), versions(preload.backend, preload.others))

    def exchange(self, number: int, order: Order, timeout_s: float) -> Happened:
        """Does what is ordered, and says what has happened, waiting for it up to `timeout_s` seconds."""
        self._heard_at = time.monotonic()
        if number != self._number:
            self._last = self._obey(order, timeout_s)
            self._number = number
        return self._last

    def close(self) -> None:
        """Ends its trial and leaves nothing behind."""
        self._executor.close()
        os.close(self._lock)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _obey(self, order: Order, timeout_s: float) -> Happened:
        if order.start is not None:
            self._start(order.start)
        if order.verdict is not None:
            self._executor.answer(self._key, order.verdict)
        if order.stop:
            self._executor.stop_all()
        events = self._executor.wait(timeout_s)
        changes = {} if self._watch is None else self._watch.changes()
        used_mb = size_of(changes) / 1e6
        if used_mb <= self._settings.max_transfer_mb:
            return Happened(events, changes)
        self._executor.stop_all()
        while self._executor.free_slots == 0:
            self._executor.wait()
        reason = (
            f"its files have changed by {used_mb:.0f} MB at once, and executor.max_transfer_mb="
            f"{self._settings.max_transfer_mb:g} may be sent: executor.files=shared keeps them where they are, "
            "checkpoint=small leaves out the replay buffer, agent.save_replay=false that of another library's algorithm"
        )
        return Happened([TrialEnded(self._key, TrialResult(Outcome.CRASHED, reason, deterministic=True))])

    def _start(self, start: TrialStart) -> None:
        spec = TrialSpec.from_json(start.spec)
        self._key = spec.key
        if self._settings.shared:
            folder = Path(start.folder)
        else:
            folder = self._scratch / "trial"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            apply_changes(folder, start.files)
            self._watch = FolderWatch(folder)
            self._watch.changes()  # the controller has these
        self._executor.start(spec, folder, start.function or None)

    def _leave_when_deserted(self, lease_s: float) -> None:
        """Ends this process, by which its fork server and its trial end too, once nobody has asked for `lease_s`."""
        while time.monotonic() - self._heard_at < lease_s:
            time.sleep(lease_s / 10)
        os._exit(1)


def versions(backend: str | None, others: Sequence[str] = ()) -> dict[str, str]:
    """Of what results depend on, by name; of this project a digest of its source, as checkouts share a number.

    Args:
        backend: The framework.
        others: Further modules that trials have imported when they begin; what is built on them counts if it is there.
    """
    packages = {name: _version(name) for name in (*_ALWAYS, *_PACKAGES[backend])}
    built_on = {name: _version(name) for module in others for name in (module, *_BUILT_ON.get(module, ()))}
    there = {name: version for name, version in built_on.items() if version != _NOT_INSTALLED}
    return {"python": platform.python_version(), "note-rl": _digest(), **packages, **there}


@cache
def _digest() -> str:
    found = hashlib.sha256()
    for module in (note_rl, tuner):
        root = Path(str(module.__file__)).parent
        for path in sorted(root.rglob("*.py")):
            found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:12]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return _NOT_INSTALLED


def own_folder(prefix: str, place: Path | None = None) -> tuple[Path, int]:
    """A folder that nobody else may read, and the lock that says that this process lives; those of dead ones go.

    Args:
        prefix: Of its name, and of those that are removed.
        place: Where it is made; None: where temporary files are.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    lock = files.acquire_lock(folder, patience_s=1.0)
    if lock is None:
        raise RuntimeError(f"{folder} was made just now and is locked")
    for other in folder.parent.glob(f"{prefix}*"):
        with suppress(OSError):  # another user's, or gone meanwhile
            if (other / files.LOCK_FILE).exists() and not files.is_locked(other):
                shutil.rmtree(other)
    return folder, lock
