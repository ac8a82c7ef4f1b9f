"""Studies that take no time: synthetic learning curves with seed noise, and an executor without processes."""

import json
import multiprocessing
import os
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from optuna.pruners import SuccessiveHalvingPruner
from optuna.samplers import RandomSampler
from optuna.storages.journal import JournalFileBackend

from tests.tuner.entries import NUM_POINTS, synthetic_curve
from tuner.executors.base import Event, TrialBuilt, TrialEnded, TrialFunction, TrialLogged, TrialReported, TrialStarted
from tuner.executors.leftovers import Leftovers
from tuner.executors.local import LocalExecutor
from tuner.results.protocol import Pruning, StudySettings
from tuner.study import StudyDefinition, StudyListener, StudyRunner, StudyStopped, StudyStore
from tuner.study.space.space import Space
from tuner.trial import folder as files
from tuner.trial.messages import JsonDict, Limits, Outcome, TrialResult, TrialSpec, Verdict

ROOT = Path(__file__).parents[2]
CONFIG: JsonDict = {
    "seed": 0,
    "backend": {"name": "torch"},
    "env": {"id": "Synthetic-v0"},
    "agent": {"gamma": 0.99, "kind": "plain"},
    "optimizer": {"learning_rate": 0.1},
    "buffer": {"batch_size": 64, "train_freq": 4, "gradient_steps": 4},
    "training": {"total_steps": 900},
    "evaluation": {"num_points": NUM_POINTS},
}
SPACE: JsonDict = {
    "optimizer": {"learning_rate": {"low": 1e-5, "high": 1.0, "log": True}},
    "agent": {"gamma": {"low": 0.9, "high": 0.9999, "transform": "one_minus"}},
    "buffer": {"batch_size": {"low": 16, "high": 256, "transform": "power_of_two"}},
}


@dataclass
class Script:
    """Behaviour of a fake trial: reports its curve from where it was, then ends.

    Attributes:
        whole_s: Seconds of training that it says a whole run takes; None: it does not say.
    """

    curve: list[tuple[float, float]]
    result: TrialResult = field(default_factory=lambda: TrialResult(Outcome.COMPLETE, seconds=1.0))
    used: JsonDict | None = None
    whole_s: float | None = 1.0


Behaviour = Callable[[TrialSpec, int], Script]
"""Behaviour of a trial at its n-th attempt (counted from 1)."""


def learn(spec: TrialSpec, attempt: int) -> Script:
    """Every trial learns and comes to its end."""
    return Script(synthetic_curve(spec.config, spec.seed))


class ControllerDied(BaseException):
    """Stands for a kill -9 of the controller: nothing is caught, cleaned up or reported."""


@dataclass
class Writes:
    """How many records of a journal may still be written."""

    left: int = 0


def die_after_writes(monkeypatch: pytest.MonkeyPatch, torn: Path | None = None) -> Writes:
    """Lets the controller die with the last write that it has left.

    Args:
        monkeypatch: Pytest's.
        torn: The journal, if only half of that write is to get there.
    """
    writes, append = Writes(), JournalFileBackend.append_logs

    def append_and_die(backend: JournalFileBackend, logs: list[dict[str, Any]]) -> None:
        writes.left -= 1
        if writes.left < 0:
            raise ControllerDied
        if writes.left == 0 and torn is not None:
            text = json.dumps(logs[0])
            with torn.open("a") as file:
                file.write(text[: len(text) // 2])
        else:
            append(backend, logs)
        if writes.left == 0:
            raise ControllerDied

    monkeypatch.setattr(JournalFileBackend, "append_logs", append_and_die)
    return writes


_ENDS = {"prune": Outcome.PRUNED, "pause": Outcome.PAUSED, "stop": Outcome.STOPPED}


class FakeExecutor:
    """Trials without processes, in strict turns. Reports are written to the folder as real children do.

    Args:
        parallel: Trials at a time.
        behave: What they do.
        die_after: Raise `ControllerDied` after this number of events.

    Attributes:
        tells_again: Whether trials that go on tell their last report again, as agents do.
    """

    def __init__(self, parallel: int = 1, behave: Behaviour = learn, die_after: int | None = None) -> None:
        self.parallel = parallel
        self.tells_again = False
        self.limits: Limits | None = None
        self.started: list[TrialSpec] = []
        self.verdicts: list[tuple[str, float, Verdict]] = []
        self.on_event: Callable[[Event], None] = lambda event: None
        self._behave = behave
        self._attempts: dict[str, int] = {}
        self._running: dict[str, Iterator[Event]] = {}
        self._specs: dict[str, Path] = {}
        self._verdict: dict[str, Verdict] = {}
        self._turns: deque[str] = deque()
        self._left = die_after
        self._stopping = False
        self._leftovers = Leftovers()

    def reclaim(self, spec: TrialSpec, folder: Path) -> None:
        self._leftovers.end_in(folder)

    @property
    def free_slots(self) -> int:
        return self.parallel - len(self._running)

    def start(self, spec: TrialSpec, folder: Path, function: TrialFunction | bytes | None = None) -> None:
        assert self.free_slots > 0
        assert spec.key not in self._running
        self._leftovers.end_deserted()
        files.prepare(folder, spec)
        (folder / files.RESULT_FILE).unlink(missing_ok=True)
        self.started.append(spec)
        self._attempts[spec.key] = self._attempts.get(spec.key, 0) + 1
        script = self._behave(spec, self._attempts[spec.key])
        self._running[spec.key] = self._play(spec, folder, script)
        self._turns.append(spec.key)

    def wait(self, timeout_s: float | None = None) -> list[Event]:
        if not self._turns:
            return []
        key = self._turns.popleft()
        event = next(self._running[key])
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise ControllerDied
        if isinstance(event, TrialEnded):
            del self._running[key]
        else:
            self._turns.append(key)
        self.on_event(event)
        return [event]

    def answer(self, key: str, verdict: Verdict) -> None:
        self._verdict[key] = verdict

    def stop_all(self) -> None:
        self._stopping = True

    def close(self) -> None:
        self._running.clear()
        self._turns.clear()

    def _play(self, spec: TrialSpec, folder: Path, script: Script) -> Iterator[Event]:
        yield TrialStarted(spec.key, os.getpid())
        yield TrialBuilt(spec.key, 0.01, spec.config if script.used is None else script.used)
        done = dict(files.read_reports(folder))
        for step, value in script.curve:
            if step in done and step == max(done) and self.tells_again:
                yield TrialReported(spec.key, step, done[step], files.read_times(folder).get(step))
                if (verdict := self._verdict.pop(spec.key)) != "continue":
                    yield self._end(spec, folder, TrialResult(_ENDS[verdict], seconds=1.0))
                    return
            if step in done:
                continue
            if self._stopping:
                yield self._end(spec, folder, TrialResult(Outcome.STOPPED, "asked to stop", seconds=1.0))
                return
            with (folder / files.REPORTS_FILE).open("ab", buffering=0) as file:
                seconds = None if script.whole_s is None else step * script.whole_s
                fields = {"step": step, "value": value, "seconds": seconds}
                files.append_line(file, fields, durable=False)
            yield TrialLogged(spec.key, round(step * 900), {"eval/mean_return": value})
            yield TrialReported(spec.key, step, value, seconds)
            verdict = self._verdict.pop(spec.key)
            self.verdicts.append((spec.key, step, verdict))
            if verdict != "continue":
                outcome = _ENDS[verdict]
                yield self._end(spec, folder, TrialResult(outcome, f"{outcome} at {step:g}", seconds=1.0))
                return
        yield self._end(spec, folder, script.result)

    def _end(self, spec: TrialSpec, folder: Path, result: TrialResult) -> TrialEnded:
        files.write_result(folder, result)
        return TrialEnded(spec.key, result)


def definition(
    folder: Path, space: JsonDict | None = None, config: JsonDict | None = None, **changes: Any
) -> StudyDefinition:
    """A small study of synthetic trials; keyword arguments are settings or fields of the definition."""
    config = config or CONFIG
    defaults: dict[str, Any] = {"num_trials": 6, "num_candidates": 2, "num_select_seeds": 2, "num_test_seeds": 2}
    names = StudySettings.__dataclass_fields__
    settings = StudySettings(**{**defaults, **{key: changes.pop(key) for key in list(changes) if key in names}})
    fields: dict[str, Any] = {
        "name": "study",
        "agent": "synthetic",
        "probe": None,
        "entry": "tests.tuner.entries:train",
    }
    return StudyDefinition(
        config=config,
        space=Space.from_config(SPACE if space is None else space, config),
        settings=settings,
        folder=folder / "studies",
        **{**fields, **changes},
    )


def journal(folder: Path) -> str:
    """A storage that opens in milliseconds."""
    return f"journal:///{folder}/studies.journal"


def sqlite(folder: Path) -> str:
    """The storage that users have."""
    return f"sqlite:///{folder}/studies.db"


def run_study(
    folder: Path,
    executor: Any = None,
    pruner: Any = None,
    listener: StudyListener | None = None,
    url: str = "",
    **changes: Any,
) -> Any:
    """Runs (or continues) a small study and returns its summary."""
    with StudyStore(url or journal(folder)) as store:
        runner = StudyRunner(
            definition(folder, **changes), store, executor or FakeExecutor(), RandomSampler, pruner, listener
        )
        return runner.run()


QUICK_PRUNING = Pruning(min_trials=4)


def warm_processes() -> ForkServerContext:
    """Makes processes that have imported what a study needs, which takes each of them longer than the study."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "alembic.command", "sqlalchemy.dialects.sqlite"])
    with mock.patch.dict(os.environ, PYTHONPATH=str(ROOT)):
        forkserver.ensure_running()
    return context


def run_in_processes(folder: Path, changes: JsonDict) -> None:
    """Runs a study in real processes, as the only thing that this process does."""
    os.chdir(ROOT)
    warnings.simplefilter("error")
    with LocalExecutor(parallel=2, limits=Limits(grace_s=5.0)) as executor:
        try:
            run_study(folder, executor, url=sqlite(folder), **changes)
        except StudyStopped:
            sys.exit(130)


def ending(number: int, result: TrialResult, reports: int = 3) -> Any:
    """All trials learn, but this one ends so after a few reports."""

    def behave(spec: TrialSpec, attempt: int) -> Script:
        script = learn(spec, attempt)
        return Script(script.curve[:reports], result) if spec.key == f"screen/{number}" else script

    return behave


def crash(spec: TrialSpec, attempt: int) -> Script:
    return Script([], TrialResult(Outcome.CRASHED, "", "Traceback ...\n  in train\nImportError: no module named x\n"))


def random_score(monkeypatch: pytest.MonkeyPatch, score: float) -> None:
    monkeypatch.setattr("tuner.study.runner.run_probe", lambda *_: score)


def asha() -> SuccessiveHalvingPruner:
    return SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)
