"""Studies of many trials: what the controller does for one of them must not depend on how many there were."""

import gc
import io
import os
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from optuna.pruners import MedianPruner
from optuna.samplers import RandomSampler
from rich.console import Console

import tuner
from tests.tuner.studies import FakeExecutor, Script, definition, learn
from tuner.executors.base import Event, TrialEnded
from tuner.study import Listeners, StudyRunner, StudyStore
from tuner.study.watching.display import study_display
from tuner.study.watching.study_run import StudyRunListener
from tuner.study.watching.trial_tracking import TrackingListener
from tuner.trackers.jsonl import JsonlTracker
from tuner.trial.messages import Outcome, TrialResult, TrialSpec

_OURS = os.path.dirname(tuner.__file__ or "")


class CallsPerTrial:
    """Counts calls of our own functions from one end of a trial to the next: time that is the same on any machine."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self._count = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_OURS):
            self._count += 1

    def on_event(self, event: Event) -> None:
        if isinstance(event, TrialEnded):
            self.counts.append(self._count)
            self._count = 0


def mostly_failing(spec: TrialSpec, attempt: int) -> Script:
    """Of ten trials one is complete, so that nothing is decided for long."""
    script = learn(spec, attempt)
    if spec.stage != "screen" or spec.number % 10 == 1:
        return script
    return Script(script.curve[:2], TrialResult(Outcome.DIVERGED, "the loss is nan", seconds=1.0))


def run_large(folder: Path, num_trials: int, behave: Any, watched: Any = None) -> None:
    """Everything that listens in `tuner tune` listens."""
    executor, tracker = FakeExecutor(behave=behave), JsonlTracker()
    if watched is not None:
        executor.on_event = watched
    about = definition(folder, num_trials=num_trials, num_candidates=1, num_select_seeds=1)
    console = Console(file=io.StringIO(), width=80)
    with study_display(console, about, 1) as display, StudyStore("memory") as store, closing(tracker):
        others = (TrackingListener(tracker, "study", 900, folder), StudyRunListener(tracker, about))
        StudyRunner(about, store, executor, RandomSampler, MedianPruner(), Listeners(display, *others)).run()


class Kept:
    """Counts the objects of our own classes that there are at the end of an early and of a late trial."""

    def __init__(self) -> None:
        self.counts: list[Counter[str]] = []

    def on_event(self, event: Event) -> None:
        if isinstance(event, TrialEnded) and event.key in ("screen/20", "screen/79"):
            gc.collect()
            kinds = Counter(type(one) for one in gc.get_objects())
            ours = {kind.__name__: kinds[kind] for kind in kinds if str(kind).startswith("<class 'tuner.")}
            self.counts.append(Counter(ours))


@pytest.mark.parametrize("behave", [learn, pytest.param(mostly_failing, marks=pytest.mark.slow)])
def test_a_trial_costs_the_same_and_leaves_nothing_however_many_there_were(tmp_path: Path, behave: Any) -> None:
    calls, kept, before = CallsPerTrial(), Kept(), sys.getprofile()

    def watch(event: Event) -> None:
        sys.setprofile(None)  # what is done here is not counted
        kept.on_event(event)
        calls.on_event(event)
        sys.setprofile(calls)

    sys.setprofile(calls)
    try:
        run_large(tmp_path, 120, behave, watch)
    finally:
        sys.setprofile(before)
    early, late = sum(calls.counts[10:40]), sum(calls.counts[90:120])
    assert late < 1.1 * early
    first, last = kept.counts
    grown = {name for name in last if last[name] > first[name] + 3}
    assert grown <= {"TrialSpec"}, "which the fake executor keeps; but for what Optuna keeps, nothing is"
