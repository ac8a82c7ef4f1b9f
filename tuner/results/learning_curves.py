"""Curves of single runs, and of several runs together: the middle of them, and a band around it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Spread = Literal["quartiles", "range"]

_MOST_PLACES: Final = 1000
"""Places that a band has: more than a picture has columns for its lines."""

_SHARES: Final[dict[str, tuple[float, float]]] = {"quartiles": (25.0, 75.0), "range": (0.0, 100.0)}


@dataclass(frozen=True)
class Curve:
    """Values of one run.

    Attributes:
        x: Places [n], rising.
        y: Values [n] there.
    """

    x: FloatArray
    y: FloatArray

    @classmethod
    def of(cls, x: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """From places in any order; what is not finite is left out, and of several values at a place the last counts.

        Args:
            x: [n].
            y: [n].
        """
        places, values = np.asarray(x, np.float64), np.asarray(y, np.float64)
        known = np.isfinite(places) & np.isfinite(values)
        at_place = dict(zip(places[known].tolist(), values[known].tolist(), strict=True))
        ordered = sorted(at_place)
        return cls(np.array(ordered, np.float64), np.array([at_place[place] for place in ordered], np.float64))


@dataclass(frozen=True)
class Band:
    """Several runs of one configuration.

    Attributes:
        x: Places [n], rising.
        middle: Median [n] of the runs that have got there.
        low, high: Bounds [n] of the band.
        num_runs: How many runs these are [n].
    """

    x: FloatArray
    middle: FloatArray
    low: FloatArray
    high: FloatArray
    num_runs: npt.NDArray[np.int64]


def band_over(curves: Sequence[Curve], spread: Spread = "quartiles") -> Band:
    """The median of runs and a band around it, at every place where one of them was measured.

    Between its own places a run is interpolated linearly; before its first and behind its last one it does not count.

    Args:
        curves: None of them empty.
        spread: The extent of the band: the middle half of the runs, or all of them.
    """
    x = np.unique(np.concatenate([curve.x for curve in curves]))
    if len(x) > _MOST_PLACES:
        x = np.linspace(x[0], x[-1], _MOST_PLACES)
    rows = np.stack([np.interp(x, curve.x, curve.y, np.nan, np.nan) for curve in curves])
    num_runs = np.isfinite(rows).sum(axis=0)
    x, rows, num_runs = x[num_runs > 0], rows[:, num_runs > 0], num_runs[num_runs > 0]
    low, middle, high = np.nanpercentile(rows, [_SHARES[spread][0], 50.0, _SHARES[spread][1]], axis=0)
    return Band(x, middle, low, high, num_runs)
