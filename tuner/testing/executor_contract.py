"""Tests for every executor, whatever the place where trials run."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from tuner.executors.base import (
    Event,
    Executor,
    TrialBuilt,
    TrialEnded,
    TrialFunction,
    TrialLogged,
    TrialProgress,
    TrialReported,
    TrialStarted,
)
from tuner.testing import trial_programs
from tuner.testing.trial_programs import CHECKPOINT, NOTE
from tuner.trial.context import TrialContext
from tuner.trial.folder import REPORTS_FILE, read_trial
from tuner.trial.messages import VERDICTS, Limits, Outcome, TrialResult, TrialSpec, Verdict

_KEY = "screen/0"
_ENDS: dict[Verdict, Outcome] = {
    "continue": Outcome.COMPLETE,
    "prune": Outcome.PRUNED,
    "pause": Outcome.PAUSED,
    "stop": Outcome.STOPPED,
}


class ExecutorContract:
    """Tests of an executor. One executor for two trials at a time serves most of them; `make` is called three times.

    Attributes:
        isolates: Whether a trial has a process of its own, so that its death and its silence are noticed.
        patience_s: How long the next event may take, on a busy machine and the first trial included.
    """

    isolates = True
    patience_s = 120.0
    _shared: ClassVar[Executor | None] = None

    def make(self, parallel: int, limits: Limits) -> Executor:
        """The executor.

        Args:
            parallel: How many trials at a time.
            limits: Of a trial's resources, if they are enforced.
        """
        raise NotImplementedError

    @pytest.fixture
    def executor(self) -> Executor:
        """The one that most tests share: each leaves it as it was."""
        return self._made_once()

    @classmethod
    def _made_once(cls) -> Executor:
        if cls._shared is None:
            cls._shared = cls().make(2, Limits())
        return cls._shared

    @classmethod
    def teardown_class(cls) -> None:
        """Closes that one; called by pytest behind the last test."""
        if cls._shared is not None:
            cls._shared.close()
            cls._shared = None

    def test_a_trial_says_everything_in_order(self, executor: Executor, tmp_path: Path) -> None:
        """Events come in the order in which the trial caused them, and its folder holds the same."""
        started = replace(_spec("complete"), config={"learning_rate": 0.1})
        executor.start(started, tmp_path / "0")
        events = self.until_all_ended(executor)
        kinds = [TrialStarted, TrialBuilt, TrialLogged, TrialProgress, *[TrialReported] * 3, TrialEnded]
        assert [type(event) for event in events] == kinds
        assert {event.key for event in events} == {_KEY}
        built, logged, ended = events[1], events[2], events[-1]
        assert isinstance(built, TrialBuilt)
        assert built.config == {"learning_rate": 0.1, "used": True}
        assert isinstance(logged, TrialLogged)
        assert (logged.step, logged.metrics["loss"]) == (3, 0.5)
        assert logged.metrics["bad"] != logged.metrics["bad"], "what is not a number arrives as that"
        assert _reports(events) == [(0.25, 2.5), (0.5, 5.0), (1.0, 10.0)]
        assert isinstance(ended, TrialEnded)
        state = read_trial(tmp_path / "0")
        assert (state.result, state.alive) == (ended.result, False)
        assert state.reports == ((0.25, 2.5), (0.5, 5.0), (1.0, 10.0))
        assert state.spec is not None
        assert (state.spec.key, state.spec.config) == (_KEY, {"learning_rate": 0.1})

    @pytest.mark.parametrize("verdict", VERDICTS)
    def test_a_verdict_is_obeyed(self, executor: Executor, tmp_path: Path, verdict: Verdict) -> None:
        """A trial goes on or ends as the answer to its report says."""
        result = self.run(executor, _spec("complete"), tmp_path, verdict=verdict)
        assert result.outcome is _ENDS[verdict]
        assert len(read_trial(tmp_path).reports) == (3 if verdict == "continue" else 1)

    def test_a_trial_waits_for_the_answer_to_its_report(self, executor: Executor, tmp_path: Path) -> None:
        """Nothing more happens to a trial between its report and `answer`."""
        executor.start(_spec("complete"), tmp_path)
        self.until(executor, TrialReported)
        assert executor.wait(0.2) == []
        executor.answer(_KEY, "prune")
        (ended,) = self.until_all_ended(executor)
        assert isinstance(ended, TrialEnded)
        assert ended.result.outcome is Outcome.PRUNED

    def test_a_verdict_counts_even_if_the_trial_catches_it(self, executor: Executor, tmp_path: Path) -> None:
        """A function that catches the interruption and returns was pruned nevertheless."""
        assert self.run(executor, _spec("ignore"), tmp_path, verdict="prune").outcome is Outcome.PRUNED

    @pytest.mark.parametrize(
        ("program", "outcome", "reason"),
        [
            ("fail", Outcome.CRASHED, "KeyError: 'no such key'"),
            ("refuse", Outcome.CRASHED, "the function has no score"),
            ("diverge", Outcome.DIVERGED, "the value reported at step 1 is nan"),
            ("no_such_program", Outcome.CRASHED, "no_such_program"),
        ],
    )
    def test_an_error_is_a_value(
        self, executor: Executor, tmp_path: Path, program: str, outcome: Outcome, reason: str
    ) -> None:
        """Whatever a trial raises is an outcome with a reason, and no exception of the executor."""
        result = self.run(executor, _spec(program), tmp_path)
        assert result.outcome is outcome
        assert reason in result.reason
        assert result.deterministic is (program == "refuse"), "an error for the user would come again"
        assert read_trial(tmp_path).result == result

    def test_the_traceback_is_kept(self, executor: Executor, tmp_path: Path) -> None:
        """The result of a trial that failed shows where."""
        assert 'raise KeyError("no such key")' in self.run(executor, _spec("fail"), tmp_path).traceback

    def test_a_killed_trial_is_a_crash(self, executor: Executor, tmp_path: Path) -> None:
        """A process that leaves no result has crashed; the executor writes that down for it."""
        if self.isolates:
            result = self.run(executor, _spec("die"), tmp_path)
            assert result.outcome is Outcome.CRASHED
            assert read_trial(tmp_path).result == result

    def test_a_function_takes_the_place_of_the_entry(self, executor: Executor, tmp_path: Path) -> None:
        """A function is called in place of the spec's entry, whatever it holds on to."""
        values = [1.5, 2.5]

        def report_both(context: TrialContext) -> None:
            for step, value in zip((0.5, 1.0), values, strict=True):
                context.report(step, value)

        self.run(executor, _spec("no_such_program"), tmp_path, report_both)
        assert read_trial(tmp_path).reports == ((0.5, 1.5), (1.0, 2.5))

    def test_a_trial_goes_on_from_its_folder(self, executor: Executor, tmp_path: Path) -> None:
        """The reports of an earlier attempt are known to the next one, which keeps the values and reports again."""
        self.run(executor, _spec("go_on"), tmp_path, verdict="stop")
        (tmp_path / REPORTS_FILE).write_text('{"step": 0.5, "value": 1.0}\n{"step": 0.75, "val')  # and a torn line
        executor.start(_spec("go_on"), tmp_path)
        assert _reports(self.until_all_ended(executor)) == [(0.5, 1.0), (1.0, 100.0)]
        assert (tmp_path / NOTE).read_text() == "[[0.5, 1.0]]"
        assert read_trial(tmp_path).reports == ((0.5, 1.0), (1.0, 100.0))

    def test_the_result_of_an_earlier_attempt_does_not_count(self, executor: Executor, tmp_path: Path) -> None:
        """A trial that is started again has the result of its last attempt."""
        self.run(executor, _spec("complete"), tmp_path)
        assert self.run(executor, _spec("fail"), tmp_path).outcome is Outcome.CRASHED

    def test_as_many_trials_as_there_are_slots(self, executor: Executor, tmp_path: Path) -> None:
        """One trial too many, and a trial that runs already, are refused. Slots are free again once trials end."""
        self.until_free(executor, executor.parallel)
        executor.start(_spec("complete", 0), tmp_path / "0")
        with pytest.raises(RuntimeError, match="screen/0"):
            executor.start(_spec("complete", 0), tmp_path / "0")
        executor.start(_spec("complete", 1), tmp_path / "1")
        assert executor.free_slots == 0
        with pytest.raises(RuntimeError, match="screen/2"):
            executor.start(_spec("complete", 2), tmp_path / "2")
        ends = [event.key for event in self.until_all_ended(executor) if isinstance(event, TrialEnded)]
        assert sorted(ends) == ["screen/0", "screen/1"]
        assert executor.free_slots == executor.parallel

    def test_answers_out_of_place(self, executor: Executor, tmp_path: Path) -> None:
        """An answer that is no verdict, and a second one, are refused; one to a trial that has ended has no effect."""
        executor.start(_spec("work_on"), tmp_path)
        self.until(executor, TrialReported)
        executor.answer(_KEY, "continue")
        with pytest.raises(RuntimeError, match="no report that waits"):
            executor.answer(_KEY, "continue")
        executor.stop_all()
        self.until_all_ended(executor)
        executor.answer(_KEY, "continue")
        with pytest.raises(ValueError, match="continue, prune, pause, stop"):
            executor.answer(_KEY, "pruned")  # type: ignore[arg-type]

    def test_wait_returns(self, executor: Executor, tmp_path: Path) -> None:
        """At once where no trial runs, and when its time is up."""
        assert executor.wait() == []
        executor.start(_spec("work_on"), tmp_path)
        self.until(executor, TrialReported)
        began = time.monotonic()
        assert executor.wait(0.1) == []
        assert time.monotonic() - began < self.patience_s / 2
        executor.answer(_KEY, "stop")
        self.until_all_ended(executor)

    def test_stop_all_lets_trials_save_what_they_have(self, executor: Executor, tmp_path: Path) -> None:
        """Trials that wait for an answer checkpoint and leave; a late answer to them is not wrong."""
        executor.start(_spec("work_on"), tmp_path)
        self.until(executor, TrialReported)
        executor.stop_all()
        executor.stop_all()
        executor.answer(_KEY, "continue")
        (ended,) = self.until_all_ended(executor)
        assert isinstance(ended, TrialEnded)
        assert ended.result.outcome is Outcome.STOPPED
        assert (tmp_path / CHECKPOINT).read_text() == "stopped"

    def test_the_folder_of_no_trial_is_free(self, executor: Executor, tmp_path: Path) -> None:
        """`reclaim` returns where no earlier controller has left anything, be the folder there or not."""
        executor.reclaim(_spec("complete"), tmp_path / "not there")
        self.run(executor, _spec("complete"), tmp_path / "0")
        executor.reclaim(_spec("complete"), tmp_path / "0")

    def test_limits_are_kept(self, tmp_path: Path) -> None:
        """A trial is ended that gives no sign of life, and one whose children take too much memory.

        An executor without limits says so.
        """
        limits = Limits(silence_s=1.0, grace_s=0.5, memory_mb=400)
        executor = self.make(1, limits)
        try:
            if executor.limits is not None:
                assert executor.limits == limits
                assert self.run(executor, _spec("hang"), tmp_path / "0").outcome is Outcome.HUNG
                assert self.run(executor, _spec("hoard", 1), tmp_path / "1").outcome is Outcome.OUT_OF_MEMORY
        finally:
            executor.close()

    def test_close_leaves_nothing_behind(self, tmp_path: Path) -> None:
        """Trials that run are ended, after they have saved what they have. Closing twice does nothing."""
        executor = self.make(1, Limits(grace_s=5.0))
        try:
            executor.start(_spec("work_on"), tmp_path)
            self.until(executor, TrialReported)
        finally:
            executor.close()
            executor.close()
        state = read_trial(tmp_path)
        assert not state.alive
        assert (tmp_path / CHECKPOINT).read_text() == "stopped"

    def run(
        self,
        executor: Executor,
        spec: TrialSpec,
        folder: Path,
        function: TrialFunction | None = None,
        verdict: Verdict = "continue",
    ) -> TrialResult:
        """Runs one trial to its end.

        Args:
            executor: Which has a free slot.
            spec: The trial.
            folder: Its folder.
            function: In place of the spec's entry.
            verdict: The answer to each of its reports.
        """
        executor.start(spec, folder, function)
        return next(event.result for event in self.until_all_ended(executor, verdict) if isinstance(event, TrialEnded))

    def until_all_ended(self, executor: Executor, verdict: Verdict = "continue") -> list[Event]:
        """All events until no trial runs any more, with each report answered."""
        events: list[Event] = []
        while new := executor.wait(self.patience_s):
            events += new
            for event in new:
                if isinstance(event, TrialReported):
                    executor.answer(event.key, verdict)
        self.until_free(executor, executor.parallel)
        return events

    def until(self, executor: Executor, kind: type[Event]) -> Event:
        """Waits for the first event of a kind, and answers nothing; it is the last one that there is by then."""
        while events := executor.wait(self.patience_s):
            found = [event for event in events if isinstance(event, kind)]
            if found:
                return found[0]
        raise AssertionError(f"no {kind.__name__} for {self.patience_s:g} s")

    def until_free(self, executor: Executor, num_slots: int) -> None:
        """Waits until slots are free: places on other machines take their time to be ready."""
        deadline = time.monotonic() + self.patience_s
        while executor.free_slots < num_slots:
            assert time.monotonic() < deadline, f"{executor.free_slots} of {num_slots} slots are free"
            time.sleep(0.05)


def _spec(program: str, number: int = 0) -> TrialSpec:
    return TrialSpec("study", "screen", number, 11, {}, entry=f"{trial_programs.__name__}:{program}")


def _reports(events: Sequence[Event]) -> list[tuple[float, float]]:
    return [(event.step, event.value) for event in events if isinstance(event, TrialReported)]
