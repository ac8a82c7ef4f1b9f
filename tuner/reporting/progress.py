"""How far a study is: plain numbers, worked out from its runs, for whatever shows them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from tuner.records import SCREEN, STAGES, RunRecord
from tuner.trial.messages import Outcome
from tuner.verdicts import Estimate, estimate
from tuner.wording import format_number, join_words

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
    """

    label: str
    seed: int
    progress: float | None = None
    value: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Schedule:
    """What there is to do, as far as is known by now.

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
        interval = "" if self.best.low is None else f" {str(self.best).partition(' ')[2]}"
        return f"{format_number(self.best.iqm)}{interval} ({self.best_label}, {seeds})"


def study_progress(
    title: str,
    runs: Sequence[RunRecord],
    schedule: Schedule,
    running: Sequence[RunningRun],
    seconds: float,
) -> StudyProgress:
    """Work out the progress of a study.

    Args:
        title: what is being tuned.
        runs: that have ended, of all stages.
        schedule: what there is to do.
        running: under way, of the current stage.
        seconds: since the study began.
    """
    own = [run for run in runs if run.stage == schedule.stage]
    best, best_label = best_so_far(runs)
    return StudyProgress(
        title=title,
        stage=schedule.stage,
        num_ended=len(own),
        num_total=schedule.totals[schedule.stage],
        running=tuple(running),
        num_complete=sum(run.complete for run in own),
        num_pruned=sum(run.outcome is Outcome.PRUNED for run in own),
        failures=Counter(run.outcome for run in runs if run.outcome is not None and run.failed),
        best=best,
        best_label=best_label,
        seconds=seconds,
        seconds_left=seconds_left(runs, running, schedule),
    )


def best_so_far(runs: Sequence[RunRecord]) -> tuple[Estimate | None, str]:
    """Scores and name of the best configuration in the newest stage with complete runs."""
    for stage in reversed(STAGES):
        groups: dict[str, list[float]] = {}
        for run in runs:
            if run.stage == stage and run.complete and run.score is not None:
                groups.setdefault(run.label, []).append(run.score)
        if groups:
            estimates = {label: estimate(scores) for label, scores in groups.items()}
            label = max(estimates, key=lambda name: estimates[name].iqm)
            return estimates[label], f"{label}, {stage}"
    return None, ""


def seconds_left(runs: Sequence[RunRecord], running: Sequence[RunningRun], schedule: Schedule) -> float | None:
    """Estimate of the time until the last stage is finished; None with too few runs to go by.

    A screening run to come lasts as long as screening runs do on average, pruned ones included; a run of a later stage
    is never pruned and lasts as long as complete runs do. Runs under way count with the part that is not done.
    """
    screened = [run.seconds for run in runs if run.stage == SCREEN and not run.failed]
    complete = [run.seconds for run in runs if run.complete]
    if len(complete) < MIN_RUNS_FOR_TIME_LEFT:
        return None
    ended = Counter(run.stage for run in runs)
    full = fmean(complete)
    each = {stage: fmean(screened) if stage == SCREEN and screened else full for stage in schedule.totals}
    work = sum(max(0, total - ended[stage]) * each[stage] for stage, total in schedule.totals.items())
    begun = sum((run.progress or 0.0) * full for run in running)
    return max(0.0, work - begun) / max(1, schedule.parallel)
