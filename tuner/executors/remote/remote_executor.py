"""The controller's side: seats on other machines, asked in turns."""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from tuner.errors import UserError
from tuner.executors.base import Event, TrialEnded, TrialFunction, TrialReported, check_verdict
from tuner.executors.leftovers import Leftovers
from tuner.executors.local import Isolation, LocalExecutor, pickle_function
from tuner.executors.preload import Backend, Preload
from tuner.executors.remote.cluster import Cluster, SeatLostError, SeatUnreachableError
from tuner.executors.remote.exchange import Happened, Order, SeatInfo, SeatSettings, TrialStart
from tuner.executors.remote.folder_changes import FolderWatch, apply_changes
from tuner.executors.remote.place import Place, RemoteSeat
from tuner.executors.remote.seat import versions
from tuner.support.close_at_exit import ClosedAtExit
from tuner.trial import folder as files
from tuner.trial.messages import Limits, Outcome, TrialResult, TrialSpec, Verdict

Files: TypeAlias = Literal["pull", "shared"]

_TURN_S: Final = 0.5
"""How long a seat waits for something to happen before it answers that nothing has."""
_PLACING_S: Final = 10.0
"""How long a seat may look for room before that is said."""
_STARTING_S: Final = 60.0
"""How long one that has found room may take to start."""
_CLOSING_S: Final = 5.0

_logger = logging.getLogger(__name__)


class RemoteExecutor(ClosedAtExit):
    """Runs trials on other machines: base class of executors, each of which brings a `Cluster`.

    Each seat is asked what has happened, one question at a time. With `files="pull"` its answer carries what has
    changed in the trial's folder, and that is taken over before the events are: so the folder here is at any moment one
    that another machine can go on from. A seat that is lost costs its trial what it did since its last checkpoint.

    Args:
        connect: Makes the cluster; called with what a seat is made of.
        parallel: How many seats, each for one trial at a time.
        backend: The framework that each seat imports once, "none" for none; or a `Preload`.
        isolation: "forkserver", or "spawn" for a fresh interpreter per trial (seconds each).
        limits: Of a trial's resources, on its machine.
        threads: Threads of trials.
        files: "pull", or "shared" where every machine has the study's folder at the same path.
        lost_after_s: How long a seat may be out of reach before it counts as lost, in seconds.
        max_lost: How many seats a run may lose before it is given up.
        max_transfer_mb: How much a trial's folder may change between two answers, in MB (1e6 bytes).

    Raises:
        UserError: The machines have other versions of what results depend on, or a value is out of range.
    """

    def __init__(
        self,
        connect: Callable[[SeatSettings], Cluster],
        parallel: int = 1,
        backend: Backend | Preload | None = None,
        isolation: Isolation = "forkserver",
        limits: Limits | None = None,
        threads: int = 1,
        files: Files = "pull",
        lost_after_s: float = 30.0,
        max_lost: int = 10,
        max_transfer_mb: float = 64.0,
    ) -> None:
        self.parallel = parallel
        self.limits = limits or Limits()
        self._shared = files == "shared"
        self._lost_after_s = lost_after_s
        self._max_lost = max_lost
        preload = backend if isinstance(backend, Preload) else Preload(backend)
        self._versions = versions(preload.backend, preload.others)
        self._lease_s = lost_after_s / 2 if self._shared else 0.0  # how long a lost trial may still write to its folder
        lease_s = self._lease_s or None
        settings = SeatSettings(preload, isolation, self.limits, threads, self._shared, max_transfer_mb, lease_s)
        self._cluster = connect(settings)
        try:
            self._places = [Place(RemoteSeat(self._cluster)) for _ in range(parallel)]
        except BaseException:  # the first seats may be there
            self._cluster.close()
            raise
        self._events: deque[Event] = deque()
        self._losses: list[tuple[float, TrialEnded]] = []  # and when they may be reported
        self._num_lost: Counter[str] = Counter()
        self._leftovers = Leftovers()
        self._told_of_shortage = False
        self._is_closed = False

    @staticmethod
    def check_remote(
        parallel: int,
        backend: Backend | Preload | None,
        isolation: Isolation,
        limits: Limits | None,
        threads: int,
        files: Files,
        lost_after_s: float,
        max_lost: int,
        max_transfer_mb: float,
    ) -> None:
        """Refuses what is common to all executors of this kind and out of range; for their `check`.

        Raises:
            UserError: As the class says.
        """
        LocalExecutor.check(parallel, backend, isolation, limits, threads, gpus=None)
        if files not in get_args(Files):
            raise UserError(f"executor.files must be pull or shared, not {files!r}")
        for name, value in (("lost_after_s", lost_after_s), ("max_transfer_mb", max_transfer_mb)):
            if not value > 0:
                raise UserError(f"executor.{name} must be greater than 0, not {value}")
        if not max_lost >= 0:
            raise UserError(f"executor.max_lost must be at least 0, not {max_lost}")

    @property
    def free_slots(self) -> int:
        """How many trials can be started now: on seats that have a place, or else one that waits for the first."""
        self._meet()
        idle = sum(place.info is not None and not place.key for place in self._places)
        return idle or int(not any(place.key for place in self._places))

    def reclaim(self, spec: TrialSpec, folder: Path) -> None:
        """Waits for what a killed controller left; its seats die with it. See `Executor.reclaim`."""
        self._leftovers.end_in(folder)

    def start(self, spec: TrialSpec, folder: Path, function: TrialFunction | bytes | None = None) -> None:
        """Starts a trial; see `Executor.start`."""
        idle = [place for place in self._places if not place.key]
        if self._is_closed or not idle or any(place.key == spec.key for place in self._places):
            what = (
                "the executor is closed" if self._is_closed else f"{self.parallel - len(idle)} of {self.parallel} run"
            )
            raise RuntimeError(f"trial {spec.key} cannot be started: {what}")
        self._leftovers.end_deserted()
        pickled = function if isinstance(function, bytes) else pickle_function(function)
        files.prepare(folder, spec)
        try:
            files.clear_unfinished(folder)
        except OSError as error:
            raise UserError(f"the trial folder {folder} cannot be used: {error}") from error
        place = next((place for place in idle if place.info is not None), idle[0])
        place.key, place.folder = spec.key, folder
        held = {} if self._shared else FolderWatch(folder).changes()
        self._ask(place, Order(start=TrialStart(spec.to_json(), str(folder.absolute()), held, pickled)))

    def wait(self, timeout_s: float | None = None) -> list[Event]:
        """Returns what has happened, waiting for it up to `timeout_s` seconds; see `Executor.wait`."""
        deadline = float("inf") if timeout_s is None else time.monotonic() + timeout_s
        while True:
            remaining = deadline - time.monotonic()
            self._turn(0.0 if self._events else min(max(0.0, remaining), _TURN_S))
            is_idle = not self._losses and not any(place.key for place in self._places)
            if self._events or is_idle or remaining <= 0:
                events = list(self._events)
                self._events.clear()
                return events

    def answer(self, key: str, verdict: Verdict) -> None:
        """Answers a `TrialReported`; see `Executor.answer`.

        Raises:
            RuntimeError: The trial runs and has no open report.
        """
        check_verdict(verdict)
        for place in self._places:
            if place.key == key and not place.is_stopping:
                if place.question is not None:
                    raise RuntimeError(f"trial {key} has no report that waits for a verdict")
                self._ask(place, Order(verdict=verdict))

    def stop_all(self) -> None:
        """Asks all trials to checkpoint and leave; see `Executor.stop_all`."""
        for place in list(self._places):
            if not place.key or place.is_stopping:
                continue
            if place.info is None:  # it has not begun, and may never
                self._events.append(
                    TrialEnded(place.key, TrialResult(Outcome.STOPPED, "no machine had room for it yet"))
                )
                self._replace(place, "not needed any more")
                continue
            place.is_stopping = True
            if place.question is None:
                self._ask(place, Order(stop=True))

    def close(self) -> None:
        """Ends all trials, orderly and then by force, and gives the seats back. Calling it again does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self._leftovers.end_deserted()
        self.stop_all()
        deadline = time.monotonic() + 2 * self.limits.grace_s
        while any(place.key and place.info for place in self._places) and time.monotonic() < deadline:
            self._turn(_TURN_S)
        closing = [place.seat.close() for place in self._places if place.info is not None]
        deadline = time.monotonic() + _CLOSING_S
        while closing and time.monotonic() < deadline:
            ready = self._cluster.ready(closing, _TURN_S)
            closing = [asked for asked in closing if asked not in ready]
        for place in self._places:
            place.seat.kill()
        self._cluster.close()

    def _turn(self, timeout_s: float) -> None:
        """Waits a short time for answers and takes them into account."""
        self._meet()
        asked = {place.question: place for place in self._places if place.question is not None and place.info}
        for question in self._cluster.ready(list(asked), timeout_s):
            self._hear(asked[question])
        due = [loss for loss in self._losses if loss[0] <= time.monotonic()]
        self._losses = [loss for loss in self._losses if loss not in due]
        self._events += [ended for _, ended in due]

    def _meet(self) -> None:
        """Greets the seats that have found a place, and says when there is no room for one."""
        waiting = {place.greeting: place for place in self._places if place.info is None}
        for greeting in self._cluster.ready(list(waiting), 0.0) if waiting else ():
            place = waiting.pop(greeting)
            try:
                place.info = self._cluster.answer(greeting)
            except (SeatLostError, SeatUnreachableError) as error:
                give_up = self._lose if place.key else self._replace
                give_up(place, str(error))
            else:
                self._compare_versions(place.info)
        if waiting and not self._told_of_shortage:
            self._tell_of_shortage(len(waiting), max(time.monotonic() - place.made_at for place in waiting.values()))

    def _tell_of_shortage(self, num_waiting: int, waited_s: float) -> None:
        """Says once that there is no room for seats; those that only take their time to start find it soon."""
        if waited_s < _PLACING_S:
            return
        shortage = self._cluster.shortage(self.parallel, of_free=waited_s > _STARTING_S)
        if shortage:
            self._told_of_shortage = True
            _logger.warning(
                "%d of %d trials at a time find no room in the cluster, and wait for it: they need %s",
                num_waiting,
                self.parallel,
                shortage,
            )

    def _compare_versions(self, info: SeatInfo) -> None:
        others = [
            f"{name} {version} instead of {self._versions[name]}"
            for name, version in info.versions.items()
            if version != self._versions.get(name, version)  # what is on one of the two only is not used
        ]
        if others:
            raise UserError(
                f"{info.host} has {', '.join(others)}: the same run would not give the same result there. Install the "
                "versions of this machine on all of them"
            )

    def _ask(self, place: Place, order: Order) -> None:
        place.number += 1
        place.order = order
        place.in_touch_at = time.monotonic()
        self._ask_again(place)

    def _ask_again(self, place: Place) -> None:
        place.question = place.seat.exchange(place.number, place.order, _TURN_S)

    def _hear(self, place: Place) -> None:
        """Takes in the answer of a seat and asks the next question, unless a verdict is waited for."""
        try:
            happened: Happened = self._cluster.answer(place.question)
        except SeatLostError as error:
            self._lose(place, str(error))
            return
        except SeatUnreachableError as error:
            place.unreachable_since = place.unreachable_since or time.monotonic()
            if time.monotonic() - place.unreachable_since > self._lost_after_s:
                self._lose(place, str(error))
            else:
                time.sleep(0.1)  # a refusal may come at once
                self._ask_again(place)
            return
        place.question, place.unreachable_since = None, None
        place.in_touch_at = time.monotonic()
        apply_changes(place.folder, happened.files)
        self._events += happened.events
        if any(isinstance(event, TrialEnded) for event in happened.events):
            place.key, place.is_stopping = "", False
        elif place.is_stopping:
            self._ask(place, Order(stop=True))
        elif not any(isinstance(event, TrialReported) for event in happened.events):
            self._ask(place, Order())

    def _lose(self, place: Place, why: str) -> None:
        """Ends the trial of a seat that is gone, as lost."""
        where = place.info.host if place.info else "a machine"
        key = place.key
        self._replace(place, why)
        self._num_lost[key] += 1
        too_often = self._num_lost[key] > self._max_lost
        reason = f"{where} or the seat there was lost ({why})"
        if too_often:
            reason += f"; that makes {self._num_lost[key]} times, and executor.max_lost={self._max_lost}"
        _logger.warning("%s: %s", key, reason)
        ended = TrialEnded(key, TrialResult(Outcome.LOST, reason, deterministic=too_often))
        self._losses.append((place.in_touch_at + self._lease_s, ended))

    def _replace(self, place: Place, why: str) -> None:
        """Puts a new seat in the place of one that nobody listens to any more, whatever it still says."""
        _logger.debug("a seat is replaced: %s", why)
        place.seat.kill()
        self._places[self._places.index(place)] = Place(RemoteSeat(self._cluster))
