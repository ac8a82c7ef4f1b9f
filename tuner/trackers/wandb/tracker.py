"""Weights & Biases: one W&B run per training run, grouped by study; one for all parts of a run that has some.

The controller never waits for W&B: its calls are queued and made in a background thread. Whatever goes wrong there is
one logged warning. If the server cannot be reached, this run and all later ones are recorded offline, to be uploaded
with `wandb sync`; if even that fails, W&B is off for the rest of the session.
"""

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tuner.results.number_format import counted
from tuner.support.plain_text import printable_copy, shortened
from tuner.trackers.background import BackgroundCalls
from tuner.trackers.base import RunInfo, Table
from tuner.trackers.wandb.run_mode import (
    RUN_ID_FILE,
    Mode,
    agents_run,
    check_settings,
    have_a_cache,
    resolve_mode,
    run_id_of,
    without_agent,
)
from tuner.trackers.wandb.sdk import run_settings, table_of, wandb_errors
from tuner.trackers.wandb.wandb_internals import disable_usage_statistics, lost_service_errors
from tuner.trackers.watchdog import kill_at_exit
from tuner.trial.messages import JsonDict

if TYPE_CHECKING:
    import wandb

EXIT_GRACE_S: Final = 5.0
OFFLINE_PATIENCE_S: Final = 600.0
"""For one call of W&B's service process where nothing is sent: only one that hangs takes as long."""

_OF_AN_AGENT: Final = ("study", "train")  # kinds of runs, of which `wandb agent` has planned the first one
_LONGEST_NAME: Final = 128  # of what W&B takes
_LONGEST_TAG: Final = 64

logger = logging.getLogger(__name__)


class WandbTracker:
    """Tracks runs with Weights & Biases.

    Args:
        project: W&B project.
        mode: "auto", "online", "offline" or "disabled"; see `resolve_mode`.
        directory: where W&B's files go (a folder `wandb` in it); by default the folder of the
            study, so that one `wandb sync` sends all its runs, or of the run where there is no study.
        entity: W&B user or team; by default that of the key.
        group: what its runs are grouped by; by default the study, or the agent and its environment.
        tags: free words for each run, besides those that tell its kind.
        server_timeout_s: how long the server may take to accept a run, and at its end the rest of its data.
        queue_size: measurements that may wait; further ones are dropped, with one warning.

    Raises:
        UserError: an unknown mode, a project name that W&B does not accept, or a timeout of nothing.
    """

    def __init__(
        self,
        project: str = "tuner",
        mode: str = "auto",
        directory: Path | str | None = None,
        entity: str | None = None,
        group: str | None = None,
        tags: Sequence[str] = (),
        server_timeout_s: float = 15.0,
        queue_size: int = 10_000,
    ) -> None:
        check_settings(project, server_timeout_s)
        self._calls = BackgroundCalls("tracker-wandb", queue_size)
        self._session = _Session(project, entity, resolve_mode(mode), directory, server_timeout_s)
        self._group, self._tags = group, tuple(tags)
        self._wholes: dict[Path, _WholeRun] = {}

    def start_run(self, info: RunInfo) -> "WandbRun | WandbPart":
        """Begins a run; the same W&B run again if the folder was tracked before. Returns at once."""
        if info.part is None:
            return WandbRun(self._session, self._calls, self._as_wished(info))
        about = self._as_wished(info.part.whole)
        if about.folder not in self._wholes:
            self._wholes[about.folder] = _WholeRun(WandbRun(self._session, self._calls, about))
        return WandbPart(self._wholes[about.folder], info.part.begins_with)

    def _as_wished(self, info: RunInfo) -> RunInfo:
        return replace(info, group=self._group or info.group, tags=(*info.tags, *self._tags))

    def close(self, timeout_s: float = 10.0) -> None:
        """Delivers what is waiting; runs left open are closed as failed. Nothing is accepted any more.

        A server is waited for `timeout_s` seconds, files on this machine until they are written. What is missing then
        is one logged line.
        """
        if self._calls.closed:
            return
        for whole in self._wholes.values():
            whole.run.finish(whole.exit_code, whole.summary)
        session = self._session
        if session.runs_queued:
            self._calls.submit(session.finish_open_runs)
        done = False
        try:
            done = self._calls.close(timeout_s, session.still_records)
        finally:  # Ctrl-C while it is waited for
            if not done:
                logger.warning("%s: %s (metrics.jsonl has them all)", session.what_failed(timeout_s), session.unsent())
                session.abandon()


class WandbRun:
    """One run. Every method queues a call and returns at once."""

    def __init__(self, session: "_Session", calls: BackgroundCalls, info: RunInfo) -> None:
        self._session = session
        self._calls = calls
        # A copy, as the caller may go on using its dictionary while the call waits; W&B takes no halves of characters.
        self._slot = _Slot(replace(info, config=printable_copy(_config_of(info))))
        if session.mode != "disabled" and calls.submit(lambda: session.open(self._slot)):
            session.runs_queued += 1

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Queues one row of the history; rows of the same step are merged by W&B."""
        session, slot = self._session, self._slot
        if session.mode == "disabled" or self._calls.closed:
            return
        row = {name: float(value) for name, value in metrics.items()}
        if self._calls.submit(lambda: session.log(slot, int(step), row), droppable=True):
            session.rows_queued += 1
        else:
            session.warn_once("dropped", "W&B is too slow: measurements are dropped (they are in metrics.jsonl)")

    def finish(self, exit_code: int = 0, summary: Mapping[str, object] | None = None) -> None:
        """Queues the end of the run."""
        if self._session.mode != "disabled":
            values = {name: printable_copy(value) for name, value in (summary or {}).items()}
            self._calls.submit(lambda: self._session.finish(self._slot, exit_code, values))


@dataclass
class _WholeRun:
    """A run of several parts: up to which step it is sent, and how its last part ended."""

    run: WandbRun
    step: int = 0
    exit_code: int = 1
    summary: Mapping[str, object] = field(default_factory=dict)


class WandbPart:
    """See `PartOfRun`. What it begins with comes with its first measurements, as only these have a step."""

    def __init__(self, whole: _WholeRun, begins_with: Mapping[str, float]) -> None:
        self._whole = whole
        self._begins_with = begins_with

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Queues one row of the whole's history."""
        self._whole.step = max(self._whole.step, step)
        self._whole.run.log(self._whole.step, {**self._begins_with, **metrics})
        self._begins_with = {}

    def finish(self, exit_code: int = 0, summary: Mapping[str, object] | None = None) -> None:
        """Keeps how it ended; the whole ends with the tracker."""
        self._whole.exit_code, self._whole.summary = exit_code, summary or {}


@dataclass
class _Slot:
    """A run as the background thread sees it. `run` is None before it is opened, after it ended, and if W&B failed."""

    info: RunInfo
    run: "wandb.Run | None" = None


class _Session:
    """All that talks to `wandb`; used by the background thread, apart from the counters of what was queued."""

    def __init__(
        self, project: str, entity: str | None, mode: Mode, directory: Path | str | None, server_timeout_s: float
    ) -> None:
        self.mode: Mode = mode
        self.rows_queued = self.rows_sent = self.runs_queued = self.runs_ended = 0
        self._project = project
        self._entity = entity
        self._directory = None if directory is None else Path(directory)
        self._server_timeout_s = server_timeout_s
        self._open: list[_Slot] = []
        self._planned = agents_run()
        self._warned: set[str] = set()
        self._abandoned = False
        self._watched = False

    def open(self, slot: _Slot) -> None:
        """Starts the run; without a server, offline."""
        reason = None
        if self.mode == "online":
            try:
                self._start(slot)
            except wandb_errors() as error:
                if self._leaving():
                    return
                self.mode, reason = "offline", _first_line(error)
        if self.mode == "offline" and slot.run is None:
            try:
                if reason is not None:  # wandb's service process keeps the id of the failed try
                    (slot.info.folder / RUN_ID_FILE).unlink(missing_ok=True)
                self._start(slot)
            except wandb_errors() as error:
                self._switch_off(error)
                return
        if reason is not None:
            later = f"`wandb sync {self._folder(slot)}/wandb/offline-run-*`"
            self.warn_once("offline", f"W&B cannot be used online, {later} sends what is recorded instead ({reason})")

    def log(self, slot: _Slot, step: int, row: dict[str, float]) -> None:
        """Adds a row to the run's history."""
        if slot.run is not None:
            try:
                slot.run.log(row, step=step)
            except wandb_errors() as error:
                self._switch_off(error)
        self.rows_sent += 1

    def finish(self, slot: _Slot, exit_code: int, summary: dict[str, object]) -> None:
        """Ends the run; waits for its upload, up to a limit."""
        run, slot.run = slot.run, None
        if run is not None:
            self._open.remove(slot)
            try:
                tables = {name: value for name, value in summary.items() if isinstance(value, Table)}
                for name, table in tables.items():
                    run.log({name: table_of(table)})
                run.summary.update({name: value for name, value in summary.items() if name not in tables})
                run.finish(exit_code=exit_code)
            except TimeoutError:
                later = f"`wandb sync {self._folder(slot)}/wandb/run-*-{run.id}`"
                self.warn_once("slow", f"W&B did not take all of {slot.info.name} in time, {later} sends the rest")
            except wandb_errors() as error:
                self._switch_off(error)
        self.runs_ended += 1

    def finish_open_runs(self) -> None:
        """Ends the runs that nobody ended: their processes are gone with the controller."""
        for slot in list(self._open):
            self.finish(slot, exit_code=1, summary={})

    def unsent(self) -> str:
        """The queued and unsent data, in words."""
        runs, rows = self.runs_queued - self.runs_ended, self.rows_queued - self.rows_sent
        return f"{counted(runs, 'run')} not closed, {counted(rows, 'row')} of numbers missing"

    def still_records(self) -> bool:
        """Whether what is waited for is W&B's own process on this machine, which needs no limit; says so once."""
        if self.mode == "online":
            return False
        if self.mode == "offline":
            self.warn_once("waiting", f"W&B is still writing its files: {self.unsent()}; Ctrl-C goes on without them")
        return True

    def what_failed(self, waited_s: float) -> str:
        """Why not everything was delivered, in words."""
        if self.mode == "offline":
            return "W&B's files are not complete, which tuner report refill=RUN mends"
        return f"W&B has not received everything {waited_s:g} s after the end"

    def abandon(self) -> None:
        """Nobody waits any more: what fails from now on is not worth a word or a second try."""
        self._abandoned = True

    def _leaving(self) -> bool:
        """Whether nobody waits any more, as after `close` or at the end of the process."""
        return self._abandoned or not threading.main_thread().is_alive()

    def warn_once(self, kind: str, message: str) -> None:
        """Logs a warning of a kind the first time only."""
        if kind not in self._warned and not self._leaving():
            self._warned.add(kind)
            logger.warning("%s", message)

    def _start(self, slot: _Slot) -> None:
        import wandb  # 0.9 s, and only for who tracks with it

        if self._leaving():
            raise InterruptedError("the process is ending")  # wandb would start a new service process for nobody
        info, folder = slot.info, self._folder(slot)
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):  # wandb would go on in the system's temporary folder
            raise PermissionError(f"{folder} cannot be written")
        run_id, known = run_id_of(info.folder)
        planned = self._planned if info.job_type in _OF_AN_AGENT else None
        if planned is not None:
            self._planned, run_id = None, planned.run_id
        have_a_cache()
        with without_agent():
            wandb.setup(wandb.Settings(silent=True))  # messages about the key are printed outside of any run
        if not self._watched:
            self._watched = True
            disable_usage_statistics()
            # Its exit hook waits for its service process, which was seen to hang while a server did not answer.
            kill_at_exit("wandb-core", self._server_timeout_s + EXIT_GRACE_S, lambda: self.mode == "offline")
        slot.run = wandb.init(
            project=(planned and planned.project) or self._project,
            entity=(planned and planned.entity) or self._entity,
            name=shortened(info.name, _LONGEST_NAME),
            group=info.group,
            job_type=info.job_type,
            tags=[shortened(tag, _LONGEST_TAG) for tag in info.tags],
            config=info.config,
            dir=folder,
            id=run_id,
            resume="allow" if known and self.mode == "online" else None,
            mode=self.mode,
            reinit="create_new",
            settings=run_settings(
                OFFLINE_PATIENCE_S if self.mode == "offline" else self._server_timeout_s,
                None if planned is None else planned.sweep_id,
            ),
        )
        self._open.append(slot)

    def _folder(self, slot: _Slot) -> Path:
        return (self._directory or slot.info.group_folder or slot.info.folder).absolute()

    def _switch_off(self, error: Exception) -> None:
        """Nothing more can be done with W&B in this session."""
        import wandb

        self.mode = "disabled"
        for slot in self._open:
            slot.run = None
        self._open.clear()
        self.warn_once("off", f"W&B is off for the rest of this session: {_first_line(error)}")
        if not self._leaving() and isinstance(error, lost_service_errors()):
            with suppress(*wandb_errors()):
                wandb.teardown()  # or its hook would print a traceback at exit


def _config_of(info: RunInfo) -> JsonDict:
    """The configuration that W&B shows and compares runs by."""
    return {**info.config, "host": info.host} if info.host else info.config


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__
