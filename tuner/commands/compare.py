"""`tuner compare`: two settings, or one configuration with and without adaptation, on fresh seeds."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from omegaconf import DictConfig

from tuner.commands.command import CommandModule
from tuner.commands.comparison_runs import compare
from tuner.commands.features import InCommands
from tuner.errors import UserError
from tuner.executors.executor_factory import check_executor
from tuner.features import parts
from tuner.results.findings import MIN_SCORES_FOR_INTERVAL
from tuner.results.number_format import format_alike, format_number
from tuner.runs.adaptation_comparison import ARMS, AdaptiveComparison, Scores, what_is_compared
from tuner.runs.build import build_trackers, check_trackers
from tuner.runs.config_checks import resolve
from tuner.runs.run_folders import check_same
from tuner.support.console import PlainConsole
from tuner.support.plain_text import message_of, one_line
from tuner.trackers.base import RunInfo, RunTracker, Tracker, TrackerGroup
from tuner.trial.messages import JsonDict, Outcome


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses a comparison of one thing with itself, and to go on with another one."""
    if (other := _other(config)) is not None:
        other.check(config, folder, overrides, config_dir)
        return
    if not config.get("adaptive"):
        raise UserError(
            "there is no adaptation to compare with: choose one, adaptive=ess, gns, ppo_kl or ppo_ess; or type two "
            "settings, settings=['agent.gamma=0.99','agent.gamma=0.9']"
        )
    check_trackers(resolve(config).get("tracker"))
    check_same(folder, what_is_compared(resolve(config)))
    Scores(folder)
    check_executor(resolve(config)["executor"])


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Trains pairs of runs, says each score, then the difference and what it means."""
    if (other := _other(config)) is not None:
        return other.run(config, folder, overrides)
    console = PlainConsole()
    resolved = resolve(config)
    scores: dict[str, list[float]] = {arm: [] for arm in ARMS}
    console.print("adaptive: as configured; frozen: the same run without adaptation", highlight=False)
    with (
        closing(TrackerGroup(list(build_trackers(resolved.get("tracker")).values()))) as tracker,
        _tracked(tracker, resolved, folder) as whole,
    ):
        for arm, seed, score in compare(resolved, folder, tracker):
            scores[arm].append(score)
            console.print(f"{arm:>8}  seed {seed}  {format_number(score)}", highlight=False)
            whole.log(len(scores[arm]), {f"compare/{arm}_score": score, "compare/seed": float(seed)})
        found = AdaptiveComparison(scores["adaptive"], scores["frozen"])
        verdict = found.verdict(config.margin)
        low, high = found.interval
        summary = {"outcome": Outcome.COMPLETE.value, "difference": found.difference, "low": low, "high": high}
        whole.finish(0, {**summary, "verdict": verdict})
    difference, *ends = format_alike((found.difference, low, high))
    interval = f", 95 % interval {ends[0]} to {ends[1]}"
    if len(found.adaptive) < MIN_SCORES_FOR_INTERVAL:
        difference, interval = format_number(found.difference), ""
    console.print(
        f"difference of interquartile means [bold]{difference}[/bold]{interval}: {verdict}",
        highlight=False,
        soft_wrap=True,
    )
    return 0


def _other(config: DictConfig) -> CommandModule | None:
    """A feature's comparison in place of that of adaptation; None: no feature has one for this config."""
    return next(filter(None, (part.compared(config) for part in parts(InCommands))), None)


@contextmanager
def _tracked(tracker: Tracker, config: JsonDict, folder: Path) -> Iterator[RunTracker]:
    """The comparison itself as a tracked run, which the block finishes unless it fails."""
    about = what_is_compared(config)
    run = tracker.start_run(RunInfo(folder.name, folder.name, about, folder, ("compare",), "compare", folder))
    try:
        yield run
    except BaseException as error:
        stopped = isinstance(error, KeyboardInterrupt)
        outcome = Outcome.STOPPED if stopped else Outcome.CRASHED
        run.finish(1, {"outcome": outcome.value, "reason": one_line(message_of(error))})
        raise
