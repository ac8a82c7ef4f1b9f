"""What can be chosen about adaptation, each choice refusing nonsense."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from note_rl import spelling
from note_rl.checking import Count, Number
from note_rl.errors import SettingsError
from note_rl.settings.adaptive_rules import LAWS, RULES, SIGNALS, WINDOW

MODES = ("off", "advise", "control")
_TARGETS: dict[str, float | str] = {
    "priority_ess": "auto",
    "weight_ess": "auto",
    "ratio_ess": 0.97,
    "kl": 0.01,
    "gradient_noise": 1.0,
}
_CALLED = {
    "lr": "learning_rate",
    "batch": "batch_size",
    "freq": "update_interval",
    "store": "num_store",
    "beta": "kl_coefficient",
}
MANUAL_NAMES = (
    *("batch", "alpha", "lr", "eps", "freq", "tau", "gamma", "store", "weight_decay", "beta1", "beta2", "clip"),
    *("beta", "num_updates", "per_beta"),
)
_FRACTION = Number(0.0, 1.0, above=True)
_POSITIVE = Number(0.0, above=True)
_AT_LEAST_ONE = Number(1.0)


@dataclass(frozen=True, kw_only=True)
class Adapt:
    """How one hyperparameter is adapted. What is left out is as `note_rl.settings.adaptive_rules` has it.

    Attributes:
        law: feed_forward: the scheduled value times a power of health. noise: the learning rate times
            ((1 + target) / (1 + noise))^gain. additive: the scheduled value plus rate * (health - 1). kl_step: a
            fixed factor up or down where KL has left its band, from the present value. cap: never more than a share of
            the effective sample size (batch_size). solve: the exponent that gives the wished effective size (alpha).
        gain: Power of health, or of the fixed factor of kl_step; 0: the scheduled value.
        rate: Of the law "additive", which it implies.
        scale: Factor of the scheduled value.
        min, max: Bounds.
        min_factor, max_factor: The same in factors of the scheduled value.
        slew: Largest factor from one decision to the next.
        align: Batch sizes are multiples of this.
        smooth: Weight of the newest measurement; None: that of all.
        signals: By which of the signals; None: by all.
        mode: "advise" or "off" for this one alone; None: that of all.
    """

    law: str | None = None
    gain: float | None = None
    rate: float | None = None
    scale: float = 1.0
    min: float | None = None
    max: float | None = None
    min_factor: float | None = None
    max_factor: float | None = None
    slew: float | None = None
    align: int = 8
    smooth: float | None = None
    signals: Sequence[str] | None = None
    mode: str | None = None

    def __post_init__(self) -> None:
        """Refuses values out of range."""
        kinds: dict[str, Any] = {
            **dict.fromkeys(("gain",), Number(0.0)),
            **dict.fromkeys(("rate", "min", "max"), Number()),
            **dict.fromkeys(("scale", "min_factor", "max_factor"), _POSITIVE),
            **{"slew": _AT_LEAST_ONE, "align": Count(), "smooth": _FRACTION},
        }
        for name, kind in kinds.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, kind(name, value))
        for low, high in (("min", "max"), ("min_factor", "max_factor")):
            least, most = getattr(self, low), getattr(self, high)
            if least is not None and most is not None and least > most:
                raise SettingsError(f"{low}={least} is above {high}={most}")
        if self.law is None and self.rate is not None:
            object.__setattr__(self, "law", "additive")
        if self.law is not None:
            _one_of("law", self.law, LAWS)
        if self.law == "additive" and self.rate is None:
            raise SettingsError("law=additive needs rate: by how much, where health is off by 1")
        _check_signals(self.signals or ())
        if str(self.mode) == "False":  # what YAML makes of a bare off
            object.__setattr__(self, "mode", "off")
        if self.mode is not None:
            _one_of("mode", self.mode, MODES)


@dataclass(frozen=True, kw_only=True)
class Adaptive:
    """Which hyperparameters are changed while training goes on, by which signals.

    Attributes:
        mode: control: changed; advise: only noted what would be; off: nothing is measured.
        signals: What health is measured by. Of several, the worst counts. priority_ess, weight_ess: effective sizes of
            priorities and importance weights (prioritized replay). ratio_ess, kl: how far PPO's policy has moved from
            the one that collected. gradient_noise: noise scale over batch size.
        parameters: By name, how each is adapted: the arguments of `Adapt`.
        targets: By signal, what is wished: a number, or "auto": the median of the first `calibration` measurements.
        gain: Multiplies the gains of all; 0: the static run, exactly.
        period: Gradient steps between two measurements.
        noise_period: The same of gradient noise, which costs more than the others together.
        smooth: Weight of the newest measurement in running means.
        warm_up: Measurements before the first decision.
        calibration: Measurements of an "auto" target.
        cooldown: Decisions after a change in which a parameter stays as it is.
        kappa: Largest batch as a share of the effective number of transitions in the pool (law "cap").
        schedule: What is to be repeated of an earlier run, by parameter: pairs (environment steps, value from then on).
            Nothing is measured then.
    """

    mode: str = "control"
    signals: Sequence[str] = ()
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    targets: Mapping[str, float | str] = field(default_factory=dict)
    gain: float = 1.0
    period: int = 50
    noise_period: int = 100
    smooth: float = 0.2
    warm_up: int = 20
    calibration: int = 20
    cooldown: int = 0
    kappa: float = 0.25
    schedule: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuses values out of range and contradictions."""
        if str(self.mode) == "False":  # what YAML makes of a bare off
            object.__setattr__(self, "mode", "off")
        _one_of("mode", self.mode, MODES)
        kinds: dict[str, Any] = {
            **{"gain": Number(0.0), "smooth": _FRACTION, "kappa": _FRACTION},
            **{
                "period": Count(),
                "noise_period": Count(),
                "warm_up": Count(),
                "calibration": Count(),
                "cooldown": Count(0),
            },
        }
        for name, kind in kinds.items():
            object.__setattr__(self, name, kind(name, getattr(self, name)))
        for name in ("parameters", "targets", "schedule"):
            if not isinstance(getattr(self, name), Mapping):
                raise SettingsError(f"{name} must map names to what is told of them, got {getattr(self, name)!r}")
        _check_signals(self.signals)
        _check_signals(list(self.targets))
        for signal, target in self.targets.items():
            if target != "auto":
                _POSITIVE(f"targets.{signal}", target)
        self._check_noise(self.adapters())
        for name, steps in self.schedule.items():
            _check_schedule(name, steps)

    def adapters(self) -> dict[str, Adapt]:
        """How each parameter is adapted, by its name here; without those that are off."""
        found = {name: adapt(name, told or {}) for name, told in self.parameters.items()}
        return {name: how for name, how in found.items() if how.mode != "off"}

    def target(self, signal: str) -> float | str:
        """What is wished of a signal."""
        return self.targets.get(signal, _TARGETS[signal])

    def signals_of(self, how: Adapt) -> tuple[str, ...]:
        """Those that a parameter goes by."""
        return tuple(self.signals if how.signals is None else how.signals)

    def all_signals(self) -> list[str]:
        """Every signal that is measured, each once."""
        of_parameters = [signal for how in self.adapters().values() for signal in self.signals_of(how)]
        return list(dict.fromkeys([*self.signals, *of_parameters]))

    def _check_noise(self, adapters: Mapping[str, Adapt]) -> None:
        by_noise = [name for name, how in adapters.items() if "gradient_noise" in self.signals_of(how)]
        if {"learning_rate", "batch_size"} <= set(by_noise):
            raise SettingsError(
                "learning_rate and batch_size both go by gradient_noise, which each of them changes; adapt one of them "
                "by it (a larger batch takes the learning rate along), or give the other one signals of its own"
            )
        for name, how in adapters.items():
            if not self.signals_of(how) and how.law not in ("cap", "solve") and name not in ("alpha", WINDOW):
                if name == "batch_size" and how.law is None:
                    continue  # capped by the effective sample size
                raise SettingsError(f"{name} is to be adapted, but by which signals? {', '.join(SIGNALS)}")


def adapt(name: str, told: Mapping[str, Any]) -> Adapt:
    """How a parameter is adapted.

    Raises:
        SettingsError: There is no such parameter, argument or value; the parameter is named.
    """
    _one_of("parameters", name, (*RULES, WINDOW))
    known = [one.name for one in fields(Adapt)]
    if not isinstance(told, Mapping):
        raise SettingsError(f"{name} must be told as {{min: ..., max: ..., gain: ...}}, got {told!r}")
    for key in told:
        if key not in known:
            raise SettingsError(f"{name}: {_unknown(key, known)}")
    try:
        how = Adapt(**told)
    except SettingsError as error:
        raise SettingsError(f"{name}: {error}") from error
    for law, only in (("cap", "batch_size"), ("solve", "alpha"), ("noise", "learning_rate")):
        if how.law == law and name != only:
            raise SettingsError(f"{name}: law={law} is for {only}")
    return how


def of_manual(arguments: Mapping[str, Any], method: str) -> dict[str, Adapt]:
    """The `*_params` of the manuals' methods, by our names; those that are None are left out.

    Args:
        arguments: By what stands before `_params`: batch, lr, ...
        method: Whose arguments these are, for messages.
    """
    found = {}
    for called, told in arguments.items():
        if told is None:
            continue
        if not isinstance(told, Mapping):
            raise SettingsError(
                f"{method}({called}_params=...) must be a dict such as {{'min': 16, 'max': 256}}, got {told!r}"
            )
        found[_CALLED.get(called, called)] = adapt(_CALLED.get(called, called), told)
    return found


def _check_schedule(name: str, steps: Any) -> None:
    parameter = name.partition(":")[0]
    _one_of("schedule", parameter, (*RULES, WINDOW))
    try:
        ordered = [(-math.inf, 0.0), *((float(at), float(value)) for at, value in steps)]
    except (TypeError, ValueError):
        ordered = []
    if not ordered or any(one[0] >= other[0] for one, other in itertools.pairwise(ordered)):
        raise SettingsError(f"schedule.{name} must be pairs (environment steps, value) in rising order, got {steps!r}")


def _check_signals(signals: Any) -> None:
    if isinstance(signals, str) or not isinstance(signals, Sequence):
        raise SettingsError(f"signals must be a list such as [ratio_ess], got {signals!r}")
    for signal in signals:
        _one_of("signals", signal, SIGNALS)


def _one_of(what: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise SettingsError(f"{what}: {_unknown(value, known)}")


def _unknown(value: Any, known: Sequence[str]) -> str:
    near = spelling.nearest(str(value), known, 1)
    return f"there is no {value!r}; " + (f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}")
