"""The door by which a loss reports numbers for people to look at, such as its entropy."""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from note_rl.errors import AgentContractError
from note_rl.types import Update

MOST_REPORTED = 24
"""Numbers that one loss may report: the compiled update keeps room for this many."""
GRADIENT_NORM = "gradient_norm"


class Reports:
    """The values given to `agent.report(...)` while a loss is evaluated."""

    def __init__(self) -> None:
        self._values: dict[str, Any] | None = None  # None: no loss is being evaluated

    def add(self, values: Mapping[str, Any]) -> None:
        """Takes in numbers; those of a name that is known already are replaced. Ignored outside of a loss.

        Raises:
            AgentContractError: Something else than tensors and numbers, or too many.
        """
        if self._values is None:
            return
        for name, value in values.items():
            if not (hasattr(value, "shape") or isinstance(value, int | float)):
                raise AgentContractError(f"report({name}=...) takes a tensor or a number, got {type(value).__name__}")
        self._values.update(values)
        if len(self._values) > MOST_REPORTED:
            raise AgentContractError(
                f"report() was given {len(self._values)} numbers in one __call__, and takes {MOST_REPORTED}: leave out "
                f"some of {', '.join(self._values)}"
            )

    def begin(self) -> None:
        """Begins a loss."""
        self._values = {}

    def take(self) -> dict[str, Any]:
        """Ends the loss; returns what was reported, by name."""
        values, self._values = self._values or {}, None
        return values


def means_over(updates: Sequence[Update]) -> dict[str, float]:
    """Returns means over the gradient steps of some update blocks of what they reported, by name.

    Steps that have reported nothing under a name are left out. Where the loss hands over ratios of new to old policy,
    and reports no `approx_kl` of its own, that is worked out here.
    """
    names = dict.fromkeys(name for update in updates for name in update.reported)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # about names that all steps have left out
        means = {
            name: float(np.nanmean(np.concatenate([u.reported[name] for u in updates if name in u.reported])))
            for name in names
        }
    kl = approx_kl(updates)
    return means if kl is None else {"approx_kl": kl, **means}


def mean_losses(updates: Sequence[Update]) -> list[float]:
    """Returns the mean of each column of losses over the gradient steps of a training phase in which its group learned.

    It is nan where there were none.
    """
    columns = np.concatenate([update.loss for update in updates]).astype(np.float64).T
    return [float(column[learned].mean()) if (learned := ~np.isnan(column)).any() else math.nan for column in columns]


def approx_kl(updates: Sequence[Update]) -> float | None:
    """Returns the KL divergence of the policy from the one that collected, on average over some update blocks.

    It is what the loss reports under this name, or comes from the ratios that it hands over; None: it does neither.
    """
    told = [update.reported["approx_kl"] for update in updates if "approx_kl" in update.reported]
    if told:
        values = np.concatenate(told)
        known = values[~np.isnan(values)]  # a step need not report it
        return float(known.mean()) if len(known) else None
    ratios = [update.ratio.ravel() for update in updates if update.ratio is not None]
    return kl_divergence(np.concatenate(ratios)) if ratios else None


def kl_divergence(ratio: ArrayLike) -> float:
    """KL(old || new) from ratios r of samples of the old policy: mean of r - 1 - log r, of which no term is negative.

    Schulman 2020, http://joschu.net/blog/kl-approx.html (k3).
    """
    values = np.asarray(ratio, np.float64).ravel()
    values = values[np.isfinite(values) & (values > 0.0)]
    return float(np.mean(values - 1.0 - np.log(values))) if len(values) else math.nan
