"""`tuner bench`: agents or settings over environments, on the same fresh seeds, with a page."""

import importlib.util
import shlex
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from omegaconf import DictConfig
from rich.markup import escape

from tuner.commands.comparison_runs import ComparedRuns, scored
from tuner.config.typed_command import typed_config_dir, typed_line
from tuner.executors.executor_factory import check_executor
from tuner.features.benchmark.bench_page import scores_csv, write_bench_page
from tuner.features.benchmark.entrants import Cell, cells_of, check_same_cells, keep
from tuner.features.benchmark.standings import Standings
from tuner.features.benchmark.tuned_share import tuned_shares
from tuner.results.csv_text import csv_text
from tuner.results.number_format import counted, format_number
from tuner.runs.adaptation_comparison import Scores
from tuner.runs.build import build_trackers, check_trackers
from tuner.runs.config_checks import resolve
from tuner.study.storage.open_storage import check_url
from tuner.support.console import PlainConsole
from tuner.support.text_files import atomic_write
from tuner.trackers.base import TrackerGroup
from tuner.trial.messages import JsonDict

SCORES_FILE = "bench.jsonl"
CSV_FILE = "bench.csv"


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses what cannot be run, and to go on with something else."""
    resolved = resolve(config)
    check_cells(resolved, folder, cells_of(resolved, overrides, config_dir), str(resolved["metric"]))
    check_url(resolved["storage"]["url"])


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Trains what is not known yet, then says what it comes to and writes the page."""
    resolved = resolve(config)
    config_dir = typed_config_dir()
    cells = cells_of(resolved, overrides, config_dir)
    command = typed_line("bench", as_typed(resolved, overrides), config_dir)
    return measure(resolved, cells, folder, command, int(resolved["seeds"]))


def check_cells(config: JsonDict, folder: Path, cells: Sequence[Cell], metric: str) -> None:
    """Refuses what cannot be run, and to go on with something else.

    Args:
        config: Of the command, resolved.
        folder: Of the benchmark.
        cells: The entrants in their environments.
        metric: Name of the score.
    """
    check_trackers(config.get("tracker"))
    check_executor(config["executor"])
    check_same_cells(folder, cells, metric)
    Scores(folder, SCORES_FILE)


def measure(config: JsonDict, cells: Sequence[Cell], folder: Path, command: str, num_seeds: int) -> int:
    """The runs, the table and the page.

    Args:
        config: Of the command, resolved.
        cells: The entrants in their environments.
        folder: Of the benchmark.
        command: That goes on with it.
        num_seeds: Runs of each entrant in each environment.
    """
    console, metric = PlainConsole(), str(config.get("metric", "mixed"))
    keep(folder, cells, metric)
    scores = Scores(folder, SCORES_FILE)
    runs = [one for several in zip(*(cell.runs(num_seeds) for cell in cells), strict=True) for one in several]
    num_known = sum((arm, seed) in scores for arm, seed, _ in runs)
    console.print(f"{counted(len(runs), 'run')}, {num_known} of them done already", highlight=False)
    compared = ComparedRuns(runs, scores, folder, "bench", metric)
    by_arm = {cell.arm: cell for cell in cells}
    found: dict[str, list[float]] = {cell.arm: [] for cell in cells}
    with closing(TrackerGroup(list(build_trackers(config.get("tracker")).values()))) as tracker:
        for arm, seed, score in scored(compared, config["executor"], tracker):
            found[arm].append(score)
            said = f"{by_arm[arm].entrant}  {by_arm[arm].env}  seed {seed}  {format_number(score)}"
            console.print(escape(said), highlight=False, soft_wrap=True)
    entrants = dict.fromkeys(cell.entrant for cell in cells)
    bench = Standings(
        {name: {cell.env: found[cell.arm] for cell in cells if cell.entrant == name} for name in entrants},
        {cell.env: cell.reference for cell in cells if cell.reference is not None},
    )
    places = "all environments together" if bench.is_rescaled else bench.envs[0]
    console.print(escape(f"interquartile mean of {bench.pooled}, {places}:"), highlight=False)
    for name in bench.iqms:
        console.print(escape(f"  {name}  {bench.line(name)}"), highlight=False, soft_wrap=True)
    for one in bench.leads:
        console.print(escape(f"  {one.better} minus {one.other}: {bench.lead(one)}"), highlight=False, soft_wrap=True)
    console.print(escape(bench.verdict), highlight=False, soft_wrap=True)
    heads = ["entrant", "environment", "number", "score", "normalised"]
    atomic_write(folder / CSV_FILE, csv_text([heads, *scores_csv(bench)]))
    if importlib.util.find_spec("plotly") is None:
        console.print("for the page: pip install 'note-rl[report]', and the same command again", highlight=False)
        return 0
    shares = tuned_shares(cells, str(config["storage"]["url"]), metric) if "storage" in config else None
    page = write_bench_page(bench, shares, metric, command, folder)
    console.print(f"the page is [bold]{escape(shlex.quote(str(page)))}[/bold]", soft_wrap=True)
    return 0


def as_typed(config: JsonDict, overrides: Sequence[str]) -> list[str]:
    """The overrides that repeat a benchmark: lists stand behind the names of their groups."""
    lists = {key: f"{key}=[{','.join(config[f'{key}s'])}]" for key in ("agent", "env")}
    rest = [word for word in overrides if word.partition("=")[0] not in ("agent", "env", "agents", "envs")]
    return [*lists.values(), *rest]
