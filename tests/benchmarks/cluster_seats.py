# ruff: noqa: T201
"""Cost of `executor=ray` beside the local executor, and the limits of a thousand seats.

Run it as `python -m tests.benchmarks.cluster_seats start|controller|fake [...]`:

* `start [TRIALS]` (20): from the order to the first sign of life of a trial, on a seat that is warm and on a warm local
  executor, in turns;
* `controller [TRIALS [SEATS]]` (1,000, 8): processor time of the controller per synthetic trial, over seats of a
  simulated cluster and over as many slots of the local executor;
* `fake [TRIALS [SEATS [URL [KB]]]]` (10,000, 1,000, SQLite, 0): the same over seats that live in this process and
  answer at once, with what a trial sends (KB of checkpoint at each report), and with any storage.
"""

import shutil
import statistics
import sys
import tempfile
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optuna.pruners import NopPruner
from optuna.samplers import RandomSampler

from tests.benchmarks.study_scale import CONFIG, SPACE, TurnsListener
from tests.tuner.executors.ray_cluster import simulated_cluster
from tuner.executors.base import Event, Executor, TrialBuilt, TrialEnded, TrialReported, TrialStarted
from tuner.executors.local import LocalExecutor
from tuner.executors.ray import executor as ray_executor
from tuner.executors.ray.executor import RayExecutor
from tuner.executors.remote.exchange import Happened, Order, SeatInfo
from tuner.executors.remote.folder_changes import Piece
from tuner.executors.remote.seat import versions
from tuner.results.protocol import StudySettings
from tuner.runs.functions import ENTRY
from tuner.runs.simulator import Synthetic
from tuner.study import StudyDefinition, StudyListener, StudyRunner, StudyStore
from tuner.study.space.space import Space
from tuner.trial import TrialContext, TrialSpec
from tuner.trial.messages import Outcome, TrialResult


def do_nothing(trial: TrialContext) -> None:
    """A trial."""


def time_start(executor: Executor, folder: Path, number: int) -> float:
    """Seconds until a trial has begun; it is waited for."""
    spec = TrialSpec("benchmark", "start", number, number, {})
    began = time.perf_counter()
    executor.start(spec, folder / str(number), do_nothing)
    seconds = 0.0
    while True:
        for event in executor.wait():
            if isinstance(event, TrialStarted):
                seconds = time.perf_counter() - began
            elif isinstance(event, TrialEnded):
                return seconds


def compare_starts(num_trials: int) -> None:
    """In turns."""
    with tempfile.TemporaryDirectory() as name, LocalExecutor() as local, RayExecutor(address=None) as far:
        times: dict[str, list[float]] = {"local": [], "ray": []}
        for number in range(num_trials + 1):
            for kind, executor in (("local", local), ("ray", far)):
                times[kind].append(time_start(executor, Path(name) / kind, number))
        for kind, all_times in times.items():
            warm = all_times[1:]
            print(f"{kind:5s} {1000 * statistics.median(warm):6.1f} ms median, {1000 * max(warm):6.1f} ms worst")


class Enough(StudyListener):
    """Ends the study after the screening stage."""

    def on_stage(self, stage: str, num_runs: int, records: Any) -> None:
        """Ends it."""
        if stage != "screen":
            raise TurnsListener.Enough


def cost_of(executor: Executor, num_trials: int, folder: Path, url: str) -> tuple[float, float]:
    """Processor milliseconds of this process and milliseconds of the clock for each trial of a study."""
    definition = StudyDefinition(
        name=f"seats-{time.time_ns()}",
        config=CONFIG,
        space=Space.from_config(SPACE, CONFIG),
        settings=StudySettings(num_trials=num_trials),
        folder=folder,
        entry=ENTRY,
        probe=None,
    )
    with StudyStore(url) as store:
        began, began_at = time.process_time(), time.perf_counter()
        with suppress(TurnsListener.Enough):
            StudyRunner(definition, store, executor, RandomSampler, NopPruner(), Enough()).run()
        return tuple(
            1000 * spent / num_trials for spent in (time.process_time() - began, time.perf_counter() - began_at)
        )


def compare_controllers(num_trials: int, num_seats: int) -> None:
    """One after the other, each with a storage of its own."""
    with simulated_cluster(1, num_seats) as cluster:
        for kind in ("local", "ray"):
            local = kind == "local"
            with (
                tempfile.TemporaryDirectory() as name,
                LocalExecutor(num_seats) if local else RayExecutor(num_seats, address=cluster.address) as executor,
            ):
                folder = Path(name)
                cpu, clock = cost_of(executor, num_trials, folder, f"sqlite:///{folder}/studies.db")
            print(f"{kind:5s} {cpu:6.1f} ms of processor per trial, {clock:6.1f} ms of the clock", flush=True)


@dataclass(eq=False)
class FakeSeat:
    """Plays trials, and answers whatever it is asked at once."""

    checkpoint: bytes
    ready: deque["FakeSeat"]
    key: str = ""
    points: deque[tuple[float, float]] = field(default_factory=deque)
    written: int = 0
    answer: Any = None

    def hello(self) -> Any:
        self.answer = SeatInfo("far", 7, versions(None))
        self.ready.append(self)
        return self

    def exchange(self, number: int, order: Order, timeout_s: float) -> Any:
        events: list[Event] = []
        if order.start is not None:
            spec = TrialSpec.from_json(order.start.spec)
            self.key, self.points, self.written = spec.key, deque(Synthetic().curve(spec.number)), 0
            events += [TrialStarted(self.key, 7, "far"), TrialBuilt(self.key, 0.1, spec.config)]
        held: dict[str, Piece | None] = {}
        if self.points:
            step, value = self.points.popleft()
            events.append(TrialReported(self.key, step, value))
            line = b'{"step": %f, "value": %f}\n' % (step, value)
            held["reports.jsonl"] = Piece(self.written, line)
            self.written += len(line)
            if self.checkpoint:
                held["checkpoint.npz"] = Piece(0, self.checkpoint)
        else:
            events.append(TrialEnded(self.key, TrialResult(Outcome.COMPLETE, seconds=1.0)))
        self.answer = Happened(events, held)
        self.ready.append(self)
        return self

    def close(self) -> Any:
        return self.hello()

    def kill(self) -> None:
        pass


class FakeCluster:
    """Seats without a cluster."""

    def __init__(self, kilobytes: int) -> None:
        self._checkpoint = bytes(1000 * kilobytes)
        self._ready: deque[FakeSeat] = deque()

    def new_seat(self) -> FakeSeat:
        return FakeSeat(self._checkpoint, self._ready)

    def ask(self, seat: FakeSeat, method: str, *arguments: Any) -> Any:
        return getattr(seat, method)(*arguments)

    def kill(self, seat: FakeSeat) -> None:
        seat.kill()

    def ready(self, asked: list[Any], timeout_s: float) -> list[Any]:
        wanted = set(map(id, asked))
        found = [seat for seat in self._ready if id(seat) in wanted]
        others = [seat for seat in self._ready if id(seat) not in wanted]
        self._ready.clear()
        self._ready.extend(others)
        return found

    def answer(self, seat: FakeSeat) -> Any:
        return seat.answer

    def shortage(self, num_seats: int, of_free: bool) -> str:
        return ""

    def close(self) -> None:
        pass


def cost_of_fakes(num_trials: int, num_seats: int, url: str, kilobytes: int) -> None:
    """Prints what the controller needs for each trial when no seat makes it wait."""
    ray_executor.RayCluster = lambda *_: FakeCluster(kilobytes)  # type: ignore[assignment, misc]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with RayExecutor(num_seats) as executor:
            cpu, clock = cost_of(executor, num_trials, folder, url or f"sqlite:///{folder}/studies.db")
        shutil.rmtree(folder / "seats", ignore_errors=True)
    print(
        f"{num_seats} seats, {num_trials} trials of 9 reports of {kilobytes} kB, {url.partition(':')[0] or 'sqlite'}:"
    )
    print(f"  {cpu:.1f} ms of processor per trial, {clock:.1f} ms of the clock, {1000 / clock:.1f} trials/s")


def main() -> None:
    """Measures what is asked for."""
    what, *rest = sys.argv[1:] or ["start"]
    if what == "start":
        compare_starts(int((rest or [20])[0]))
    elif what == "controller":
        num_trials, num_seats = (int(given) for given in (*rest, *("1000", "8")[len(rest) :]))
        compare_controllers(num_trials, num_seats)
    else:
        given = (*rest, *("10000", "1000", "", "0")[len(rest) :])
        cost_of_fakes(int(given[0]), int(given[1]), given[2], int(given[3]))


if __name__ == "__main__":
    main()
