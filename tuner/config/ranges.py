"""Ranges of the built-in parts' numbers. The frameworks check some of them too, but late and in their own words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.config.signatures import takes_as_ours
from tuner.errors import UserError


@dataclass(frozen=True)
class Range:
    """An interval; None: no bound. A bound marked open is not part of it."""

    low: float | None = None
    high: float | None = None
    low_open: bool = False
    high_open: bool = False

    def __contains__(self, value: float) -> bool:
        above = self.low is None or value > self.low or (value == self.low and not self.low_open)
        below = self.high is None or value < self.high or (value == self.high and not self.high_open)
        return above and below

    def __str__(self) -> str:
        if self.high is None:
            return f"above {self.low:g}" if self.low_open else f"at least {self.low:g}"
        return f"in {'(' if self.low_open else '['}{self.low:g}, {self.high:g}{')' if self.high_open else ']'}"


_SHARE = Range(0.0, 1.0)
_SHARE_ABOVE_0 = Range(0.0, 1.0, low_open=True)
_SHARE_BELOW_1 = Range(0.0, 1.0, high_open=True)
_POSITIVE = Range(0.0, low_open=True)
_NOT_NEGATIVE = Range(0.0)

RANGES = {
    "agent.gamma": _SHARE,
    "agent.tau": _SHARE_ABOVE_0,
    "agent.gae_lambda": _SHARE,
    "agent.clip": _POSITIVE,
    "agent.entropy_coef": _NOT_NEGATIVE,
    "agent.value_coef": _NOT_NEGATIVE,
    "agent.max_kl": _POSITIVE,
    "agent.cg_iterations": Range(1.0),
    "agent.cg_tolerance": _NOT_NEGATIVE,
    "agent.cg_damping": _NOT_NEGATIVE,
    "agent.fvp_every": Range(1.0),
    "agent.line_search_steps": Range(1.0),
    "agent.line_search_shrink": _SHARE_ABOVE_0,
    "agent.critic_iterations": Range(1.0),
    "agent.critic_batch_size": Range(1.0),
    "agent.ema_alpha": _SHARE_BELOW_1,
    "agent.importance_c": _POSITIVE,
    "agent.delta": _NOT_NEGATIVE,
    "agent.epsilon": _POSITIVE,
    "network.hidden_sizes": Range(1.0),
    "optimizer.learning_rate": _POSITIVE,
    "optimizer.beta1": _SHARE_BELOW_1,
    "optimizer.beta2": _SHARE_BELOW_1,
    "optimizer.rho": _SHARE_BELOW_1,
    "optimizer.momentum": _SHARE_BELOW_1,
    "optimizer.epsilon": _POSITIVE,
    "optimizer.weight_decay": _NOT_NEGATIVE,
}


def check_ranges(config: Mapping[str, Any]) -> None:
    """Refuses numbers out of range in parts that come with the package, and in classes that inherit them.

    Any other part of the user's own may mean anything by a name.

    Raises:
        UserError: The first one.
    """
    for path, allowed in RANGES.items():
        part, _, name = path.partition(".")
        node = config[part]
        if name not in node or not takes_as_ours(str(node["_target_"]), name):
            continue
        values = node[name] if isinstance(node[name], list) else [node[name]]
        if any(isinstance(value, int | float) and value not in allowed for value in values):
            raise UserError(f"{path}={node[name]} is not possible: it must be {allowed}")
