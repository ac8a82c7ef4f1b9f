"""Brings the runs of a stage to their ends: starts processes, answers reports, judges ends, writes all of it down."""

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from tuner.config.trust import remember
from tuner.executors.base import Event, Executor, TrialBuilt, TrialEnded, TrialReported
from tuner.files import sweep_unfinished
from tuner.results.objective import other_values
from tuner.results.records import RunRecord
from tuner.results.wording import counted
from tuner.study.control import Interrupts, archive
from tuner.study.definition import StudyDefinition
from tuner.study.errors import StudyError, StudyStopped
from tuner.study.guard import Guard
from tuner.study.run_checks import config_mismatch, is_of, likely_cause
from tuner.study.run_registry import Run, RunEnd, RunRegistry
from tuner.study.sampling.penalties import Penalties
from tuner.study.storage.disk import ended_by_full_disk
from tuner.study.watching.listener import StudyListener
from tuner.trial import folder as files
from tuner.trial import orphans
from tuner.trial.messages import Limits, Outcome, TrialResult, TrialSpec, Verdict

POLL_S = 0.5
"""How soon a Ctrl-C is noticed while nothing happens."""

LEFTOVER_PATIENCE_S = 30.0
"""How long a process of a killed controller may take to checkpoint and leave by itself."""


class Judge(Protocol):
    """Says which runs end early."""

    def answer(self, registry: RunRegistry, run: Run, step: float) -> Verdict:
        """The verdict on a run that has just reported at this step."""

    def catch_up(self, registry: RunRegistry, run: Run) -> None:
        """Takes in what a run reported while nobody listened."""


class Dispatcher:
    """Brings the runs of a book to their ends, as many at a time as the executor has room for.

    Args:
        definition: The study.
        executor: Runs the trials.
        interrupts: Asks to stop.
        listener: Told of everything.
        random_score: What a random policy scores, if that is known.
        sign: Called often, to say that this process lives.
    """

    def __init__(
        self,
        definition: StudyDefinition,
        executor: Executor,
        interrupts: Interrupts,
        listener: StudyListener,
        random_score: float | None = None,
        heartbeat: Callable[[], None] = lambda: None,
    ) -> None:
        self._definition = definition
        self._executor = executor
        self._interrupts = interrupts
        self._listener = listener
        self._penalties = Penalties(definition.metric, definition.others, random_score)
        self._guard = Guard(definition.settings.max_failures)
        self._active: dict[str, Run] = {}
        self._queue: deque[Run] = deque()
        self._heartbeat = heartbeat

    def restore(self, records: Iterable[RunRecord]) -> None:
        """Takes in what earlier sessions have done, in whatever stage."""
        for record in records:
            self._penalties.see(record)
            self._guard.restore(record)

    def run_stage(
        self, registry: RunRegistry, judge: Judge | None = None, after: Callable[[RunRecord], None] | None = None
    ) -> None:
        """Runs all that the registry still has to run, what an earlier controller left half-way first.

        Args:
            registry: Of the stage.
            judge: Answers reports; without one every run goes on to its end.
            after: Called when a run has been closed, with its record.

        Raises:
            StudyStopped: Asked to stop; open runs have checkpointed.
            StudyError: Too many failures in a row.
        """
        context = _StageContext(registry, judge, after)
        try:
            self._run_all(context)
        except KeyboardInterrupt:  # a second Ctrl-C: at once, and without the storage, which may be what hangs
            for run in self._active.values():
                files.end_leftover(run.folder, grace_s=0.0)
            self._executor.close()
            raise StudyStopped(len(self._active) + len(self._queue), self._interrupts.reason) from None

    def _run_all(self, context: "_StageContext") -> None:
        open_runs = context.registry.open_runs()
        sessions = files.sessions_of(run.folder for run in open_runs)
        for run in open_runs:
            self._take_over(context, run)
        orphans.end_deserted(sessions)
        while True:
            self._heartbeat()
            if self._interrupts.requested:
                self._announce_stop()
                self._end_processes(context)
                raise StudyStopped(context.registry.num_open, self._interrupts.reason)
            self._fill(context.registry)
            if not self._active:
                # an entry whose acknowledgement was lost with a connection is nobody's yet
                for run in context.registry.open_runs():
                    self._take_over(context, run)
                if not self._queue:
                    return
                continue
            for event in self._executor.wait(POLL_S):
                self._handle(context, event)

    def _take_over(self, context: "_StageContext", run: Run) -> None:
        """Picks up a run of an earlier controller where it is: ended, still alive, half-way, or not begun."""
        if files.is_locked(run.folder):
            self._listener.on_note(f"{run.key} is still running since an earlier session; waiting for it to checkpoint")
        if not files.wait_until_free(run.folder, LEFTOVER_PATIENCE_S):
            files.end_leftover(run.folder)
        sweep_unfinished(run.folder)
        state = files.read_trial(run.folder)
        if not is_of(state.spec, run):
            self._set_aside(run)
            self._queue.append(run)
            return
        self._hear_of(context, run, state.reports)
        if state.result is None or state.result.outcome is Outcome.STOPPED or ended_by_full_disk(state.result):
            self._queue.append(run)
        else:
            self._listener.on_start(run)  # for those whose records of it are still open
            self._judge_end(context, run, state.result)

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
            self._start(run)

    def _set_aside(self, run: Run) -> None:
        aside = archive(run.folder)
        if aside is not None:
            self._listener.on_note(
                f"{run.folder} held another run, which the storage does not know; it is now {aside.name}"
            )

    def _start(self, run: Run) -> None:
        spec = TrialSpec(
            study=self._definition.name,
            stage=run.stage,
            number=run.number,
            seed=run.seed,
            config=run.config,
            entry=self._definition.entry,
        )
        remember(run.config)
        self._active[run.key] = run
        self._executor.start(spec, run.folder, self._definition.function)
        self._listener.on_start(run)

    def _handle(self, context: "_StageContext", event: Event) -> None:
        run = self._active.get(event.key)
        if run is None:
            return
        if isinstance(event, TrialReported):
            run.curve[event.step] = event.value
            self._executor.answer(run.key, self._answer(context, run, event.step))
        elif isinstance(event, TrialBuilt):
            run.complaint = config_mismatch(run.values, event.config)
        self._listener.on_event(run, event)
        if isinstance(event, TrialEnded):
            del self._active[run.key]
            self._judge_end(context, run, event.result)

    def _answer(self, context: "_StageContext", run: Run, step: float) -> Verdict:
        verdict: Verdict = "continue" if context.judge is None else context.judge.answer(context.registry, run, step)
        return "stop" if run.complaint or self._interrupts.requested else verdict

    def _judge_end(self, context: "_StageContext", run: Run, result: TrialResult) -> None:
        """Closes the run, or sees to it that it goes on."""
        result = self._without_holes(run, result)
        seconds = result.seconds + sum(attempt["seconds"] for attempt in run.attempts)
        if result.outcome is Outcome.CRASHED and ended_by_full_disk(result):
            self._abandon(context)
            raise StudyError(
                f"the disk is full, or a file on it may not grow: {run.key} could not write to {run.folder} "
                f"({likely_cause(result)}).\nMake room; the same command goes on, and this run where it was."
            )
        if result.outcome is Outcome.STOPPED and not self._interrupts.requested:
            result = replace(result, outcome=Outcome.CRASHED, reason=likely_cause(result))  # nobody asked it to
        if run.complaint:
            self._close(context, run, RunEnd(Outcome.CRASHED, None, run.complaint, seconds))
        elif result.outcome is Outcome.STOPPED:
            context.registry.note_attempt(run, Outcome.STOPPED, result.reason, result.seconds)
            self._listener.on_pause(run, "stopped; it goes on from its checkpoint when the study does")
        elif result.outcome.effects.retried:
            self._retry_or_close(context, run, result, seconds)
        elif result.outcome is Outcome.PRUNED:
            self._close(context, run, RunEnd(Outcome.PRUNED, None, result.reason, seconds))
        elif result.outcome is Outcome.COMPLETE:
            self._close(context, run, self._complete(run, seconds))
        else:
            self._close(context, run, self._penalties.ending(run, result.outcome, result.reason, seconds))

    def _without_holes(self, run: Run, result: TrialResult) -> TrialResult:
        """A run that has not reported all that it should have is not complete: its score would be that of another."""
        if result.outcome is not Outcome.COMPLETE or not run.curve:
            return result
        missing = self._definition.missing_evaluations(run.config, run.curve)
        if not missing:
            return result
        where = ", ".join(f"{fraction:.3g}" for fraction in missing)
        return replace(
            result, outcome=Outcome.CRASHED, reason=f"it ended without its evaluation at {where} of its budget"
        )

    def _complete(self, run: Run, seconds: float) -> RunEnd:
        if not run.curve:
            return RunEnd(Outcome.CRASHED, None, "it ended without having reported anything", seconds)
        value = self._definition.metric(run.points)
        if not math.isfinite(value):
            return self._penalties.ending(run, Outcome.DIVERGED, f"its score is {value}", seconds)
        others = other_values(self._definition.others, run.points, seconds)
        return RunEnd(Outcome.COMPLETE, value, "", seconds, others)

    def _retry_or_close(self, context: "_StageContext", run: Run, result: TrialResult, seconds: float) -> None:
        """An end that may have been the machine's doing."""
        outcome, reason = result.outcome, likely_cause(result)
        context.registry.note_attempt(run, outcome, reason, result.seconds)
        if result.deterministic or run.num_crashes > self._definition.settings.retries:
            self._close(context, run, RunEnd(outcome, None, reason, seconds))
        else:
            self._hear_of(context, run, files.read_reports(run.folder))
            self._listener.on_pause(run, f"{outcome} ({reason}); it goes on from its last checkpoint")
            self._queue.appendleft(run)

    def _hear_of(self, context: "_StageContext", run: Run, reports: Iterable[tuple[float, float]]) -> None:
        """Takes in what a run has written: of its last report nobody may have heard before it died."""
        run.curve = dict(reports)
        if context.judge is not None:
            context.judge.catch_up(context.registry, run)

    def _close(self, context: "_StageContext", run: Run, ending: RunEnd) -> None:
        record = context.registry.tell(run, ending)
        self._penalties.see(record)
        self._listener.on_end(run, record)
        if context.after is not None:
            context.after(record)
        if self._guard.count(record):
            self._abandon(context)
            num_ended = sum(one.outcome is not None for one in context.registry.records())
            raise StudyError(self._guard.complaint(run, num_ended, self._definition.settings.num_trials))

    def _abandon(self, context: "_StageContext") -> None:
        """Stops what else runs before an error is raised; these runs stay open and go on with the study."""
        self._interrupts.requested = True
        self._end_processes(context)

    def _announce_stop(self) -> None:
        """Says what is waited for; a run that is not listening is left its time, twice, before it is killed."""
        limits = getattr(self._executor, "limits", None)
        takes = f", which takes up to {2 * limits.grace_s:g} s" if isinstance(limits, Limits) else ""
        if self._active:
            self._listener.on_note(
                f"stopping {counted(len(self._active), 'run')}{takes}; Ctrl-C again ends "
                f"{'it' if len(self._active) == 1 else 'them'} now"
            )

    def _end_processes(self, context: "_StageContext") -> None:
        self._executor.stop_all()
        while self._active:
            for event in self._executor.wait(POLL_S):
                self._handle(context, event)


@dataclass(frozen=True)
class _StageContext:
    """What belongs to the stage under way."""

    registry: RunRegistry
    judge: Judge | None
    after: Callable[[RunRecord], None] | None
