"""`tuner compare`: one configuration with and without adaptation, on fresh seeds."""

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from tuner.commands.comparing import compare
from tuner.errors import UserError
from tuner.executors.building import check_executor
from tuner.results.findings import MIN_SCORES_FOR_INTERVAL
from tuner.results.wording import format_number
from tuner.runs.build import check_trackers
from tuner.runs.checks import resolve
from tuner.runs.comparison import ARMS, AdaptiveComparison, Scores, what_is_compared
from tuner.runs.folders import check_same
from tuner.support.console import PlainConsole


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses a comparison of one thing with itself, and to go on with another one."""
    del overrides, config_dir
    if not config.get("adaptive"):
        raise UserError("there is no adaptation to compare with: choose one, adaptive=ess, gns, ppo_kl or ppo_ess")
    check_trackers(resolve(config).get("tracker"))
    check_same(folder, what_is_compared(resolve(config)))
    Scores(folder)
    check_executor(resolve(config)["executor"])


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Trains pairs of runs, says each score, then the difference and what it means."""
    del overrides
    console = PlainConsole()
    scores: dict[str, list[float]] = {arm: [] for arm in ARMS}
    console.print("adaptive: as configured; frozen: the same run without adaptation", highlight=False)
    for arm, seed, score in compare(resolve(config), folder):
        scores[arm].append(score)
        console.print(f"{arm:>8}  seed {seed}  {format_number(score)}", highlight=False)
    found = AdaptiveComparison(scores["adaptive"], scores["frozen"])
    low, high = found.interval
    interval = f", 95 % interval {format_number(low)} to {format_number(high)}"
    if len(found.adaptive) < MIN_SCORES_FOR_INTERVAL:
        interval = ""
    console.print(
        f"difference of interquartile means [bold]{format_number(found.difference)}[/bold]{interval}: "
        f"{found.verdict(config.margin)}",
        highlight=False,
        soft_wrap=True,
    )
    return 0
