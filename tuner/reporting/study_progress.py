"""How far a study is: plain numbers, kept up to date run by run, for whatever shows them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuner.results.features import all_stages, first_stages, stages_behind
from tuner.results.findings import Estimate, estimate
from tuner.results.number_format import join_words
from tuner.results.records import SCREEN, RunRecord
from tuner.trial.messages import Outcome

MIN_RUNS_FOR_TIME_LEFT = 2


@dataclass(frozen=True)
class RunningRun:
    """A run under way.

    Attributes:
        label: "trial 7" or "default".
        seed: its seed.
        progress: done part of its budget in [0, 1]; None before the first sign of life.
        value: what it reported last.
        seconds: since it started.
        host: the other machine that it runs on; empty on this one.
    """

    label: str
    seed: int
    progress: float | None = None
    value: float | None = None
    seconds: float = 0.0
    host: str = ""


@dataclass(frozen=True)
class Schedule:
    """The runs to be done, as far as they are known.

    Attributes:
        stage: the current stage.
        totals: stage -> number of runs.
        parallel: runs at a time.
    """

    stage: str
    totals: Mapping[str, int]
    parallel: int = 1


@dataclass(frozen=True)
class StudyProgress:
    """A study at one moment.

    Attributes:
        title: what is being tuned: "my-study: dqn on CartPole-v1".
        stage: the current stage.
        num_ended: runs of this stage that have ended, in whatever way.
        num_total: runs of this stage in all.
        running: runs under way.
        num_complete: complete runs of this stage.
        num_pruned: pruned runs of this stage.
        failures: kind of failure -> number, over the whole study.
        best: the best configuration's scores in the newest stage that has any; None before the first.
        best_label: its label and stage, "trial 7, screen".
        seconds: since the study (or this session of it) began.
        seconds_left: estimate for all stages; None while there is too little to go by.
    """

    title: str
    stage: str
    num_ended: int
    num_total: int
    running: tuple[RunningRun, ...] = ()
    num_complete: int = 0
    num_pruned: int = 0
    failures: Mapping[Outcome, int] = field(default_factory=dict)
    best: Estimate | None = None
    best_label: str = ""
    seconds: float = 0.0
    seconds_left: float | None = None

    @property
    def failures_text(self) -> str:
        """`3 (2 crashed and 1 timed out)`, or `0`."""
        kinds = join_words(f"{count} {kind.replace('_', ' ')}" for kind, count in self.failures.items() if count)
        return f"{sum(self.failures.values())} ({kinds})" if kinds else "0"

    @property
    def best_text(self) -> str:
        """`495.2 [480, 500] (trial 7, confirm, 5 seeds)`, or `none yet`."""
        if self.best is None:
            return "none yet"
        seeds = "1 seed" if self.best.n == 1 else f"{self.best.n} seeds"
        interval = "" if self.best.low is None else f" {self.best.around}"
        return f"{self.best.mean}{interval} ({self.best_label}, {seeds})"


class StudyTally:
    """Counts the runs of a study as they end. Taking one in costs the same, however many there are already."""

    def __init__(self) -> None:
        self._newest_first = (*stages_behind(), *reversed(all_stages()))
        self._stages = {
            stage: _StageTally(_Best() if stage == SCREEN else _BestOverSeeds()) for stage in self._newest_first
        }
        self._failures: Counter[Outcome] = Counter()
        self._screened, self._complete = _Mean(), _Mean()

    def add(self, run: RunRecord) -> None:
        """Takes a run in; one that has not ended, or was taken in before, changes nothing."""
        stage = self._stages[run.stage]
        if run.outcome is None or run.number in stage.numbers:
            return
        stage.add(run)
        if run.failed:
            self._failures[run.outcome] += 1
        elif run.stage in first_stages():
            self._screened.add(run.seconds)
        if run.complete or (run.descent is not None and not run.failed):
            self._complete.add(run.seconds / (run.used or 1.0))

    def progress(self, title: str, schedule: Schedule, running: Sequence[RunningRun], seconds: float) -> StudyProgress:
        """How far the study is.

        Args:
            title: what is being tuned.
            schedule: what there is to do.
            running: under way, of the current stage.
            seconds: since the study began.
        """
        own = self._stages[schedule.stage]
        best, best_label = self.best()
        return StudyProgress(
            title=title,
            stage=schedule.stage,
            num_ended=len(own.numbers),
            num_total=schedule.totals[schedule.stage],
            running=tuple(running),
            num_complete=own.num_complete,
            num_pruned=own.num_pruned,
            failures=dict(self._failures),
            best=best,
            best_label=best_label,
            seconds=seconds,
            seconds_left=self.seconds_left(schedule, running),
        )

    def best(self) -> tuple[Estimate | None, str]:
        """Scores and name of the best configuration in the newest stage with complete runs."""
        for stage in self._newest_first:
            found = self._stages[stage].best
            if found.estimate is not None:
                return found.estimate, f"{found.label}, {stage}"
        return None, ""

    def seconds_left(self, schedule: Schedule, running: Sequence[RunningRun]) -> float | None:
        """Estimate of the time until the last stage is finished; None with too few runs to go by.

        A screening run to come lasts as long as screening runs do on average, pruned ones included; a run of a later
        stage is never pruned and lasts as long as complete runs do. Runs under way count with the part that is not
        done.
        """
        if self._complete.count < MIN_RUNS_FOR_TIME_LEFT:
            return None
        full = self._complete.value
        screened = self._screened.value if self._screened.count else full
        work = sum(
            max(0, total - len(self._stages[stage].numbers)) * (screened if stage in first_stages() else full)
            for stage, total in schedule.totals.items()
        )
        begun = sum((run.progress or 0.0) * full for run in running)
        return max(0.0, work - begun) / max(1, schedule.parallel)


class _Best:
    """The best configuration of a stage in which each has one run. Others are forgotten: there may be many."""

    def __init__(self) -> None:
        self.estimate: Estimate | None = None
        self.label = ""

    def add(self, label: str, score: float) -> None:
        """Takes a score in; of equals the first stays."""
        if self.estimate is None or score > self.estimate.iqm:
            self.estimate, self.label = estimate([score]), label


class _BestOverSeeds(_Best):
    """The best of a few configurations, each with several runs: a further score may also lower one."""

    def __init__(self) -> None:
        super().__init__()
        self._estimates: dict[str, Estimate] = {}

    def add(self, label: str, score: float) -> None:
        """Takes a score in."""
        before = self._estimates[label].points if label in self._estimates else ()
        self._estimates[label] = estimate([*before, score])
        self.label = max(self._estimates, key=lambda name: self._estimates[name].iqm)
        self.estimate = self._estimates[self.label]


@dataclass
class _StageTally:
    """The runs of one stage that have ended."""

    best: _Best
    numbers: set[int] = field(default_factory=set)
    num_complete: int = 0
    num_pruned: int = 0

    def add(self, run: RunRecord) -> None:
        self.numbers.add(run.number)
        self.num_complete += run.complete
        self.num_pruned += run.outcome is Outcome.PRUNED
        if run.complete and run.score is not None:
            self.best.add(run.label, run.score)


@dataclass
class _Mean:
    """A mean that grows."""

    count: int = 0
    total: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value

    @property
    def value(self) -> float:
        return self.total / self.count
