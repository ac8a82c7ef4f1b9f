"""The one control law behind all adjusters.

A parameter is its scheduled value, moved by a factor on its scale. Each decision changes the factor; a factor of 1 is
the scheduled value itself, bit for bit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from note_rl.adaptive.health import Health
from note_rl.errors import SettingsError
from note_rl.settings.adaptive import Adapt
from note_rl.settings.adaptive_rules import EVERY_KL_STEP, HORIZON, KL_STEPS, RULES

_RUNGS = (0.25, 0.5, 2.0, 4.0)  # of a ladder, besides the scheduled value
_LARGEST = 50.0  # logarithm of a factor, so that none overflows


@dataclass(frozen=True)
class DecisionResult:
    """The result of a decision.

    Attributes:
        old, new: The parameter before and after.
        reason: Why it is what it is now.
    """

    old: float
    new: float
    reason: str


class Controller:
    """Decides about one parameter.

    Args:
        name: Of its rule.
        how: What was chosen about it.
        gain: Multiplies its own gain.
        default_gain: Instead of that of its rule, where the optimizer asks for another one.
        cooldown: Decisions after a change in which nothing happens.

    Attributes:
        most: What it can be at most where it is used, such as the size of a rollout for a minibatch of it.
    """

    def __init__(
        self, name: str, how: Adapt, gain: float = 1.0, default_gain: float | None = None, cooldown: int = 0
    ) -> None:
        self.most = math.inf
        self.name = name
        self.how = how
        self.rule = RULES[name]
        own = default_gain if default_gain is not None else self.rule.gain
        self.gain = gain * (how.gain if how.gain is not None else own)
        self.law = how.law or "feed_forward"
        self.factor = 1.0
        self._kl_band, step = KL_STEPS.get(name, EVERY_KL_STEP)
        self._step = math.pow(step, gain * (1.0 if how.gain is None else how.gain))
        self._overall = gain
        self._cooldown = cooldown
        self._resting = 0

    @property
    def is_static(self) -> bool:
        """Whether nothing can ever happen."""
        without_gain = self.law in ("additive", "cap", "solve", "ess")  # there, only the gain of all counts
        return (self._overall if without_gain else self.gain) == 0.0 and self.how.scale == 1.0

    def value(self, base: float) -> float:
        """Returns the value of the parameter where its schedule says `base`."""
        if self.factor == 1.0 or self._fixed(base):
            return base
        return self._quantised(self._clipped(self.rule.scale.moved(base, self.factor), base), base)

    def decide(self, base: float, health: Health) -> DecisionResult:
        """Moves the parameter by what health asks for.

        Args:
            base: Its current scheduled value.
            health: Measured; if it cannot be relied upon, nothing happens.
        """
        old = self.value(base)
        reason = self._skip_reason(base, health)
        if reason is not None:
            return DecisionResult(old, old, reason)
        return self._towards(base, old, self._wished(base, health))

    def decide_for(self, base: float, wanted: float) -> DecisionResult:
        """Moves the parameter towards a value that somebody has worked out (laws "solve" and "cap")."""
        old = self.value(base)
        if self.is_static or self._fixed(base):
            return DecisionResult(old, old, "static")
        wanted = base + min(self._overall, 1.0) * (wanted - base)
        return self._towards(base, old, self._factor_to(base, wanted))

    def _fixed(self, base: float) -> bool:
        """0 stays 0: there is no weight decay where none was asked for."""
        return not 0.0 < base < (1.0 if self.rule.scale is HORIZON else math.inf)

    def _skip_reason(self, base: float, health: Health) -> str | None:
        """Why nothing is to happen now; None: something is."""
        if self.is_static:
            return "static"
        if health.skip_reason is not None:
            return health.skip_reason
        if not 0.0 < health.ratio < math.inf:
            return "unreliable: no finite health"
        if self._fixed(base):
            return f"{base:g} stays"
        if self._resting > 0:
            self._resting -= 1
            return "cooldown"
        if self.law == "kl_step":
            return self._in_kl_band(health)
        if self.law == "ess":  # between two rungs of the ladder it stays anyway
            return None
        return "deadband" if abs(math.log(health.ratio)) < math.log(self.rule.deadband) else None

    def _in_kl_band(self, health: Health) -> str | None:
        if math.isnan(health.kl_ratio):
            return f"{health.signal} is no KL divergence"
        return "in band" if 1.0 / self._kl_band <= health.kl_ratio <= self._kl_band else None

    def _wished(self, base: float, health: Health) -> float:
        """The factor that the law asks for."""
        scale, sign = self.how.scale, self.rule.sign
        if self.law == "kl_step":
            rises = (health.kl_ratio > 1.0) == (sign > 0)
            return self.factor * (self._step if rises else 1.0 / self._step)
        if self.law == "ess":
            return self.value(base) / base * math.pow(scale * health.ratio, min(self._overall, 1.0))
        if self.law == "additive":
            rate = (self.how.rate or 0.0) * self._overall
            return scale * self._factor_to(base, base + rate * sign * (health.ratio - 1.0))
        by_noise = self.law == "noise" and not math.isnan(health.noise_factor)
        power = sign * self.gain * math.log(health.noise_factor if by_noise else health.ratio)
        return scale * math.exp(min(max(power, -_LARGEST), _LARGEST))

    def _towards(self, base: float, old: float, wished: float) -> DecisionResult:
        """Goes there as far as slew and bounds let it."""
        if self.rule.only_up:
            wished = max(wished, self.factor)
        reason = "law"
        slewed = self._slewed(base, wished)
        if slewed != wished:
            reason = "slew"
        moved = self.rule.scale.moved(base, slewed)
        clipped = self._clipped(moved, base)
        if clipped != moved and slewed != 1.0:
            reason = "bound"
            slewed = 1.0 if clipped == base else self._factor_to(base, clipped)
        self.factor = slewed
        new = self.value(base)
        if new != old:
            self._resting = self._cooldown
        return DecisionResult(old, new, reason)

    def _slewed(self, base: float, wished: float) -> float:
        if self.law == "ess" and self.how.slew is None:
            return wished
        if self.rule.absolute_slew is not None and self.how.slew is None:
            now, then = (self.rule.scale.moved(base, factor) for factor in (self.factor, wished))
            most = self.rule.absolute_slew
            if abs(then - now) <= most:
                return wished
            return self._factor_to(base, now + math.copysign(most, then - now))
        most = self.how.slew or max(self.rule.slew, self._step if self.law == "kl_step" else 1.0)
        return min(max(wished, self.factor / most), self.factor * most)

    def _factor_to(self, base: float, value: float) -> float:
        """Which factor leads to a value; one out of bounds, to the bound."""
        inside = max(self._clipped(value, base), 1e-9 * base)
        return 1.0 if inside == base else self.rule.scale.factor(base, inside)

    def bounds(self, base: float) -> tuple[float, float]:
        """The least and the most that it may be where its schedule says `base`, which is always allowed."""
        rule, how, moved = self.rule, self.how, self.rule.scale.moved
        low = rule.lowest if how.min_factor is None else how.min_factor
        high = rule.highest if how.max_factor is None else how.max_factor
        lowest = max(moved(base, low), rule.floor) if low > 0.0 else rule.floor
        highest = min(moved(base, high), rule.ceiling) if math.isfinite(high) else rule.ceiling
        lowest = lowest if how.min is None else max(how.min, rule.floor)
        highest = highest if how.max is None else min(how.max, rule.ceiling)
        highest = min(highest, self.most)
        return min(lowest, base), max(highest, base)

    def check(self, base: float) -> None:
        """Refuses bounds that the parameter is out of to begin with.

        Args:
            base: What settings and schedules say at the beginning.
        """
        low, high = self.how.min, self.how.max
        if (low is not None and base < low) or (high is not None and base > high):
            given = {"min": low, "max": high}
            bounds = " and ".join(f"{name}={value:g}" for name, value in given.items() if value is not None)
            raise SettingsError(
                f"{self.name} begins at {base:g}, out of its bounds {bounds}: widen them, or begin within them"
            )

    def _clipped(self, value: float, base: float) -> float:
        low, high = self.bounds(base)
        return min(max(value, low), high)

    def _quantised(self, value: float, base: float) -> float:
        if self.rule.ladder:
            return min(self.rungs(base), key=lambda rung: (abs(math.log(rung / value)), rung))
        return float(max(round(value), 1)) if self.rule.whole else value

    def rungs(self, base: float) -> Sequence[float]:
        """The values on a ladder, rising: the scheduled one, its doubles and its halves, within the bounds."""
        low, high = self.bounds(base)
        align = self.how.align if self.name == "batch_size" else 1
        rungs = {float(base)}
        for factor in self._factors(base, low, high):
            rung = float(max(-(-base * factor // align) * align, align))
            if low <= rung <= high:
                rungs.add(rung)
        return sorted(rungs)

    def _factors(self, base: float, low: float, high: float) -> Sequence[float]:
        """Of the rungs: all doubles and halves up to the bounds, where the law goes from the present value on."""
        if self.law != "ess":
            return _RUNGS
        halves, doubles = (math.floor(abs(math.log2(max(bound, 1.0) / base))) for bound in (low, high))
        return [2.0**exponent for exponent in range(-halves, doubles + 1) if exponent]

    def to_json(self) -> dict[str, Any]:
        """For checkpoints."""
        return {"factor": self.factor, "resting": self._resting}

    def take(self, stored: Any) -> None:
        """Goes on from what to_json() gave."""
        self.factor, self._resting = float(stored["factor"]), int(stored["resting"])
