"""The model's estimates of the configurations that it chose among."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tuner.results.records import CONFIRM, Fact


@dataclass(frozen=True)
class Believed:
    """The true score of a configuration as far as all runs tell: its mean over all seeds there are.

    Attributes:
        label: Of the configuration.
        mean: Of the posterior.
        low: Lower end of its 95 % interval.
        high: Upper end.
        num_runs: Runs of this configuration, its screening run included.
    """

    label: str
    mean: float
    low: float
    high: float
    num_runs: int


BELIEVED: Final = Fact[tuple[Believed, ...]]("posterior", (), tuple[Believed, ...])
"""Of the configurations that ran again behind screening, the winner first; nothing where no model decided."""

DECISION: Final = Fact[str]("decision", "", str)
"""Name of the rule that chose the winner; empty: the scores on the seeds of confirmation."""

RUNS_BEFORE: Final = Fact[Mapping[str, int]]("runs_before", {}, Mapping[str, int], stage=CONFIRM)
"""By number of configurations to choose from: how many runs had been handed out when it was first reached."""

RUNS_BY_BUDGET: Final = Fact[Mapping[str, int]]("runs_by_budget", {}, Mapping[str, int], stage=CONFIRM)
"""The same: how many runs the budget gave in all, so that a study that has ended stays so under another budget."""
