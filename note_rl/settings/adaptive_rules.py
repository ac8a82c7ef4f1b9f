"""How each hyperparameter answers to the health of training, unless somebody says otherwise.

Health is one number above 0 whatever it was measured by, the ratio to the target: 1 is as wished, below 1 is worse. A
parameter goes as ratio^(sign * gain) from its scheduled value, never from its present one: nothing adds up, and a ratio
of 1 is the schedule itself.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

LAWS = ("feed_forward", "noise", "additive", "kl_step", "cap", "solve", "ess")


@dataclass(frozen=True)
class Scale:
    """On which a parameter is moved by factors.

    Attributes:
        moved: The value that is a factor away from another one: (value, factor) -> value.
        factor: Between two values: (from, to) -> factor.
    """

    moved: Callable[[float, float], float]
    factor: Callable[[float, float], float]


PLAIN = Scale(lambda x, factor: x * factor, lambda x, other: other / x)
# by the horizon W = 1 / (1 - x) that discounts and running averages stand for
HORIZON = Scale(lambda x, factor: 1.0 - (1.0 - x) / factor, lambda x, other: (1.0 - x) / (1.0 - other))


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Of one parameter.

    Attributes:
        sign: Whether it rises (1) or falls (-1) with health.
        gain: By which power.
        scale: Where it moves.
        lowest, highest: Bounds, in factors of its scheduled value (of its horizon).
        floor, ceiling: Bounds of the value itself.
        slew: The largest factor from one decision to the next; without `absolute_slew`.
        absolute_slew: The largest difference between two decisions.
        deadband: Factor of the ratio, up or down, that is taken for 1.
        whole: Only whole numbers.
        ladder: At most 5 values, so that compiled code is made for each once; with law "ess", all up to the bounds.
        only_up: It never returns.
    """

    sign: int
    gain: float
    scale: Scale = PLAIN
    lowest: float = 0.25
    highest: float = 4.0
    floor: float = -math.inf
    ceiling: float = math.inf
    slew: float = 1.25
    absolute_slew: float | None = None
    deadband: float = 1.1
    whole: bool = False
    ladder: bool = False
    only_up: bool = False


RULES = {
    "learning_rate": Rule(sign=1, gain=0.5, lowest=0.1, highest=3.0),
    "batch_size": Rule(sign=-1, gain=1.0, slew=2.0, deadband=1.5, whole=True, ladder=True, floor=1),
    "alpha": Rule(sign=1, gain=1.0, floor=0.0, ceiling=1.0, lowest=0.0, highest=math.inf, absolute_slew=0.05),
    "per_beta": Rule(sign=-1, gain=0.5, lowest=1.0, highest=math.inf, ceiling=1.0, absolute_slew=0.05),
    "kl_coefficient": Rule(sign=-1, gain=1.0, lowest=1 / 16, highest=16.0, slew=2.0),
    "clip": Rule(sign=1, gain=0.5, highest=1.5),
    "num_updates": Rule(sign=1, gain=1.0, floor=1, whole=True, ladder=True),
    "update_interval": Rule(sign=-1, gain=0.5, floor=1, whole=True),
    "tau": Rule(sign=1, gain=0.5, ceiling=1.0),
    "eps": Rule(sign=-1, gain=0.5, lowest=0.5, highest=2.0, ceiling=1.0),
    "gamma": Rule(sign=1, gain=0.5, scale=HORIZON, lowest=0.5, highest=2.0, slew=1.1, only_up=True),
    "num_store": Rule(sign=-1, gain=1.0, lowest=1.0, highest=8.0, floor=1, slew=2.0, whole=True),
    "weight_decay": Rule(sign=-1, gain=0.5, lowest=0.1, highest=10.0, slew=1.5),
    "beta1": Rule(sign=-1, gain=0.5, scale=HORIZON, lowest=0.0, highest=math.inf, floor=0.5, ceiling=0.99),
    "beta2": Rule(sign=-1, gain=0.5, scale=HORIZON, lowest=0.0, highest=math.inf, floor=0.9, ceiling=0.9999),
}
"""By name; `window` is no value but something done to the pool, see `window`."""

WINDOW = "window"
KL_STEPS = {"learning_rate": (2.0, 1.5), "kl_coefficient": (1.5, 2.0)}
"""How far KL may be from its target, and the factor of a step then (Schulman et al. 2017, section 4; skrl, rsl_rl)."""
EVERY_KL_STEP = (2.0, 1.5)
