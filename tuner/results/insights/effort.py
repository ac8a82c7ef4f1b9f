"""Cost of a study, and the likely gain of further trials."""

from dataclasses import dataclass

from tuner.results.features import all_stages
from tuner.results.insights.winner_ties import seed_noise
from tuner.results.number_format import format_number
from tuner.results.records import SCREEN, RunRecord, StudySummary
from tuner.results.statistics import expected_best_of_k
from tuner.trial.messages import Outcome

MIN_TRIALS = 5
_MAX_POINTS = 60
_ELSEWHERE = "keep it, or search other parameters or ranges (space.NAME)"


@dataclass(frozen=True)
class StageCost:
    """Cost of one stage.

    Attributes:
        stage: its name.
        num_runs: runs that were started.
        num_complete: of these, complete.
        num_pruned: of these, pruned.
        num_failed: of these, failed.
        seconds: summed over its runs, which may have run at the same time.
        lost_seconds: the part of it spent on runs that failed.
        env_steps: environment steps, as far as its runs have reported; None where a run has no step budget.
    """

    stage: str
    num_runs: int
    num_complete: int
    num_pruned: int
    num_failed: int
    seconds: float
    lost_seconds: float
    env_steps: int | None


def ended_by_themselves(summary: StudySummary) -> tuple[RunRecord, ...]:
    """Complete runs that did not use all of their budget, and say why."""
    return tuple(run for run in summary.runs if run.complete and run.reason and used_share(run) < 1.0)


def costs(summary: StudySummary) -> tuple[StageCost, ...]:
    """The cost of each stage that has runs."""
    total_steps = summary.budget.get("environment steps per run")
    found = []
    for stage in all_stages():
        runs = summary.stage(stage)
        if not runs:
            continue
        steps = None
        if isinstance(total_steps, int | float) and not summary.is_sweep:
            steps = round(sum(used_share(run) for run in runs) * total_steps)
        found.append(
            StageCost(
                stage=stage,
                num_runs=len(runs),
                num_complete=sum(run.complete for run in runs),
                num_pruned=sum(run.outcome is Outcome.PRUNED for run in runs),
                num_failed=sum(run.failed for run in runs),
                seconds=sum(run.seconds for run in runs),
                lost_seconds=sum(run.seconds for run in runs if run.failed),
                env_steps=steps,
            )
        )
    return tuple(found)


def used_share(run: RunRecord) -> float:
    """Part of its budget that a run has used: by its last report, unless that is held."""
    if run.used is not None:
        return run.used
    return min(1.0, max((step for step, _ in run.curve), default=1.0 if run.complete else 0.0))


@dataclass(frozen=True)
class MachineShare:
    """One machine's share in the runs of a study.

    Attributes:
        host: Its name; empty for the controller's own.
        num_runs: Runs that ended there.
        num_failed: Of these, failed.
        seconds: Summed over these runs, whose earlier attempts may have been elsewhere.
    """

    host: str
    num_runs: int
    num_failed: int
    seconds: float


def machines(summary: StudySummary) -> tuple[MachineShare, ...]:
    """Where the runs ended, by name; empty where all did on the controller's machine."""
    ended = [run for run in summary.runs if run.outcome is not None]
    hosts = sorted({run.host for run in ended})
    if hosts in ([], [""]):
        return ()
    runs_of = {host: [run for run in ended if run.host == host] for host in hosts}
    return tuple(
        MachineShare(host, len(runs), sum(run.failed for run in runs), sum(run.seconds for run in runs))
        for host, runs in runs_of.items()
    )


@dataclass(frozen=True)
class ExpectedBest:
    """The best score to be expected of a search of a number of trials.

    Attributes:
        points: (number of trials, expected best score), rising in merit; the last one is the study's own size.
        gain: what the second half of the trials has brought, in merit.
        noise: standard deviation of a score over seeds; None if it is not known.
    """

    points: tuple[tuple[int, float], ...]
    gain: float
    noise: float | None

    def sentence(self, keeps_default: bool = False) -> str:
        """Whether going on is worth it.

        Args:
            keeps_default: Whether the default configuration is as good as what was found, or better.
        """
        number = self.points[-1][0]
        bought = f"With {number} instead of {number // 2} trials, the expected best score rose by "
        if self.noise is None:
            return f"{bought}{format_number(self.gain)}. It is not known how much of this is seed noise."
        gain, noise = format_number(self.gain), format_number(self.noise)
        against = f"{bought}{gain}; the standard deviation of a score over seeds is about {noise}."
        if self.gain < self.noise:
            if keeps_default:
                return (
                    f"{against} More trials of the same kind are unlikely to beat the default configuration: "
                    f"{_ELSEWHERE}."
                )
            return f"{against} More trials of the same kind are unlikely to raise the score."
        so_far = ", though the default configuration has not been beaten yet" if keeps_default else ""
        return (
            f"{against} More trials may still raise it{so_far}: raise study.num_trials (and study.budget, if the time "
            "was limited) and type the same command."
        )


def expected_best(summary: StudySummary) -> ExpectedBest | None:
    """Expected best of k screening trials for k up to their number (Dodge et al. 2019); None with too few trials.

    A pruned trial counts with the last score it had: it was ended for being low.
    """
    merits = [merit for run in summary.stage(SCREEN) if (merit := _merit(summary, run)) is not None]
    if len(merits) < MIN_TRIALS:
        return None
    sign = 1.0 if summary.maximised else -1.0
    total = len(merits)
    counts = sorted(
        {1, total // 2, total, *(round(1 + index * (total - 1) / _MAX_POINTS) for index in range(_MAX_POINTS))}
    )
    curve = [(count, expected_best_of_k(merits, count)) for count in counts]
    by_count = dict(curve)
    noise = seed_noise(summary, summary.winner_label)
    return ExpectedBest(
        tuple((count, sign * value) for count, value in curve),
        by_count[total] - by_count[total // 2],
        None if noise is None else noise.deviation,
    )


def _merit(summary: StudySummary, run: RunRecord) -> float | None:
    if run.outcome is Outcome.PRUNED and run.value is not None:
        return run.value if summary.maximised else -run.value
    return summary.merit(run)
