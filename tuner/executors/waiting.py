"""Processes of paused trials that wait for the trials that go on from them: these need not build all anew."""

import time
from dataclasses import dataclass, replace

from note_rl.support.memory import free_memory
from tuner.trial import system
from tuner.trial.messages import TrialSpec
from tuner.trial.process import WaitingChild


@dataclass(frozen=True)
class _Paused:
    spec: TrialSpec
    began_at: float
    paused_at: float
    waiting: WaitingChild


class WaitingChildren:
    """Children by the key of the trial that they have paused.

    They wait only as long as those that run have room beside them: as much for each as the largest has taken so far.

    Args:
        parallel: Number of trials at a time.
    """

    def __init__(self, parallel: int) -> None:
        self._parallel = parallel
        self._largest = 0.0
        self._paused: dict[str, _Paused] = {}

    @property
    def pids(self) -> list[int]:
        """Numbers of their processes."""
        return [pid for paused in self._paused.values() if (pid := paused.waiting.child.pid) is not None]

    def add(self, spec: TrialSpec, began_at: float, waiting: WaitingChild) -> None:
        """Keeps a child.

        Args:
            spec: The trial that it has paused.
            began_at: `time.monotonic()` at the trial's beginning.
            waiting: The child.
        """
        self._paused[spec.key] = _Paused(spec, began_at, time.monotonic(), waiting)
        pid = waiting.child.pid
        self._largest = max(self._largest, 0.0 if pid is None else 1e6 * system.memory_of_groups([pid])[pid])
        self._make_room()

    def take(self, spec: TrialSpec) -> WaitingChild | None:
        """The child that can go on with a trial: it has paused the trial that this one continues, with equal settings.

        Others are dismissed that nobody will ask for: those of other stages, and those that were passed over, as trials
        go on in the order in which they began: what had paused before the continued trial began is not wanted any more.
        """
        found = self._paused.pop(spec.continues, None)
        for key, other in list(self._paused.items()):
            is_passed_over = found is not None and other.paused_at < found.began_at
            if is_passed_over or (other.spec.study, other.spec.stage) != (spec.study, spec.stage):
                self._paused.pop(key).waiting.dismiss()
        self._make_room()
        if found is None:
            return None
        same = replace(found.spec, number=spec.number, continues=spec.continues) == spec
        if not same or not found.waiting.connection.is_open:
            found.waiting.dismiss()
            return None
        return found.waiting

    def close(self) -> None:
        """Dismisses all."""
        while self._paused:
            self._dismiss_oldest()

    def _make_room(self) -> None:
        while self._paused and free_memory() < self._parallel * self._largest:
            self._dismiss_oldest()

    def _dismiss_oldest(self) -> None:
        self._paused.pop(next(iter(self._paused))).waiting.dismiss()
