"""Learning curves of several configurations, as data of any drawing and as Plotly's JSON."""

import html
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.reporting.figures.study_figures import LINE_COLORS
from tuner.reporting.figures.style import axis
from tuner.results.learning_curves import Band, FloatArray
from tuner.results.number_format import counted
from tuner.trial.messages import JsonDict

_DASHES = ("solid", "dash", "dot", "dashdot")


@dataclass(frozen=True)
class ChartLine:
    """One configuration.

    Attributes:
        label: Its name.
        num_runs: Of it.
        band: The middle of its runs and what is around it.
    """

    label: str
    num_runs: int
    band: Band

    @property
    def name(self) -> str:
        """Its name in a legend: with the number of runs."""
        return self.label if self.num_runs == 1 else f"{self.label} ({counted(self.num_runs, 'run')})"


@dataclass(frozen=True)
class Chart:
    """Lines and what is said of their axes."""

    x_title: str
    y_title: str
    lines: Sequence[ChartLine]


def chart_figure(chart: Chart) -> JsonDict:
    """The lines, each behind the band that belongs to it."""
    data = [trace for index, line in enumerate(chart.lines) for trace in _traces(index, line)]
    axes = {"xaxis": axis(chart.x_title), "yaxis": axis(chart.y_title)}
    return {"data": data, "layout": {"height": 480, "hovermode": "closest", **axes}}


def _traces(index: int, line: ChartLine) -> list[JsonDict]:
    color, band = LINE_COLORS[index % len(LINE_COLORS)], line.band
    drawn: JsonDict = {
        "type": "scatter",
        "mode": "lines" if len(band.x) > 1 else "markers",
        "name": html.escape(line.name),
        "legendgroup": str(index),
        "x": band.x.tolist(),
        "y": band.middle.tolist(),
        "line": {"color": color, "width": 2, "dash": _DASHES[index // len(LINE_COLORS) % len(_DASHES)]},
        "hovertemplate": f"{html.escape(line.label)}: %{{y:.5g}} at %{{x:,.6g}}<extra></extra>",
    }
    if line.num_runs == 1:
        return [drawn]
    around = {
        **{"type": "scatter", "mode": "lines", "fill": "toself", "fillcolor": color, "opacity": 0.2},
        **{"line": {"color": color, "width": 0}, "hoverinfo": "skip", "showlegend": False, "legendgroup": str(index)},
        **{"x": _there_and_back(band.x, band.x), "y": _there_and_back(band.high, band.low)},
    }
    return [around, drawn]


def _there_and_back(upper: FloatArray, lower: FloatArray) -> list[float]:
    """Around an area: along its upper side, and back along the lower one."""
    return [*upper.tolist(), *lower[::-1].tolist()]
