"""How much of the oldest experience may go without harm.

Larger pools are mostly better (Fedus et al. 2020, https://arxiv.org/abs/2007.06700), so that only what would hardly be
read again is given up: the oldest transitions while their share of all that is drawn stays below 2 %, never more than a
tenth at once, only where few transitions make up most of what is drawn, and never below what the effective sample size
asks to be kept. `beyond_effective` is the manuals' rule: the newest stay, as many as that size, whatever they are.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from note_rl.adaptive.controller import DecisionResult
from note_rl.adaptive.ess import of_weights
from note_rl.adaptive.health import Health
from note_rl.adaptive.signals.priority_ess import PriorityEss
from note_rl.replay.experience import Experience
from note_rl.settings.experience import ReplaySettings
from note_rl.settings.window_functions import Removal


@dataclass(frozen=True, kw_only=True)
class Trim:
    """The limits.

    Attributes:
        keep_scale: Kept are at least this many times the effective sample size.
        least: And never fewer than this.
        mass: Largest share of all that is drawn that may go.
        share: Largest share of the transitions that may go at once.
        low: Effective share below which anything goes at all.
    """

    keep_scale: float = 1.0
    least: int = 1
    mass: float = 0.02
    share: float = 0.1
    low: float = 0.3


def oldest_within_mass(weights: ArrayLike, mass: float) -> int:
    """How many of the oldest have together at most this share of all weights.

    Args:
        weights: [n], the oldest first.
        mass: In [0, 1].
    """
    values = np.asarray(weights, np.float64)
    total = float(values.sum())
    if total <= 0.0:
        return 0
    return int(np.searchsorted(np.cumsum(values) / total, mass, side="right"))


def removable(weights: ArrayLike, trim: Trim, ess: float | None = None) -> Removal:
    """How many of the oldest to remove.

    Args:
        weights: What each transition is drawn in proportion to, [n], the oldest first.
        trim: The limits.
        ess: Smoothed effective sample size; None: that of these weights.
    """
    values = np.asarray(weights, np.float64)
    sums = of_weights(values)
    size = len(values)
    if size < 2 or not sums.count:
        return Removal(0)
    effective = sums.ess if ess is None else ess
    if not math.isfinite(effective) or effective / size >= trim.low:
        return Removal(0)
    keep = min(max(math.ceil(trim.keep_scale * effective), trim.least, 1), size)
    most = min(size - keep, int(trim.share * size))
    return Removal(max(min(oldest_within_mass(values, trim.mass), most), 0))


def beyond_effective(weights: ArrayLike, scale: float, ess: float | None = None) -> Removal:
    """How many of the oldest to remove so that as many are left as the effective sample size, times `scale`.

    n - clip(int(scale * ess), 1, n - 1): at least one goes and one stays; of a single one, or none, nothing goes.

    Args:
        weights: What each transition is drawn in proportion to, [n], the oldest first.
        scale: Factor of what is kept.
        ess: Smoothed effective sample size; None: that of these weights.
    """
    size = len(np.asarray(weights))
    effective = of_weights(weights).ess if ess is None else ess
    if size < 2 or not math.isfinite(effective):
        return Removal(0)
    return Removal(size - min(max(int(effective * scale), 1), size - 1))


@dataclass(frozen=True)
class TrimDecision:
    """How much of a pool is to go.

    Attributes:
        number: Of the oldest transitions.
        result: Transitions before and after, and why.
        health: By which was decided.
    """

    number: int
    result: DecisionResult
    health: Health


def decide_trim(experience: Experience, keep_scale: float) -> TrimDecision | None:
    """Decides how many of the oldest transitions are to go; None where nothing is replayed by priority.

    Args:
        experience: Whose pool it is.
        keep_scale: Kept are at least this many times the effective sample size.
    """
    weights, settings = experience.priorities(), experience.settings
    if weights is None or not isinstance(settings, ReplaySettings):
        return None
    trim = Trim(keep_scale=keep_scale, least=least_kept(settings))
    number = int(removable(weights, trim))
    size, fraction = float(len(weights)), of_weights(weights).fraction
    result = DecisionResult(size, size - number, "law" if number else "healthy, or kept at least")
    return TrimDecision(number, result, Health(PriorityEss.name, fraction, trim.low, fraction / trim.low))


def least_kept(settings: ReplaySettings) -> int:
    """Returns how many transitions a pool never falls below: enough to learn from, and half of what it holds."""
    return max(settings.learning_starts, 20 * settings.batch_size, settings.capacity // 2)
