"""`tuner plot RUN ...`: learning curves beside each other."""

import json
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig
from rich.markup import escape

from tuner.commands.run_collection import NamedRun, gather
from tuner.config.trust import trusted_modules
from tuner.errors import UserError
from tuner.reporting.charts import check_chart_file, write_chart
from tuner.reporting.figures.curve_figures import Chart, ChartLine
from tuner.results.learning_curves import band_over
from tuner.results.number_format import counted, format_number
from tuner.results.run_labels import compared_settings, labels_of
from tuner.runs import run_folders as runs
from tuner.runs.config_checks import resolve
from tuner.runs.run_curves import CurveKind, read_curve
from tuner.support.console import PlainConsole


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses to draw nothing, and files that cannot be written."""
    del folder, overrides, config_dir
    if not config.runs:
        raise UserError(f"name folders of runs or studies: tuner plot RUN ..., such as {runs.newest() or 'runs/NAME'}")
    check_chart_file(Path(config.file))


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Draws, and says what is in the picture."""
    del folder, overrides
    told = resolve(config)
    places = [told["runs"]] if isinstance(told["runs"], str) else told["runs"]
    groups = _grouped(gather(places, trusted_modules(told.get("trust"))), told["group"])
    if told["labels"] is not None:
        groups = _relabelled(groups, told["labels"])
    kind = CurveKind(told["metric"], told["over"], told["unit"], told["window"])
    lines = []
    for label, same in groups.items():
        curves = [read_curve(one.folder, one.config, kind) for one in same]
        lines.append(ChartLine(label, len(same), band_over(curves, told["spread"])))
    chart = Chart(kind.x_title, kind.y_title, lines)
    write_chart(chart, Path(told["file"]), _caption(told["spread"]))
    console = PlainConsole()
    for line in lines:
        console.print(escape(_in_words(line, kind.x_unit)), soft_wrap=True)
    number = counted(sum(line.num_runs for line in lines), "run")
    console.print(f"{chart.y_title} of {number}: [bold]{escape(told['file'])}[/bold]", soft_wrap=True)
    return 0


def _grouped(found: Sequence[NamedRun], group: str) -> dict[str, list[NamedRun]]:
    """The runs of each line, by its label."""
    settings = [compared_settings(run.config) for run in found]
    keys = [run.label or json.dumps(own, sort_keys=True, default=str) for run, own in zip(found, settings, strict=True)]
    unnamed = {key: own for run, key, own in zip(found, keys, settings, strict=True) if run.label is None}
    labels = dict(zip(unnamed, labels_of(list(unnamed.values())), strict=True))
    groups: dict[str, list[NamedRun]] = {}
    for one, key in zip(found, keys, strict=True):
        label = labels.get(key, key)
        if group == "none":
            label = f"{label}, seed {one.config.get('seed')}"
            label = f"{label}, {one.folder}" if label in groups else label
        groups.setdefault(label, []).append(one)
    return groups


def _relabelled(groups: dict[str, list[NamedRun]], labels: Sequence[str]) -> dict[str, list[NamedRun]]:
    if len(set(labels)) != len(groups) or len(labels) != len(groups):
        raise UserError(
            f"labels={list(labels)} must name {counted(len(groups), 'line')}, each otherwise: {'; '.join(groups)}"
        )
    return dict(zip(labels, groups.values(), strict=True))


def _caption(spread: str) -> str:
    of_band = "the middle half of them" if spread == "quartiles" else "all of them"
    return f"Median of the runs that have got there; the band holds {of_band}."


def _in_words(line: ChartLine, unit: str) -> str:
    """The last value of a line in words, and from where on it is that of fewer runs."""
    band = line.band
    words = f"{line.name}: {format_number(float(band.middle[-1]))} at {format_number(float(band.x[-1]))} {unit}"
    whole = band.x[band.num_runs == line.num_runs]
    if line.num_runs == 1 or (len(whole) and whole[-1] == band.x[-1]):
        around = f" ({format_number(float(band.low[-1]))} to {format_number(float(band.high[-1]))})"
        return words + (around if line.num_runs > 1 else "")
    if not len(whole):
        return f"{words}; its runs have no place in common"
    return f"{words}; of fewer than {line.num_runs} runs beyond {format_number(float(whole[-1]))}"
