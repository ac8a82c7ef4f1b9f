"""Choices about adaptation, each refusing nonsense."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from note_rl.errors import SettingsError
from note_rl.errors.wording import as_setting, out_of_range, within
from note_rl.settings.adaptive_rules import LAWS, RULES, WINDOW
from note_rl.settings.signals import RegisteredSignal, described, find
from note_rl.support import near_names
from note_rl.support.setting_fields import check_fields, documented, fields_of, given, named, setting
from note_rl.support.value_kinds import POSITIVE, SHARE_ABOVE_0, Count, Number

MODES = ("off", "advise", "control")
Signals = Sequence[str | RegisteredSignal]
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


@documented
@dataclass(frozen=True, kw_only=True)
class Adapt:
    """How one hyperparameter is adapted. What is left out is as `note_rl.settings.adaptive_rules` has it."""

    law: str | None = setting(
        None,
        manual=None,
        text="feed_forward: the scheduled value times a power of the ratio to the target. noise: the learning rate "
        "times ((1 + target) / (1 + noise))^gain. additive: the scheduled value plus rate * (ratio - 1). kl_step: a "
        "fixed factor up or down where KL has left its band, from the present value. cap: never more than a share of "
        "the effective sample size (batch_size). ess: the present value times scale * ratio, at once (batch_size). "
        "solve: the exponent that gives the wished effective size (alpha).",
    )
    gain: float | None = setting(
        None,
        Number(0.0),
        manual=None,
        text="Power of the ratio to the target, or of the fixed factor of kl_step; 0: the scheduled value.",
    )
    rate: float | None = setting(
        None,
        Number(),
        manual=None,
        text='Of the law "additive", which it implies: what is added to the scheduled value where the ratio is 2, and '
        "taken from it where the ratio is 0. It is in units of the parameter, and no share of it: 0.5 of a learning "
        "rate of 1e-3 means its bounds.",
    )
    scale: float = setting(1.0, POSITIVE, manual=None, text="Factor of the scheduled value.")
    min: float | None = setting(None, Number(), manual=None, text="Lower bound.")
    max: float | None = setting(None, Number(), manual=None, text="Upper bound.")
    min_factor: float | None = setting(
        None, POSITIVE, manual=None, text="Lower bound as a factor of the scheduled value."
    )
    max_factor: float | None = setting(
        None, POSITIVE, manual=None, text="Upper bound as a factor of the scheduled value."
    )
    slew: float | None = setting(None, Number(1.0), manual=None, text="Largest factor from one decision to the next.")
    align: int = setting(8, Count(), manual=None, text="Batch sizes are multiples of this.")
    smooth: float | None = setting(
        None, SHARE_ABOVE_0, manual=None, text="Weight of the newest measurement; None: that of all."
    )
    signals: Signals | None = setting(
        None, manual=None, text="By which of the signals, as in `Adaptive`; None: by all of them."
    )
    mode: str | None = setting(None, manual=None, text='"advise" or "off" for this one alone; None: that of all.')

    def __post_init__(self) -> None:
        """Refuses values out of range."""
        check_fields(self)
        for low, high in (("min", "max"), ("min_factor", "max_factor")):
            least, most = getattr(self, low), getattr(self, high)
            if least is not None and most is not None and least > most:
                raise SettingsError("{} is above {}", given(self, low), given(self, high))
        if self.law is None and self.rate is not None:
            object.__setattr__(self, "law", "additive")
        if self.law is not None:
            _one_of("law", self.law, LAWS)
        if self.law == "additive" and self.rate is None:
            raise SettingsError(
                "{} needs {}: by how much, where the ratio to the target differs from 1 by 1",
                given(self, "law"),
                named(Adapt, "rate"),
            )
        _check_list(self.signals or ())
        if str(self.mode) == "False":  # what YAML makes of a bare off
            object.__setattr__(self, "mode", "off")
        if self.mode is not None:
            _one_of("mode", self.mode, MODES)


@documented
@dataclass(frozen=True, kw_only=True)
class Adaptive:
    """Which hyperparameters are changed while training goes on, by which signals."""

    mode: str = setting(
        "control",
        manual=None,
        text="control: changed; advise: only noted what would be; off: nothing is measured.",
    )
    signals: Signals = setting(
        (),
        manual=None,
        text="What health is measured by. Of several, the worst counts. Names, such as priority_ess and weight_ess "
        "(effective sizes of priorities and importance weights), ratio_ess and kl (how far PPO's policy has moved "
        "from the one that collected) and gradient_noise (noise scale over batch size); or objects of your own, see "
        "`note_rl.adaptive.signals`.",
    )
    parameters: Mapping[str, Mapping[str, Any]] = setting(
        dict, manual=None, text="By name, how each is adapted: the arguments of `Adapt`."
    )
    targets: Mapping[str, float | str] = setting(
        dict,
        manual=None,
        text='By signal, what is wished: a number, or "auto": the median of the first `calibration` measurements.',
    )
    gain: float = setting(
        1.0, Number(0.0), manual=None, text="Multiplies the gains of all; 0: the static run, exactly."
    )
    period: int = setting(50, Count(), manual=None, text="Gradient steps between two measurements.")
    noise_period: int = setting(
        100, Count(), manual=None, text="The same of gradient noise, which costs more than the others together."
    )
    smooth: float = setting(0.2, SHARE_ABOVE_0, manual=None, text="Weight of the newest measurement in running means.")
    warm_up: int = setting(20, Count(), manual=None, text="Measurements before the first decision.")
    calibration: int = setting(20, Count(), manual=None, text='Measurements of an "auto" target.')
    cooldown: int = setting(
        0, Count(0), manual=None, text="Decisions after a change in which a parameter stays as it is."
    )
    kappa: float = setting(
        0.25,
        SHARE_ABOVE_0,
        manual=None,
        text='Largest batch as a share of the effective number of transitions in the pool (law "cap").',
    )
    schedule: Mapping[str, Sequence[Sequence[float]]] = setting(
        dict,
        manual=None,
        text="What is to be repeated of an earlier run, by parameter: pairs (environment steps, value from then on). "
        "Nothing is measured then. Beside the parameters that can be adapted, any number of the agent may stand here.",
    )

    def __post_init__(self) -> None:
        """Refuses values out of range and contradictions."""
        if str(self.mode) == "False":  # what YAML makes of a bare off
            object.__setattr__(self, "mode", "off")
        _one_of("mode", self.mode, MODES)
        _refuse_none(self)
        check_fields(self)
        for name in ("parameters", "targets", "schedule"):
            if not isinstance(getattr(self, name), Mapping):
                raise SettingsError(out_of_range(name, "map names to what is chosen for them", getattr(self, name)))
        _check_list(self.signals)
        for chosen in (*self.signals, *self.targets):
            self.signal(chosen)  # refuses unknown names
        for name, target in self.targets.items():
            if target != "auto":
                POSITIVE(f"targets.{name}", target)
        for name, how in self.adapters().items():
            self._check_signals_of(name, how)
        self._check_batch_signals()
        for name, steps in self.schedule.items():
            _check_schedule(name, steps)

    def adapters(self) -> dict[str, Adapt]:
        """How each parameter is adapted, by its name here; without those that are off."""
        adapted = {name: adapt(name, arguments or {}) for name, arguments in self.parameters.items()}
        return {name: how for name, how in adapted.items() if how.mode != "off"}

    def signal(self, chosen: str | RegisteredSignal) -> RegisteredSignal:
        """Returns the signal that a name stands for: one of the objects given here, or a registered one.

        Raises:
            SettingsError: There is none of that name.
        """
        if not isinstance(chosen, str):
            return chosen
        for one in self.signals:
            if not isinstance(one, str) and one.name == chosen:
                return one
        return find(chosen)

    def target(self, signal: RegisteredSignal) -> float | str:
        """The target value of a signal."""
        return self.targets.get(signal.name, signal.target)

    def signals_of(self, how: Adapt) -> tuple[RegisteredSignal, ...]:
        """Those that a parameter goes by."""
        return tuple(self.signal(chosen) for chosen in (self.signals if how.signals is None else how.signals))

    def all_signals(self) -> list[RegisteredSignal]:
        """Every signal that is measured, each once."""
        of_all = [self.signal(chosen) for chosen in self.signals]
        of_parameters = [signal for how in self.adapters().values() for signal in self.signals_of(how)]
        return list({signal.name: signal for signal in [*of_all, *of_parameters]}.values())

    def _check_signals_of(self, name: str, how: Adapt) -> None:
        """Refuses a parameter that goes by nothing, or by what its law cannot read."""
        signals = self.signals_of(how)
        if how.law == "kl_step" and signals and not any(signal.stands_for_kl for signal in signals):
            names = ", ".join(signal.name for signal in signals)
            rule = "{} goes by a KL divergence, which {} cannot be read as; add kl"
            raise SettingsError(within("parameters", name, rule, given(how, "law"), names))
        goes_by_the_pool = name in ("alpha", WINDOW) or how.law in ("cap", "solve")
        is_capped = name == "batch_size" and how.law is None  # by the effective sample size
        if not (signals or goes_by_the_pool or is_capped):
            raise SettingsError(within("parameters", name, "give it signals to go by. {}", described()))

    def _check_batch_signals(self) -> None:
        """Refuses that learning rate and batch size chase a signal which both of them change."""
        shared: dict[str, set[str]] = {}
        for name, how in self.adapters().items():
            for signal in self.signals_of(how):
                if signal.scales_with_batch:
                    shared.setdefault(signal.name, set()).add(name)
        for signal_name, names in shared.items():
            if {"learning_rate", "batch_size"} <= names:
                raise SettingsError(
                    f"learning_rate and batch_size both go by {signal_name}, which each of them changes; adapt one of "
                    "them by it (a larger batch takes the learning rate along), or give the other one signals of its "
                    "own"
                )


def adapt(name: str, arguments: Mapping[str, Any]) -> Adapt:
    """Returns how a parameter is adapted.

    Args:
        name: Of the parameter.
        arguments: Of `Adapt`.

    Raises:
        SettingsError: There is no such parameter, argument or value; the parameter is named.
    """
    _one_of("parameters", name, (*RULES, WINDOW))
    known = [argument.name for argument in fields(Adapt)]
    if not isinstance(arguments, Mapping):
        raise SettingsError(within("parameters", name, "{} is no dict of min, max, gain, ...", repr(arguments)))
    for key in arguments:
        if key not in known:
            raise SettingsError(within("parameters", name, _unknown(key, known)))
    try:
        how = Adapt(**arguments)
    except SettingsError as error:
        raise SettingsError(within("parameters", name, *error.args)) from error
    for law, only in (("cap", "batch_size"), ("ess", "batch_size"), ("solve", "alpha"), ("noise", "learning_rate")):
        if how.law == law and name != only:
            raise SettingsError(within("parameters", name, "{} is for {}", given(how, "law"), only))
    return how


def of_manual(arguments: Mapping[str, Any], method: str) -> dict[str, Adapt]:
    """The `*_params` of the manuals' methods, by our names; those that are None are left out.

    Args:
        arguments: By what stands before `_params`: batch, lr, ...
        method: Whose arguments these are, for messages.
    """
    adapted = {}
    for called, params in arguments.items():
        if params is None:
            continue
        if not isinstance(params, Mapping):
            raise SettingsError(
                f"{method}({called}_params=...) must be a dict such as {{'min': 16, 'max': 256}}, got {params!r}"
            )
        name = _CALLED.get(called, called)
        adapted[name] = adapt(name, params)
        for signal in adapted[name].signals or ():
            if isinstance(signal, str):
                find(signal)  # refuses unknown names, though the method has a signal of its own
    return adapted


def _refuse_none(settings: Adaptive) -> None:
    for one in fields_of(type(settings)):
        if one.kind is not None and getattr(settings, one.name) is None:
            one.kind(named(type(settings), one.name), None)


def _check_schedule(name: str, steps: Any) -> None:
    parameter = name.partition(":")[0]
    if parameter not in (*RULES, WINDOW) and not (parameter == name and name.isidentifier()):
        raise SettingsError("{}: {}", as_setting("schedule"), _unknown(parameter, (*RULES, WINDOW)))
    try:
        ordered = [(-math.inf, 0.0), *((float(at), float(value)) for at, value in steps)]
    except (TypeError, ValueError):
        ordered = []
    if not ordered or any(step[0] >= following[0] for step, following in itertools.pairwise(ordered)):
        rule = "be pairs (environment steps, value) in rising order"
        raise SettingsError(out_of_range(f"schedule.{name}", rule, steps))


def _check_list(signals: Any) -> None:
    if isinstance(signals, str) or not isinstance(signals, Sequence):
        raise SettingsError(out_of_range("signals", "be a list such as [ratio_ess]", signals))
    for signal in signals:
        if isinstance(signal, str):
            continue
        if isinstance(signal, type) or not isinstance(signal, RegisteredSignal):
            raise SettingsError(f"signals: {signal!r} is neither a name nor an object of `note_rl.adaptive.signals`")


def _one_of(what: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise SettingsError("{}: {}", as_setting(what), _unknown(value, known))


def _unknown(value: Any, known: Sequence[str]) -> str:
    near = near_names.nearest(str(value), known, 1)
    return f"there is no {value!r}; " + (f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}")
