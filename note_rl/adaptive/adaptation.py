"""Decides about hyperparameters at the end of a training phase, and changes them before the next one.

Nothing here touches the random numbers of training, and nothing changes within a phase: with mode "advise", with a gain
of 0 or as long as health is as wished, a run is the static one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from note_rl.adaptive.adapter import Adapter
from note_rl.adaptive.batch_coupling import BatchCoupling
from note_rl.adaptive.controller import Controller, DecisionResult
from note_rl.adaptive.decisions import Decision, DecisionLog
from note_rl.adaptive.health import Health
from note_rl.adaptive.hyperparameters import AttributeHyperparameter, Hyperparameter, Places, hyperparameters_of
from note_rl.adaptive.measurements import Measurements
from note_rl.adaptive.repeated_values import RepeatedSchedule
from note_rl.adaptive.running_means import RunningMean
from note_rl.adaptive.signals.gradient_noise import MeasuredNoise
from note_rl.adaptive.window import decide_trim
from note_rl.replay.experience import Clock
from note_rl.settings.adaptive import Adapt, Adaptive
from note_rl.settings.adaptive_rules import RULES, WINDOW
from note_rl.settings.signals import RegisteredSignal

_OF_THE_AGENT = {"clip", "tau", "gamma", "kl_coefficient"}  # parameters that are attributes of it


@dataclass
class Adaptation:
    """The adaptation of one trainer.

    Args:
        options: What was chosen.
        place: Where hyperparameters lie.
        measurements: By which is decided.
    """

    options: Adaptive
    place: Places
    measurements: Measurements
    log: DecisionLog = field(default_factory=DecisionLog)
    window_ess: RunningMean = field(default_factory=lambda: RunningMean(0.2))  # as adjust_window_size() smooths it
    _adapters: dict[str, Adapter] = field(default_factory=dict)
    _coupling: BatchCoupling = field(default_factory=BatchCoupling)
    _stored: dict[str, Any] = field(default_factory=dict)  # of a checkpoint, for controllers not made yet
    _scheduled: Mapping[str, float] = field(default_factory=dict)  # of the present phase
    _base: dict[str, float] = field(default_factory=dict)  # the same, by hyperparameter
    _to_remove: int = 0  # of the oldest transitions, before the next phase

    def __post_init__(self) -> None:
        """Knows what is to be repeated, if anything is."""
        self._repeated = RepeatedSchedule(self.options.schedule if self.options.mode != "off" else {})

    def _acts(self, how: Adapt) -> bool:
        return "control" == self.options.mode == (how.mode or "control")

    def bind(self) -> None:
        """Finds what is to be adapted, once the optimizers are known.

        Raises:
            SettingsError: It is not there, or cannot be changed.
        """
        if self.options.mode == "off" or self._adapters or self._repeated.hyperparameters:
            return
        self._repeated.bind(self.place)
        for name, how in self.options.adapters().items():
            self.adapt(name, how, self.options.signals_of(how))
        for signal in self.options.signals:
            self.measurements.measured(self.options.signal(signal))

    def adapt(
        self, name: str, how: Adapt, signals: Sequence[RegisteredSignal], warm_up: int | None = None
    ) -> list[str]:
        """Has a parameter adapted from now on, if it is not yet.

        Args:
            name: Of the parameter.
            how: It is adapted.
            signals: By which.
            warm_up: Measurements before the first decision; None: as chosen for all.

        Returns:
            The hyperparameters that its name stands for.
        """
        if name == WINDOW:  # which is no value, but something done to the pool
            return []
        hyperparameters = hyperparameters_of(name, self.place)
        for hyperparameter in hyperparameters:
            if hyperparameter.name not in self._adapters:
                measured = [self.measurements.measured(signal, how.smooth, warm_up) for signal in signals]
                controller = self._controller(name, how, hyperparameter)
                self._adapters[hyperparameter.name] = Adapter(hyperparameter, controller, measured, self._acts(how))
        by_noise = how.law != "cap" and any(signal.scales_with_batch for signal in signals)
        if name == "batch_size" and by_noise and self._acts(how) and self.options.gain:
            self._coupling.bind(self.place)
        return [hyperparameter.name for hyperparameter in hyperparameters]

    def _controller(self, name: str, how: Adapt, hyperparameter: Hyperparameter) -> Controller:
        """A new one, or as a checkpoint has it."""
        controller = Controller(name, how, self.options.gain, hyperparameter.default_gain, self.options.cooldown)
        if hyperparameter.name in self._stored:
            controller.take(self._stored[hyperparameter.name])
        return controller

    def attributes(self) -> list[str]:
        """Numbers of the agent that go into compiled code, beside those that have schedules."""
        adapted = {name for name, how in self.options.adapters().items() if self._may_change(how)}
        repeated = {name for name in self._repeated.parameters if name not in RULES and name != WINDOW}
        chosen = sorted(((adapted | self._repeated.parameters) & _OF_THE_AGENT) | repeated)
        hyperparameters = [hyperparameter for name in chosen for hyperparameter in hyperparameters_of(name, self.place)]
        hyperparameters += [adapter.hyperparameter for adapter in self._adapters.values() if adapter.moves]
        return sorted(
            {
                hyperparameter.attribute
                for hyperparameter in hyperparameters
                if isinstance(hyperparameter, AttributeHyperparameter) and hyperparameter.of_agent
            }
        )

    def _may_change(self, how: Adapt) -> bool:
        return self._acts(how) and (how.scale != 1.0 or 0.0 not in (how.gain, self.options.gain))

    def move_to(self, scheduled: Mapping[str, float], clock: Clock) -> dict[str, float]:
        """Before a phase: sets everything; returns the numbers that the learner takes.

        Args:
            scheduled: What the schedules tell it.
            clock: Now.
        """
        self.measurements.begin_phase()
        self._scheduled = scheduled
        used = {**self._repeated.values(scheduled, clock), **self._adapted_values()}
        if self._coupling.hyperparameters and "batch_size" in used:
            coupled = self._coupling.values(used, self._base["batch_size"], scheduled)
            used |= {name: value for name, value in coupled.items() if not self._goes_by_noise_itself(name)}
        if self._to_remove:
            used[WINDOW] = float(self._to_remove)
            self._to_remove = 0
        for_learner = dict(scheduled)
        for name, value in used.items():
            if name == WINDOW:
                experience: Any = self.place.experience
                experience.buffer.drop_oldest(int(value))
            else:
                self._hyperparameter(name).set(value, for_learner)
        self.log.use(clock.num_env_steps, used)
        return for_learner

    def _goes_by_noise_itself(self, name: str) -> bool:
        """Whether a number knows of a larger batch already, as what it is adapted by scales with the batch."""
        adapter = self._adapters.get(name)
        return adapter is not None and any(measured.signal.scales_with_batch for measured in adapter.signals)

    def _adapted_values(self) -> dict[str, float]:
        values = {}
        for name, adapter in self._adapters.items():
            if adapter.moves or name not in self._base:  # of others it is asked when something is decided
                self._find_base(name)
            if adapter.moves:
                values[name] = adapter.controller.value(self._base[name])
        return values

    def _find_base(self, name: str) -> None:
        """Notes the value that a number has without adaptation; refused if it begins out of bounds."""
        adapter = self._adapters[name]
        base = adapter.hyperparameter.base(self._scheduled)
        if name not in self._base:
            adapter.controller.check(base)
        self._base[name] = base

    def _hyperparameter(self, name: str) -> Hyperparameter:
        if name in self._adapters:
            return self._adapters[name].hyperparameter
        return self._repeated.hyperparameters.get(name) or self._coupling.hyperparameters[name]

    def end_of_phase(self, clock: Clock) -> None:
        """Decides, if anything was measured in this phase."""
        if not self.measurements.fresh:
            return
        self.measurements.end_phase()
        for name in self._adapters:
            self.decide(name, clock)
        trimming = self.options.adapters().get(WINDOW)
        if trimming is not None and self.options.gain:
            self._trim(trimming, clock)

    def decide(self, name: str, clock: Clock, target: float | None = None) -> None:
        """Decides about one number.

        Args:
            name: Of its hyperparameter.
            clock: Now.
            target: Of its signal, where the caller has one of his own.
        """
        adapter = self._adapters[name]
        if name not in self._base or not adapter.moves:
            self._find_base(name)
        if name == "batch_size":
            adapter.controller.most = getattr(self.place.experience, "num_transitions", math.inf)
        result, health = adapter.decide(self._base[name], self.place.experience, self.options.kappa, target)
        if name == "batch_size" and result.new != result.old:
            noises = [signal.scale_of(None) for signal in adapter.signals if isinstance(signal, MeasuredNoise)]
            self._coupling.noise = max(noises, default=math.nan)
        self._note(clock, name, adapter.acts, health, result)

    def _trim(self, how: Adapt, clock: Clock) -> None:
        decision = decide_trim(self.place.experience, how.scale)
        if decision is not None:
            self._to_remove = decision.number if self._acts(how) else 0
            self._note(clock, WINDOW, self._acts(how), decision.health, decision.result)

    def _note(self, clock: Clock, name: str, acts: bool, health: Health, result: DecisionResult) -> None:
        self.log.decisions.append(
            Decision(
                num_env_steps=clock.num_env_steps,
                num_gradient_steps=clock.num_gradient_steps,
                parameter=name,
                mode="control" if acts else "advise",
                signal=health.signal,
                value=health.value,
                q=health.ratio,
                **vars(result),
            )
        )

    def put_back(self) -> None:
        """Training is over for now: what belongs to the user is as it was."""
        self.measurements.forget()
        adapted = [adapter.hyperparameter for adapter in self._adapters.values()]
        for hyperparameter in [*self._repeated.hyperparameters.values(), *adapted]:
            hyperparameter.put_back()

    def logs(self) -> dict[str, float]:
        """The current adapted values and signals, for logging."""
        values = {f"adaptive/{name}": steps[-1][1] for name, steps in self.log.used.items()}
        return {**self.measurements.logs(), **values}

    def to_json(self) -> dict[str, Any]:
        """For checkpoints."""
        controllers = {name: adapter.controller.to_json() for name, adapter in self._adapters.items()}
        return {
            "log": self.log.to_json(),
            "controllers": {**self._stored, **controllers},
            "measurements": self.measurements.to_json(),
            "window_ess": self.window_ess.to_json(),
            "pending": [self._to_remove, self._coupling.noise],
        }

    def take(self, stored: Mapping[str, Any]) -> None:
        """Goes on from what to_json() gave; what is of adjusters not made yet waits for them."""
        self.log = DecisionLog()
        self.log.take(stored["log"])
        self._stored = dict(stored["controllers"])
        self.measurements.take(stored["measurements"])
        self.window_ess.take(stored["window_ess"])
        number, noise = stored["pending"]
        self._to_remove, self._coupling.noise = int(number), float(noise)
        for name, adapter in self._adapters.items():
            if name in self._stored:
                adapter.controller.take(self._stored[name])
