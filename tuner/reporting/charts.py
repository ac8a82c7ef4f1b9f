"""Charts in files: pictures by matplotlib (extra `plot`), or a page by Plotly."""

import importlib
from pathlib import Path
from typing import Any, Final

from note_rl.support.atomic_files import atomic_target
from tuner.errors import UserError
from tuner.reporting.elements import figure
from tuner.reporting.figures.curve_figures import Chart, chart_figure
from tuner.reporting.markup import tag
from tuner.reporting.page import document
from tuner.support.text_files import atomic_write

_NEEDED: Final = {".png": ("matplotlib", "plot"), ".svg": ("matplotlib", "plot"), ".html": ("plotly", "report")}
"""By suffix, a package and the extra that brings it."""

_DASHES = ("-", "--", ":", "-.")
_NUM_COLORS = 10
_PLACE = "curves-figure"


def check_chart_file(path: Path) -> None:
    """Refuses a file of another kind than can be written.

    Raises:
        UserError: There is no such kind, or it needs a package that is not installed.
    """
    suffix = path.suffix.lower()
    if suffix not in _NEEDED:
        raise UserError(f"file={path}: charts are written as .png, .svg or .html, so let its name end in one of them")
    package, extra = _NEEDED[suffix]
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise UserError(
            f"file={path} needs {package}, which is not installed: pip install 'note-rl[{extra}]'"
        ) from None


def write_chart(chart: Chart, path: Path, caption: str) -> None:
    """Writes a chart to a .png, .svg or .html file, aside and moved; an earlier one is replaced.

    Args:
        chart: The chart to draw.
        path: Of the file; its folder is made.
        caption: Below the figure of a page.

    Raises:
        UserError: The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() == ".html":
            title = f"{chart.y_title[:1].upper()}{chart.y_title[1:]} over {chart.x_title}"
            main = tag("main", tag("header", tag("h1", title)), figure(_PLACE, caption))
            atomic_write(path, document(title, main, {_PLACE: chart_figure(chart)}))
            return
        with atomic_target(path) as aside:
            _draw(chart, aside, path.suffix.lower().removeprefix("."))
    except OSError as error:
        raise UserError(f"file={path} cannot be written: {error.strerror or error}") from error


def _draw(chart: Chart, path: Path, kind: str) -> None:
    """Without pyplot, which looks for a screen. Texts of a picture are those of the runs, not formulas."""
    matplotlib: Any = importlib.import_module("matplotlib")
    drawing = importlib.import_module("matplotlib.figure").Figure(figsize=(8.0, 4.5), layout="constrained")
    axes = drawing.subplots()
    handles = []
    for index, line in enumerate(chart.lines):
        color, dash = f"C{index % _NUM_COLORS}", _DASHES[index // _NUM_COLORS % len(_DASHES)]
        marker = "o" if len(line.band.x) == 1 else ""  # of which a line would show nothing
        style = {"color": color, "linestyle": dash, "linewidth": 2, "marker": marker}
        handles += axes.plot(line.band.x, line.band.middle, **style)
        if line.num_runs > 1:
            axes.fill_between(line.band.x, line.band.low, line.band.high, color=color, alpha=0.2, linewidth=0)
    axes.set_xlabel(chart.x_title, parse_math=False)
    axes.set_ylabel(chart.y_title, parse_math=False)
    axes.grid(alpha=0.3)
    legend = axes.legend(handles, [line.name for line in chart.lines])
    for text in legend.get_texts():
        text.set_parse_math(False)
    with matplotlib.rc_context({"svg.fonttype": "none"}):  # texts stay texts
        drawing.savefig(path, format=kind, dpi=150)
