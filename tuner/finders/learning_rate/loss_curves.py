"""Analysis of a curve of losses over learning rates: pure functions of arrays.

Smith 2017, "Cyclical Learning Rates for Training Neural Networks" (https://arxiv.org/abs/1506.01186) for the range
test; the rules for a suggestion are those of fastai (https://docs.fast.ai/callback.schedule.html).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

RISE = 3.0
"""A loss has diverged when it lies this many times its best value (or its fall so far) above the best one: 4 x best."""

WARM_UP = 3
"""Points at the beginning that do not count as the best yet."""


def rates_of(start: float, end: float, num_steps: int) -> FloatArray:
    """[N + 1] rates from start to end, each (end / start)^(1 / N) times the one before."""
    rates: FloatArray = start * (end / start) ** (np.arange(num_steps + 1) / num_steps)
    rates[-1] = end
    return rates


def smooth(values: ArrayLike, beta: float) -> FloatArray:
    """Bias-corrected exponential moving averages run forwards and backwards, and their mean: no lag. [n] -> [n]."""
    array = np.asarray(values, np.float64)
    return np.asarray((_ema(array, beta) + _ema(array[::-1], beta)[::-1]) / 2.0)


def _ema(values: FloatArray, beta: float) -> FloatArray:
    average, averages = 0.0, np.empty_like(values)
    for index, value in enumerate(values):
        average = beta * average + (1.0 - beta) * value
        averages[index] = average / (1.0 - beta ** (index + 1))
    return averages


def moving_mean(values: ArrayLike, window: int) -> FloatArray:
    """Mean of each value and up to `window` - 1 before it. [n] -> [n]."""
    array = np.asarray(values, np.float64)
    total = np.concatenate([[0.0], np.cumsum(array)])
    last = np.arange(1, len(array) + 1)
    first = np.maximum(last - window, 0)
    return np.asarray((total[last] - total[first]) / (last - first))


def normalised(values: ArrayLike, window: int) -> FloatArray:
    """Each value less the mean of the last `window` ones, in their standard deviations; 0 where these are equal."""
    array = np.asarray(values, np.float64)
    result = np.zeros_like(array)
    for index, value in enumerate(array):
        recent = array[max(0, index + 1 - window) : index + 1]
        deviation = recent.std()
        result[index] = (value - recent.mean()) / deviation if deviation > 0.0 else 0.0
    return result


def smooth_loss(losses: FloatArray, beta: float | None = None) -> FloatArray:
    """As losses are smoothed before their steepest fall is looked for: the fewer points, the less."""
    return smooth(losses, min(0.9, len(losses) / (len(losses) + 20.0)) if beta is None else beta)


def slope(rates: ArrayLike, values: ArrayLike) -> FloatArray:
    """Change of the values per factor of ten of the rate. [n] -> [n], n >= 2."""
    return np.asarray(np.gradient(np.asarray(values, np.float64), np.log10(np.asarray(rates, np.float64))))


def has_diverged(losses: Sequence[float]) -> bool:
    """Whether the last loss says so: not finite, or after the warm-up far above the best."""
    last = losses[-1]
    if not math.isfinite(last):
        return True
    if len(losses) <= WARM_UP:
        return False
    best = min(losses)
    return last - best > RISE * max(abs(best), losses[0] - best)


@dataclass(frozen=True)
class Points:
    """The telling points of a curve, as learning rates.

    Attributes:
        stable: The last rate before the rise to divergence, or the highest one there is if nothing diverged.
        diverged: Whether the loss diverged within the range.
        steep: Where the smoothed loss falls fastest; None: it does not fall.
        valley: Two thirds of the way through the longest fall; None: it does not fall.
        minimum: Where the smoothed loss is lowest; None: it does not fall.
    """

    stable: float
    diverged: bool
    steep: float | None = None
    valley: float | None = None
    minimum: float | None = None

    @property
    def suggestion(self) -> float | None:
        """The steepest point, but a tenth of what is stable at most; None where the loss is flat."""
        return None if self.steep is None else min(self.steep, self.stable / 10.0)


def points_of(
    rates: ArrayLike, losses: ArrayLike, skip_begin: int = 0, skip_end: int = 0, beta: float | None = None
) -> Points:
    """The telling points of the losses [n] that were measured after a step at each of the rates [m], n <= m.

    Args:
        rates: Ascending.
        losses: The last one may be not finite.
        skip_begin: Points left out at the beginning where the steepest one is looked for.
        skip_end: The same at the end of what is stable.
        beta: Of the smoothing; None: .9, or less where there are few points.
    """
    values = np.asarray(losses, np.float64)
    axis = np.asarray(rates, np.float64)
    diverged = has_diverged(values.tolist())
    stable = _begin_of_rise(values) if diverged else len(values) - 1
    seen = values[: stable + 1]
    found = Points(float(axis[stable]), diverged)
    if len(seen) < 3 or not np.isfinite(seen).all():
        return found
    curve = smooth_loss(seen, beta)
    if not _falls(seen, curve):
        return found
    lowest = int(np.argmin(curve))
    first, last = min(skip_begin, len(seen) - 2), max(len(seen) - skip_end, 2)
    last = last if last - first >= 2 else len(seen)
    last = min(last, max(lowest + 1, first + 2))  # behind the minimum the loss is as noisy as parameters are far off
    slopes = slope(axis[: len(seen)], curve)
    begin, end = _longest_fall(curve)
    return Points(
        float(axis[stable]),
        diverged,
        steep=float(axis[first + int(np.argmin(slopes[first:last]))]),
        valley=float(axis[begin + round((end - begin) * 2 / 3)]),
        minimum=float(axis[lowest]),
    )


def _begin_of_rise(losses: FloatArray) -> int:
    """Index of the last point before the uninterrupted rise at the end."""
    index = len(losses) - 1
    while index > 0 and not losses[index - 1] < losses[index] and not math.isfinite(losses[index]):
        index -= 1
    while index > 0 and losses[index - 1] < losses[index]:
        index -= 1
    return index


def _falls(losses: FloatArray, curve: FloatArray) -> bool:
    """Whether the fall of the smoothed curve stands out of what was smoothed away."""
    fall = float(np.max(np.maximum.accumulate(curve) - curve))
    noise = float(np.std(np.diff(losses) - np.diff(curve)))
    return fall > max(2.0 * noise, 1e-3 * abs(float(losses[0])))


def _longest_fall(curve: FloatArray) -> tuple[int, int]:
    """First and last index of the longest run of falling values."""
    best, begin = (0, 0), 0
    for index in range(1, len(curve)):
        if not curve[index] < curve[index - 1]:
            begin = index
        if index - begin > best[1] - best[0]:
            best = (begin, index)
    return best


@dataclass(frozen=True)
class Suggestion:
    """A learning rate, and the range in which to search for a better one.

    Attributes:
        rate: None: there is none to be had, see `reason`.
        low: Of the range; None without a rate.
        high: The same.
        reason: In plain words, how it came about or why there is none.
    """

    rate: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""

    @property
    def space(self) -> dict[str, float | bool]:
        """The range as an entry of a search space.

        Raises:
            ValueError: There is no rate.
        """
        if self.low is None or self.high is None:
            raise ValueError(f"there is no range: {self.reason}")
        return {"low": self.low, "high": self.high, "log": True}


def suggest(found: Sequence[float | None], stable: Sequence[float], reason: str) -> Suggestion:
    """One suggestion of those over seeds: their geometric median, with the range around it.

    Args:
        found: The rate of each seed; None where its curve was flat.
        stable: The last stable rate of each seed.
        reason: How the rates were found, in words.
    """
    known = [math.log(rate) for rate in found if rate is not None]
    if len(known) * 2 <= len(found):
        flat = f"{len(found) - len(known)} of {len(found)} curves are flat: nothing falls that stands out of the noise"
        return Suggestion(None, reason=flat)
    rate = _rounded(math.exp(float(np.median(known))))
    limit = math.exp(float(np.median(np.log(stable))))
    high = max(min(limit / 2.0, rate * 10.0), rate)
    return Suggestion(rate, _rounded(rate / 10.0), _rounded(high), reason)


def _rounded(rate: float) -> float:
    """Three significant digits, as nobody believes more."""
    return float(f"{rate:.3g}")
