"""Brings the runs of a stage to their ends: starts processes, answers reports, judges ends, writes all of it down."""

import math
import os
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from tuner.config.trust import remember
from tuner.executors.base import Event, Executor, TrialBuilt, TrialEnded, TrialLogged, TrialReported, TrialStarted
from tuner.results.number_format import counted
from tuner.results.records import RunRecord
from tuner.study.control import Interrupts, archive
from tuner.study.end_rules import EndRules
from tuner.study.guard import Guard
from tuner.study.run_checks import is_of, likely_cause
from tuner.study.run_registry import Run, RunEnd, RunRegistry
from tuner.study.storage.disk import ended_by_full_disk
from tuner.study.study_errors import StudyError, StudyStopped
from tuner.study.watching.study_listener import StudyListener
from tuner.support.text_files import sweep_unfinished
from tuner.trial import folder as files
from tuner.trial.messages import Outcome, TrialResult, TrialSpec, Verdict

POLL_S = 0.5
"""How soon a Ctrl-C is noticed while nothing happens."""


class Judge(Protocol):
    """Says which runs end early."""

    def answer(self, registry: RunRegistry, run: Run, step: float) -> Verdict:
        """The verdict on a run that has just reported at this step."""

    def catch_up(self, registry: RunRegistry, run: Run) -> None:
        """Takes in what a run reported while nobody listened."""


@dataclass(frozen=True)
class Stage:
    """Runs that are brought to their ends together.

    Attributes:
        registry: Which runs there are, and which is next.
        judge: Answers reports; without one every run goes on to its end.
        after: Called when a run has been closed, with its record.
    """

    registry: RunRegistry
    judge: Judge | None = None
    after: Callable[[RunRecord], None] | None = None


class Dispatcher:
    """Brings the runs of a study to their ends, stage by stage, as many at a time as the executor has room for.

    Args:
        end_rules: Rules for the runs and their ends.
        executor: Runs the trials.
        interrupts: Asks to stop.
        listener: Gets all events.
        heartbeat: Called often, to say that this process lives.
    """

    def __init__(
        self,
        end_rules: EndRules,
        executor: Executor,
        interrupts: Interrupts,
        listener: StudyListener,
        heartbeat: Callable[[], object] = lambda: None,
    ) -> None:
        self._end_rules = end_rules
        self._definition = end_rules.definition
        self._executor = executor
        self._interrupts = interrupts
        self._listener = listener
        self._guard = Guard(end_rules.definition.settings.max_failures)
        self._active: dict[str, Run] = {}
        self._queue: deque[Run] = deque()
        self._heartbeat = heartbeat

    def restore(self, records: Iterable[RunRecord]) -> None:
        """Takes in what earlier sessions have done, in whatever stage."""
        for record in records:
            self._end_rules.see(record)
            self._guard.restore(record)

    def run_stage(self, stage: Stage) -> None:
        """Runs all that a stage still has to run, what an earlier controller left half-way first.

        Raises:
            StudyStopped: Asked to stop; open runs have checkpointed.
            StudyError: Too many failures in a row.
        """
        try:
            self._run_all(stage)
        except KeyboardInterrupt:  # a second Ctrl-C: at once, and without the storage, which may be what hangs
            for run in self._active.values():
                files.end_leftover(run.folder, grace_s=0.0)
            self._executor.close()
            raise StudyStopped(len(self._active) + len(self._queue), self._interrupts.reason) from None

    def _run_all(self, stage: Stage) -> None:
        self._take_over(stage)
        while True:
            self._heartbeat()
            if self._interrupts.requested:
                self._announce_stop()
                self._end_processes(stage)
                raise StudyStopped(stage.registry.num_open, self._interrupts.reason)
            self._fill(stage.registry)
            if not self._active:
                self._take_over(stage)  # an entry whose acknowledgement was lost with a connection is nobody's yet
                if not self._queue:
                    return
                continue
            for event in self._executor.wait(POLL_S):
                self._heartbeat()  # this process may have been stopped while it waited
                self._handle(stage, event)

    def _take_over(self, stage: Stage) -> None:
        """Picks up the runs that an earlier controller has entered and not closed."""
        runs = stage.registry.open_runs()
        for run in runs:
            if files.is_locked(run.folder):
                self._listener.on_note(
                    f"{run.key} is still running since an earlier session; waiting for it to checkpoint"
                )
            self._executor.reclaim(self._spec(run), run.folder)
        for run in runs:
            self._pick_up(stage, run)

    def _pick_up(self, stage: Stage, run: Run) -> None:
        """Goes on with a run where it is: ended, half-way, or not begun."""
        sweep_unfinished(run.folder)
        state = files.read_trial(run.folder)
        if not is_of(state.spec, run):
            self._set_aside(run)
            self._queue.append(run)
            return
        self._hear_of(stage, run, state.reports)
        if state.result is None or state.result.outcome is Outcome.STOPPED or ended_by_full_disk(state.result):
            self._queue.append(run)
        else:
            self._listener.on_start(run)  # for those whose records of it are still open
            self._judge_end(stage, run, state.result)

    def _fill(self, registry: RunRegistry) -> None:
        while self._executor.free_slots > 0:
            if self._queue:
                run = self._queue.popleft()
            else:
                entered = registry.next_run()
                if entered is None:
                    return
                run = entered
                self._set_aside(run)
            self._start(registry, run)

    def _set_aside(self, run: Run) -> None:
        aside = archive(run.folder)
        if aside is not None:
            self._listener.on_note(
                f"{run.folder} held another run, which the storage does not know; it is now {aside.name}"
            )

    def _start(self, registry: RunRegistry, run: Run) -> None:
        remember(run.config)
        self._active[run.key] = run
        registry.make_ready(run)
        self._executor.start(self._spec(run), run.folder, self._definition.function)
        self._listener.on_start(run)

    def _spec(self, run: Run) -> TrialSpec:
        return TrialSpec(
            study=self._definition.name,
            stage=run.stage,
            number=run.number,
            seed=run.seed,
            config=run.config,
            entry=self._definition.entry,
            continues=run.continues,
        )

    def _handle(self, stage: Stage, event: Event) -> None:
        run = self._active.get(event.key)
        if run is None:
            return
        if isinstance(event, TrialStarted):
            run.host = "" if event.host == os.uname().nodename else event.host
        elif isinstance(event, TrialReported):
            run.curve[event.step] = event.value
            if event.seconds is not None:
                run.times[event.step] = event.seconds
            self._executor.answer(run.key, self._answer(stage, run, event.step))
        elif isinstance(event, TrialLogged):
            run.logged.update((name, value) for name, value in event.metrics.items() if math.isfinite(value))
        elif isinstance(event, TrialBuilt):
            run.error = self._end_rules.mismatch(run, event.config)
        self._listener.on_event(run, event)
        if isinstance(event, TrialEnded):
            del self._active[run.key]
            self._judge_end(stage, run, event.result)

    def _answer(self, stage: Stage, run: Run, step: float) -> Verdict:
        verdict: Verdict = "continue" if stage.judge is None else stage.judge.answer(stage.registry, run, step)
        return "stop" if run.error or self._interrupts.requested else verdict

    def _judge_end(self, stage: Stage, run: Run, result: TrialResult) -> None:
        """Closes the run, or sees to it that it goes on."""
        result = self._end_rules.review(run, result)
        seconds = result.seconds + sum(attempt["seconds"] for attempt in run.attempts)
        if result.outcome is Outcome.CRASHED and ended_by_full_disk(result):
            self._abandon(stage)
            raise StudyError(
                f"the disk is full, or a file on it may not grow: {run.key} could not write to {run.folder} "
                f"({likely_cause(result)}).\nMake room; the same command goes on, and this run where it was."
            )
        if self._was_not_asked(stage, result.outcome):
            result = replace(result, outcome=Outcome.CRASHED, reason=likely_cause(result))
        if run.error:
            self._close(stage, run, RunEnd(Outcome.CRASHED, None, run.error, seconds))
        elif result.outcome is Outcome.STOPPED:
            stage.registry.note_attempt(run, Outcome.STOPPED, result.reason, result.seconds)
            self._listener.on_pause(run, "stopped; it goes on from its checkpoint when the study does")
        elif result.outcome.effects.retried:
            self._retry_or_close(stage, run, result, seconds)
        elif result.outcome.effects.scored:
            self._close(stage, run, self._scored(run, result, seconds))
        elif result.outcome.effects.penalised:
            self._close(stage, run, self._end_rules.penalised(run, result, seconds))
        else:
            self._close(stage, run, RunEnd(result.outcome, None, result.reason, seconds))

    def _was_not_asked(self, stage: Stage, outcome: Outcome) -> bool:
        """Whether a run says that it was asked to leave, and was not."""
        if outcome is Outcome.STOPPED:
            return not self._interrupts.requested
        return outcome is Outcome.PAUSED and stage.judge is None

    def _scored(self, run: Run, result: TrialResult, seconds: float) -> RunEnd:
        """A run that has come to its end, or to the rung at which it pauses, by its curve."""
        ending = self._end_rules.complete(run, seconds)
        if ending.outcome is not Outcome.COMPLETE:
            return ending
        return replace(ending, outcome=result.outcome, reason=ending.reason or result.reason, used=result.used)

    def _retry_or_close(self, stage: Stage, run: Run, result: TrialResult, seconds: float) -> None:
        """An end that may have been the machine's doing."""
        outcome, reason = result.outcome, likely_cause(result)
        stage.registry.note_attempt(run, outcome, reason, result.seconds)
        if result.deterministic or run.num_crashes > self._definition.settings.retries:
            self._close(stage, run, RunEnd(outcome, None, reason, seconds))
        else:
            self._hear_of(stage, run, files.read_reports(run.folder))
            self._listener.on_pause(
                run, f"{outcome} ({reason}); it is tried again, from its last checkpoint if it has one"
            )
            self._queue.appendleft(run)

    def _hear_of(self, stage: Stage, run: Run, reports: Iterable[tuple[float, float]]) -> None:
        """Takes in what a run has written: of its last report nobody may have heard before it died."""
        run.curve, run.times = dict(reports), files.read_times(run.folder)
        run.logged = files.read_logged(run.folder) if self._definition.kept_metrics else {}
        if stage.judge is not None:
            stage.judge.catch_up(stage.registry, run)

    def _close(self, stage: Stage, run: Run, ending: RunEnd) -> None:
        record = stage.registry.tell(run, ending)
        self._end_rules.see(record)
        self._listener.on_end(run, record)
        whole = stage.registry.whole(run, record)
        if whole is not None and record.environment:
            self._listener.on_whole(whole)
        if whole is not None and stage.after is not None:
            stage.after(whole)
        if whole is not None and self._guard.count(whole):  # a good part is no success: the next may fail each time
            self._abandon(stage)
            num_ended = sum(one.outcome is not None for one in stage.registry.records())
            raise StudyError(self._guard.complaint(run, num_ended, self._definition.settings.num_trials))

    def _abandon(self, stage: Stage) -> None:
        """Stops what else runs before an error is raised; these runs stay open and go on with the study."""
        self._interrupts.requested = True
        self._end_processes(stage)

    def _announce_stop(self) -> None:
        """Says what is waited for; a run that is not listening is left its time, twice, before it is killed."""
        limits = self._executor.limits
        takes = "" if limits is None else f", which takes up to {2 * limits.grace_s:g} s"
        if self._active:
            self._listener.on_note(
                f"stopping {counted(len(self._active), 'run')}{takes}; Ctrl-C again ends "
                f"{'it' if len(self._active) == 1 else 'them'} now"
            )

    def _end_processes(self, stage: Stage) -> None:
        self._executor.stop_all()
        while self._active:
            for event in self._executor.wait(POLL_S):
                self._handle(stage, event)
