"""Curves of a run: its evaluations, its training episodes, or any metric it has logged, over steps or time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from note_rl.training.curve_plots import moving_average
from tuner.errors import UserError
from tuner.results.learning_curves import Curve, FloatArray
from tuner.support.names import did_you_mean, some_of
from tuner.trackers.history import HISTORY_FILE, HistoryRow, read_history
from tuner.trackers.jsonl import read_metrics
from tuner.trial.folder import read_reports

EVAL, TRAIN = "eval", "train"
STEPS, EPISODES, TIME = "steps", "episodes", "time"
SECONDS: Final = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0}
"""By unit of time."""

_EPISODE_RETURN, _EVALUATION = "train/episode_return", "eval/mean_return"


@dataclass(frozen=True)
class CurveKind:
    """The measured quantity, and its horizontal axis.

    Attributes:
        metric: `EVAL`, `TRAIN`, or the name of a logged metric.
        over: `STEPS`, `EPISODES` or `TIME`.
        unit: Of time, see `SECONDS`.
        window: Training episodes that a mean is taken over.
    """

    metric: str = EVAL
    over: str = STEPS
    unit: str = "minutes"
    window: int = 100

    @property
    def x_unit(self) -> str:
        """The unit of the horizontal axis."""
        return {STEPS: "environment steps", EPISODES: "training episodes", TIME: self.unit}[self.over]

    @property
    def x_title(self) -> str:
        """The title of the horizontal axis."""
        return f"time ({self.unit})" if self.over == TIME else self.x_unit

    @property
    def y_title(self) -> str:
        """The title of the vertical axis."""
        of_episodes = f"mean return of {self.window} training episodes"
        return {EVAL: "mean return of an evaluation", TRAIN: of_episodes}.get(self.metric, self.metric)


def read_curve(folder: Path, config: Mapping[str, Any], kind: CurveKind) -> Curve:
    """The curve of a run, finished or not.

    Args:
        folder: Of `tuner train`, or of a trial, which keeps no history of its episodes: its training returns are means
            over about a second, and it has neither episodes nor times.
        config: Of the run.
        kind: The curve to read.

    Raises:
        UserError: The run has no such measurements (yet), or its files are damaged.
    """
    history = read_history(folder / HISTORY_FILE)
    if kind.over != STEPS and not history:
        raise UserError(
            f"over={kind.over} needs {folder / HISTORY_FILE}, which runs of tuner train write, and trials of a study "
            "do not: use over=steps"
        )
    if kind.metric == TRAIN and history:
        steps = [row.step for row in history]
        mean = moving_average([row.episode_reward for row in history], kind.window)
        places = np.arange(1, len(history) + 1) if kind.over == EPISODES else _places(steps, history, kind)
        return Curve.of(places, mean)
    steps, values = _measured(folder, config, kind.metric)
    curve = Curve.of(_places(steps, history, kind), values)
    if not len(curve.x):
        raise UserError(_nothing(folder, kind.metric))
    return curve


def _measured(folder: Path, config: Mapping[str, Any], metric: str) -> tuple[list[int], list[float]]:
    """Environment steps and values.

    Evaluations stand where they were made. Reports stand on the even grid on which studies compare runs, and those of a
    run that ended early are filled up; they are taken where nothing else is known.
    """
    name = {EVAL: _EVALUATION, TRAIN: _EPISODE_RETURN}.get(metric, metric)
    found = [(step, metrics[name]) for step, metrics in read_metrics(folder) if name in metrics]
    if metric == EVAL and not found:
        total = config.get("training", {}).get("total_steps")
        if not isinstance(total, int | float):
            raise UserError(
                f"{folder} has no training.total_steps, so the steps of its reports are unknown: name a metric, "
                "such as metric=train"
            )
        reports = [(step, value) for step, value in read_reports(folder) if math.isfinite(step)]
        return [round(step * total) for step, _ in reports], [value for _, value in reports]
    return [step for step, _ in found], [value for _, value in found]


def _places(steps: Sequence[int], history: Sequence[HistoryRow], kind: CurveKind) -> FloatArray:
    """Where measurements after a number of environment steps stand: [n] -> [n]."""
    taken = np.asarray(steps, np.float64)
    if kind.over == STEPS:
        return taken
    ended = np.array([row.step for row in history], np.float64)
    if kind.over == EPISODES:
        return np.searchsorted(ended, taken, side="right").astype(np.float64)
    times = np.interp(taken, ended, [row.time for row in history])
    return np.asarray(times / SECONDS[kind.unit], np.float64)


def _nothing(folder: Path, metric: str) -> str:
    if metric == EVAL:
        return f"{folder} has no evaluation yet: wait for the first one, or use metric=train"
    if metric == TRAIN:
        return f"{folder} has no training episode that has ended yet"
    known = sorted({name for _, metrics in read_metrics(folder) for name in metrics})
    return f"{folder} has logged no {metric}{did_you_mean(metric, known) or some_of(known)}"
