"""Runs what `tuner compare` compares, by whatever executor."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.config.composition import run_config_of
from tuner.config.trust import remember
from tuner.errors import UserError
from tuner.executors.base import Executor, TrialEnded, TrialReported
from tuner.executors.executor_factory import make_executor
from tuner.executors.tracked import TrackedRuns
from tuner.runs.adaptation_comparison import (
    DEFAULT_METRIC,
    Scores,
    runs_of,
    score_of,
    score_without_an_end,
    what_is_compared,
)
from tuner.runs.run_folders import CONFIG_FILE, begin
from tuner.trackers.base import RunInfo, Tracker
from tuner.trial import folder as files
from tuner.trial.messages import JsonDict, Outcome, TrialResult, TrialSpec

_STUDY = "compare"


def compare(config: JsonDict, folder: Path, tracker: Tracker) -> Iterator[tuple[str, int, float]]:
    """Trains what is not known yet; gives arm, seed and score of each run. The same call goes on where it was ended.

    Args:
        config: Of the comparison, resolved.
        folder: Keeps the scores, and the folders of the runs.
        tracker: Gets every run.

    Raises:
        UserError: A run came to no end that can be compared.
    """
    if not (folder / CONFIG_FILE).exists():
        begin(folder, what_is_compared(config))
    runs = list(runs_of(config, config["num_seeds"]))
    yield from scored(ComparedRuns(runs, Scores(folder), folder), config["executor"], tracker)


@dataclass(frozen=True)
class ComparedRuns:
    """Runs whose scores are compared.

    Attributes:
        runs: Arm, seed and configuration of each.
        scores: Those that are known; gets the others as soon as they are.
        folder: Of the folders of the runs.
        study: Its name for trials and trackers.
        metric: Name of what makes a score of a curve.
    """

    runs: Sequence[tuple[str, int, JsonDict]]
    scores: Scores
    folder: Path
    study: str = _STUDY
    metric: str = DEFAULT_METRIC


def scored(compared: ComparedRuns, executor_config: JsonDict, tracker: Tracker) -> Iterator[tuple[str, int, float]]:
    """Trains the runs whose scores are not known yet; gives arm, seed and score of each, in their order.

    Args:
        compared: The runs, and what is known of them.
        executor_config: Where they run.
        tracker: Gets every run.

    Raises:
        UserError: A run came to no end that can be compared.
    """
    runs, scores = compared.runs, compared.scores
    open_runs = [_Run(arm, seed, told, compared) for arm, seed, told in runs if (arm, seed) not in scores]
    if open_runs:
        tracked = TrackedRuns(tracker)
        try:
            with make_executor(executor_config) as executor:
                ended = _trained(open_runs, executor, scores, tracked)
                for arm, seed, _ in runs:
                    while (arm, seed) not in scores:
                        next(ended)
                    yield arm, seed, scores[arm, seed]
        finally:
            tracked.close_all(1, {"outcome": Outcome.STOPPED.value, "reason": "the comparison has ended"})
    else:
        yield from ((arm, seed, scores[arm, seed]) for arm, seed, _ in runs)


class _Run:
    """One run of an arm with a seed, from its beginning."""

    def __init__(self, arm: str, seed: int, config: JsonDict, compared: ComparedRuns) -> None:
        self.arm, self.seed, self.config = arm, seed, config
        self.study, self.metric = compared.study, compared.metric
        self.folder = compared.folder / f"{arm}_{seed}"
        self.spec = TrialSpec(self.study, arm, seed, seed, run_config_of(config))
        self.curve: list[tuple[float, float]] = []

    def begin(self, executor: Executor) -> None:
        """Half a run of an earlier call is not gone on with."""
        for name in (files.CHECKPOINT_FILE, files.BEST_FILE, files.REPORTS_FILE, files.RESULT_FILE):
            (self.folder / name).unlink(missing_ok=True)
        shutil.rmtree(self.folder / files.STATE_FOLDER, ignore_errors=True)
        self.curve.clear()
        remember(self.spec.config)
        executor.start(self.spec, self.folder)

    @property
    def about(self) -> RunInfo:
        """The comparison as trackers know it."""
        words, group = (self.arm, f"seed={self.seed}"), self.folder.parent
        return RunInfo(
            " ".join(words), group.name, self.spec.config, self.folder, words, self.study, group_folder=group
        )

    @property
    def total_steps(self) -> int:
        """Environment steps of a whole run."""
        return int(self.config["training"]["total_steps"])

    def score(self, result: TrialResult) -> float:
        """The score of a run that has ended in this way."""
        if result.outcome is Outcome.COMPLETE:
            return score_of(self.curve, self.metric)
        if result.outcome.effects.penalised:
            penalised = score_without_an_end(self.config, self.curve, self.metric)
            if penalised is not None:
                return penalised
        kind, _, message = result.reason.partition(": ")
        reason = message if result.deterministic and kind.isidentifier() else result.reason or str(result.outcome)
        raise UserError(f"{self.arm} with seed {self.seed} came to no good end: {reason}\nMore is in {self.folder}")


def _trained(runs: list[_Run], executor: Executor, scores: Scores, tracked: TrackedRuns) -> Iterator[None]:
    """Trains all; goes on to the end of the next one each time that it is asked."""
    for run in runs:
        executor.reclaim(run.spec, run.folder)
    waiting, active = list(runs), dict[str, _Run]()
    while waiting or active:
        while waiting and executor.free_slots > 0:
            run = waiting.pop(0)
            active[run.spec.key] = run
            run.begin(executor)
        for event in executor.wait():
            run = active[event.key]
            tracked.open(event.key, run.about)
            tracked.pass_on(event, run.total_steps)
            if isinstance(event, TrialReported):
                run.curve.append((event.step, event.value))
                executor.answer(event.key, "continue")
            elif isinstance(event, TrialEnded):
                del active[event.key]
                if _is_tried_again(event.result):
                    waiting.append(run)
                    continue
                tracked.close(event.key, *_end_of(event.result, run.curve))
                scores.add(run.arm, run.seed, run.score(event.result))
                yield


def _end_of(result: TrialResult, curve: Sequence[tuple[float, float]]) -> tuple[int, dict[str, object]]:
    """Exit code and last words of a run, its best evaluation among them."""
    summary: dict[str, object] = {"outcome": result.outcome.value, "reason": result.reason}
    if curve:
        summary["best_return"] = max(value for _, value in curve)
    return int(not result.outcome.effects.succeeded), summary


def _is_tried_again(result: TrialResult) -> bool:
    """Whether a run has ended by no fault of its own, as where its machine was lost."""
    effects = result.outcome.effects
    return effects.retried and not effects.uses_retry and not result.deterministic
