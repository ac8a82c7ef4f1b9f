"""The plots of the finders. matplotlib (extra `plot`) is imported when the first one is drawn."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from note_rl.training.curve_plots import figure_of, show_or_save
from tuner.errors import UserError
from tuner.finders.comparison.verdicts import Comparison
from tuner.finders.learning_rate.loss_curves import FloatArray, moving_mean, smooth_loss
from tuner.finders.learning_rate.range_test import KL_TARGET
from tuner.finders.learning_rate.search import RateSearch

_Path = str | os.PathLike[str] | None
_SUGGESTED, _CURVE = "tab:red", "tab:blue"
_STYLES = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class View:
    """The shown part of a curve.

    Attributes:
        skip_begin, skip_end: Points left out.
        sma: Points of the simple moving average.
        y_lim: Range of the vertical axis; None: what there is.
        x_scale: log or linear.
    """

    skip_begin: int = 0
    skip_end: int = 0
    sma: int = 1
    y_lim: tuple[float, float] | None = None
    x_scale: str = "log"

    def __post_init__(self) -> None:
        """Refuses numbers out of range."""
        for name, least in (("skip_begin", 0), ("skip_end", 0), ("sma", 1)):
            if getattr(self, name) < least:
                raise UserError(f"{name}={getattr(self, name)} must be at least {least}")
        if self.x_scale not in ("log", "linear"):
            raise UserError(f"x_scale={self.x_scale!r} must be log or linear")

    def of(self, rates: Sequence[float], values: Sequence[float]) -> tuple[FloatArray, FloatArray]:
        """The part of a curve that is shown.

        Raises:
            UserError: Nothing is left.
        """
        shown = slice(self.skip_begin, len(values) - self.skip_end)
        found = np.asarray(rates, np.float64)[: len(values)][shown], np.asarray(values, np.float64)[shown]
        if len(found[0]) < 2:
            raise UserError(f"of {len(values)} points, {len(found[0])} are left to draw: skip fewer")
        return found


def plot_losses(found: RateSearch, view: View, path: _Path) -> None:
    """Loss over rate, a line per seed; in mode kl the change of the policy below."""
    if not found.curves:
        raise UserError("no losses were measured: they are in modes loss and kl")
    has_kl = found.mode == "kl"
    for curve in found.curves:
        view.of(curve["rates"], curve["losses"])  # refuses before there is a figure
    figure, axes = figure_of("plot_loss", 2 if has_kl else 1)
    upper = axes[0] if has_kl else axes
    for index, curve in enumerate(found.curves):
        losses = [math.nan if loss is None else loss for loss in curve["losses"]]
        rates, values = view.of(curve["rates"], losses)
        upper.plot(rates, values, color=_CURVE, alpha=0.4 + 0.6 * (index == 0), linewidth=1.5,
                   marker="." if has_kl else None, label="loss, a line per seed" if index == 0 else None)  # fmt: skip
        if has_kl:
            kl = [math.nan if one is None else one for one in curve["kl"]]
            axes[1].plot(*view.of(curve["rates"], kl), color="tab:green", alpha=0.6, marker=".", linewidth=1.5,
                         label="KL(old || new) after a phase" if index == 0 else None)  # fmt: skip
    _mark(upper, found, view)
    _limit(upper, [loss for one in found.curves for loss in one["losses"] if loss is not None])
    if has_kl:
        axes[1].set_yscale("log")
        axes[1].axhline(KL_TARGET, color="black", linewidth=0.8, linestyle=":", label=f"asked for: {KL_TARGET}")
        axes[1].set_ylabel("change of the policy")
    _finish(axes if has_kl else [axes], view, found)
    upper.set_ylabel("loss")
    show_or_save(figure, path)


def plot_curve(rates: Sequence[float], values: Sequence[float], label: str, view: View, path: _Path) -> None:
    """Values over the rate."""
    shown_rates, shown = view.of(rates, values)
    figure, axes = figure_of("plot_reward")
    means = _means_by_rate(shown_rates, shown)
    several = len(means[0]) < len(shown)
    if several:
        axes.plot(shown_rates, shown, ".", color=_CURVE, alpha=0.35, label=label)
    label_of_line = f"mean {label} at a rate" if several else label
    axes.plot(*means, color=_CURVE, linewidth=1.5, marker=None if several else ".", label=label_of_line)
    axes.set_ylabel(label)
    _finish([axes], view)
    show_or_save(figure, path)


def plot_change(rates: Sequence[float], values: Sequence[float], label: str, view: View, path: _Path) -> None:
    """Change of the values from one rate to the next, smoothed by a simple moving average."""
    axis, means = _means_by_rate(np.asarray(rates, np.float64)[: len(values)], np.asarray(values, np.float64))
    if len(means) < 3:
        raise UserError(f"{len(means)} rates have a {label}: a change needs at least 3")
    change = moving_mean(np.gradient(means), view.sma)
    shown_rates, shown = view.of(axis.tolist(), change.tolist())
    figure, axes = figure_of("plot_change")
    axes.plot(shown_rates, shown, color=_CURVE, linewidth=1.5, label=f"change of the {label} from rate to rate")
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.set_ylabel(f"change of the {label}")
    if view.y_lim is not None:
        axes.set_ylim(*view.y_lim)
    _finish([axes], view)
    show_or_save(figure, path)


def _means_by_rate(rates: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rates in rising order, each once, and the mean of the values that were measured at it."""
    groups = np.cumsum(np.concatenate([[True], np.diff(rates) > 0.0])) - 1
    counts = np.bincount(groups)
    return np.bincount(groups, rates) / counts, np.bincount(groups, values) / counts


def plot_candidates(
    curves: Mapping[str, Sequence[Sequence[float]]], x_label: str, label: str, sma: int, path: _Path
) -> None:
    """A line per candidate: the mean over its seeds, as far as all of them go, and their range."""
    shown = {name: [list(one) for one in runs if len(one)] for name, runs in curves.items()}
    if not any(shown.values()):
        raise UserError(f"no {label} was recorded")
    figure, axes = figure_of(f"plot_{label}")
    for name, runs in shown.items():
        if runs:
            length = min(map(len, runs))
            table = np.asarray([moving_mean(one[:length], sma) for one in runs])
            x = np.arange(1, length + 1)
            style = _STYLES[len(axes.lines) % len(_STYLES)]  # equal candidates lie on top of each other
            marker = "." if length < 20 else None
            (line,) = axes.plot(x, table.mean(axis=0), linewidth=1.8, linestyle=style, label=name, marker=marker)
            if len(runs) > 1:
                axes.fill_between(x, table.min(axis=0), table.max(axis=0), color=line.get_color(), alpha=0.15)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel(x_label)
    axes.set_ylabel(label if sma == 1 else f"{label}, mean of {sma}")
    axes.grid(alpha=0.3)
    axes.legend()
    show_or_save(figure, path)


def plot_standings(comparison: Comparison, path: _Path) -> None:
    """The scores of all candidates, best at the top; what does not differ significantly from the best is marked."""
    figure, axes = figure_of("plot_scores")
    names = [standing.name for standing in comparison.standings]
    for place, standing in enumerate(comparison.standings):
        colour = _SUGGESTED if standing.tied else _CURVE
        axes.plot(standing.scores, [place] * len(standing.scores), "o", color=colour, alpha=0.35)
        axes.plot([standing.score], [place], "|", color=colour, markersize=26, markeredgewidth=3)
        if standing.interval is not None:
            axes.plot(standing.interval, [place, place], color=colour, linewidth=2)
    failed = list(comparison.failures)
    axes.set_yticks(range(len(names) + len(failed)), [*names, *(f"{name} (failed)" for name in failed)])
    axes.set_ylim(len(names) + len(failed) - 0.5, -0.5)
    axes.set_xlabel(f"{comparison.what}, a dot per seed; red: the best and what does not differ significantly from it")
    axes.grid(alpha=0.3, axis="x")
    show_or_save(figure, path)


def _mark(axes: Any, found: RateSearch, view: View) -> None:
    """The smoothed loss of the first seed, and where it falls fastest."""
    points, curve = found.points[0], found.curves[0]
    losses = [loss for loss in curve["losses"] if loss is not None]
    rates = np.asarray(curve["rates"], np.float64)[: len(losses)]
    stable = int(np.searchsorted(rates, points.stable * (1.0 + 1e-9)))
    if stable < 3 or points.steep is None:
        return
    smoothed = smooth_loss(np.asarray(losses[:stable], np.float64))
    shown = slice(view.skip_begin, max(stable - view.skip_end, view.skip_begin))
    axes.plot(rates[:stable][shown], smoothed[shown], color="black", linewidth=1.0, label="smoothed, first seed")
    place = int(np.argmin(np.abs(rates[:stable] - points.steep)))
    axes.plot(rates[place], smoothed[place], "v", color="black", label=f"steepest fall: {points.steep:.2g}")


def _limit(axes: Any, losses: Sequence[float]) -> None:
    """A loss that diverges would press everything else flat."""
    ordered = np.sort(np.asarray(losses, np.float64))
    low, typical = ordered[0], ordered[int(0.9 * (len(ordered) - 1))]
    span = max(typical - low, 1e-12)
    axes.set_ylim(low - 0.1 * span, min(float(ordered[-1]), typical + span) + 0.1 * span)


def _finish(axes: Sequence[Any], view: View, found: RateSearch | None = None) -> None:
    for one in axes:
        one.set_xscale(view.x_scale)
        one.grid(alpha=0.3)
        suggestion = None if found is None else found.suggestion
        if suggestion is not None and suggestion.rate is not None:
            one.axvspan(suggestion.low, suggestion.high, color=_SUGGESTED, alpha=0.08)
            one.axvline(suggestion.rate, color=_SUGGESTED, label=f"suggested: {suggestion.rate:.3g}, and range")
        one.legend()
    axes[-1].set_xlabel("learning rate")
