"""Decides about hyperparameters at the end of a training phase, and changes them before the next one.

Nothing here touches the random numbers of training, and nothing changes within a phase: with mode "advise", with a gain
of 0 or as long as health is as wished, a run is the static one.
"""

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from note_rl.adaptive import ess
from note_rl.adaptive.adapter import Adapter
from note_rl.adaptive.controller import Controller, DecisionResult
from note_rl.adaptive.decisions import Decision, DecisionLog
from note_rl.adaptive.hyperparameters import (
    AttributeHyperparameter,
    Hyperparameter,
    OptimizerHyperparameter,
    Targets,
    hyperparameters_of,
)
from note_rl.adaptive.measurements import NOISE, Measurements
from note_rl.adaptive.signals import Health, NoiseSignal
from note_rl.adaptive.smoothing import RunningMean
from note_rl.adaptive.window import Trim, removable
from note_rl.learners.adjustable import LEARNING_RATE
from note_rl.replay.experience import Clock
from note_rl.settings.adaptive import Adapt, Adaptive
from note_rl.settings.adaptive_rules import WINDOW
from note_rl.settings.experience import ReplaySettings

_LOW = Trim().low


@dataclass
class Adaptation:
    """The adaptation of one trainer.

    Args:
        options: What was chosen.
        place: Where hyperparameters lie.
        measurements: By which is decided.
    """

    options: Adaptive
    place: Targets
    measurements: Measurements
    log: DecisionLog = field(default_factory=DecisionLog)
    window_ess: RunningMean = field(default_factory=lambda: RunningMean(0.2))  # as adjust_window_size() smooths it
    _adapters: dict[str, Adapter] = field(default_factory=dict)
    _replayed: dict[str, Hyperparameter] = field(default_factory=dict)
    _coupled: list[OptimizerHyperparameter] = field(default_factory=list)
    _stored: dict[str, Any] = field(default_factory=dict)  # of a checkpoint, for controllers not made yet
    _scheduled: Mapping[str, float] = field(default_factory=dict)  # of the present phase
    _base: dict[str, float] = field(default_factory=dict)  # the same, by hyperparameter
    _to_remove: int = 0  # of the oldest transitions, before the next phase
    _noise_at_change: float = math.nan  # scale of gradient noise when the batch last changed

    def _acts(self, how: Adapt) -> bool:
        return "control" == self.options.mode == (how.mode or "control")

    def bind(self) -> None:
        """Finds what is to be adapted, once the optimizers are known.

        Raises:
            SettingsError: It is not there, or cannot be changed.
        """
        if self.options.mode == "off" or self._adapters or self._replayed:
            return
        for name in self.options.schedule:
            if name != WINDOW:
                found = hyperparameters_of(name.partition(":")[0], self.place)
                self._replayed[name] = next(hyperparameter for hyperparameter in found if hyperparameter.name == name)
        for name, how in self.options.adapters().items():
            self.adapt(name, how, self.options.signals_of(how))
        for name in self.options.signals:
            self.measurements.signal(name)

    def adapt(self, name: str, how: Adapt, signals: Sequence[str], warm_up: int | None = None) -> list[str]:
        """Has a parameter adapted from now on, if it is not yet; returns the names of what its name stands for."""
        if name == WINDOW:
            return []
        hyperparameters = hyperparameters_of(name, self.place)
        for hyperparameter in hyperparameters:
            if hyperparameter.name not in self._adapters:
                controller = Controller(
                    name, how, self.options.gain, hyperparameter.default_gain, self.options.cooldown
                )
                if hyperparameter.name in self._stored:
                    controller.take(self._stored[hyperparameter.name])
                readings = [self.measurements.signal(one, how.smooth, warm_up) for one in signals]
                self._adapters[hyperparameter.name] = Adapter(hyperparameter, controller, readings, self._acts(how))
        if name == "batch_size" and how.law != "cap" and NOISE in signals and self._acts(how) and self.options.gain:
            self._coupled = [
                OptimizerHyperparameter(number, index, self.place.numbers)
                for index, told in enumerate(self.place.numbers())
                for number in (LEARNING_RATE, "beta2")
                if number in told.values
            ]
        return [hyperparameter.name for hyperparameter in hyperparameters]

    def attributes(self) -> list[str]:
        """Numbers of the agent that go into compiled code, beside those that have schedules."""
        told = [
            name
            for name, how in self.options.adapters().items()
            if self._acts(how) and (how.scale != 1.0 or 0.0 not in (how.gain, self.options.gain))
        ]
        replayed = [] if self.options.mode == "off" else [name.partition(":")[0] for name in self.options.schedule]
        chosen = sorted({*told, *replayed} & {"clip", "tau", "gamma", "kl_coefficient"})
        hyperparameters = [hyperparameter for name in chosen for hyperparameter in hyperparameters_of(name, self.place)]
        hyperparameters += [one.hyperparameter for one in self._adapters.values() if one.moves]
        return sorted(
            {
                hyperparameter.attribute
                for hyperparameter in hyperparameters
                if isinstance(hyperparameter, AttributeHyperparameter) and hyperparameter.of_agent
            }
        )

    def move_to(self, scheduled: Mapping[str, float], clock: Clock) -> dict[str, float]:
        """Before a phase: sets everything; returns what the learner must be told.

        Args:
            scheduled: What the schedules tell it.
            clock: Now.
        """
        self.measurements.begin_phase()
        self._scheduled = scheduled
        for_learner, used = dict(scheduled), self._replayed_values(scheduled, clock)
        for name, adapter in self._adapters.items():
            if adapter.moves or name not in self._base:  # of others it is asked when something is decided
                self._find_base(name)
            if adapter.moves:
                used[name] = adapter.controller.value(self._base[name])
        self._couple(used, scheduled)
        if self._to_remove:
            used[WINDOW] = float(self._to_remove)
            self._to_remove = 0
        for name, value in used.items():
            if name == WINDOW:
                experience: Any = self.place.experience
                experience.buffer.drop_oldest(int(value))
            else:
                self._knob(name).set(value, for_learner)
        self.log.use(clock.num_env_steps, used)
        return for_learner

    def _find_base(self, name: str) -> None:
        """What a number would be without adaptation; refused if it begins out of bounds."""
        adapter = self._adapters[name]
        base = adapter.hyperparameter.base(self._scheduled)
        if name not in self._base:
            adapter.controller.check(base)
        self._base[name] = base

    def _replayed_values(self, scheduled: Mapping[str, float], clock: Clock) -> dict[str, float]:
        used = {}
        for name, steps in self.options.schedule.items():
            begun = bisect.bisect_right(steps, float(clock.num_env_steps), key=lambda one: one[0])
            if not begun or (name == WINDOW and steps[begun - 1][0] < clock.num_env_steps):
                continue
            used[name] = float(steps[begun - 1][1])
            if name != WINDOW:
                self._replayed[name].base(scheduled)
        return used

    def _knob(self, name: str) -> Hyperparameter:
        if name in self._adapters:
            return self._adapters[name].hyperparameter
        return self._replayed.get(name) or next(
            hyperparameter for hyperparameter in self._coupled if hyperparameter.name == name
        )

    def _couple(self, used: dict[str, float], scheduled: Mapping[str, float]) -> None:
        """A larger batch takes the learning rate and the memory of the second moment along.

        The rate by (1 + noise/B_old) / (1 + noise/B_new), McCandlish et al. 2018, eq. 2.6; beta2 so that it forgets
        as many samples ago as before (Hilton et al. 2022, https://arxiv.org/abs/2110.00641).
        """
        if not self._coupled or "batch_size" not in used:
            return
        batch, base, noise = used["batch_size"], self._base["batch_size"], self._noise_at_change
        for hyperparameter in self._coupled:
            value = used.get(hyperparameter.name, hyperparameter.base(scheduled))
            if batch != base and hyperparameter.number == "beta2":
                value = math.pow(value, batch / base)
            elif batch != base and math.isfinite(noise):
                power = 0.5 if hyperparameter.default_gain is None else hyperparameter.default_gain
                value *= math.pow((1.0 + noise / base) / (1.0 + noise / batch), power)
            used[hyperparameter.name] = value

    def end_of_phase(self, clock: Clock) -> None:
        """Decides, if anything was measured in this phase."""
        if not self.measurements.fresh:
            return
        self.measurements.end_phase()
        for name in self._adapters:
            self.decide(name, clock)
        if WINDOW in self.options.adapters() and self.options.gain:
            self._trim(self.options.adapters()[WINDOW], clock)

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
        outcome, health = adapter.decide(self._base[name], self.place.experience, self.options.kappa, target)
        if name == "batch_size" and outcome.new != outcome.old:
            noises = [one.scale_of(None) for one in adapter.signals if isinstance(one, NoiseSignal)]
            self._noise_at_change = max(noises, default=math.nan)
        self._note(clock, name, adapter.acts, health, outcome)

    def _trim(self, how: Adapt, clock: Clock) -> None:
        weights, settings = self.place.experience.priorities(), self.place.experience.settings
        if weights is None or not isinstance(settings, ReplaySettings):
            return
        least = max(settings.learning_starts, 20 * settings.batch_size, settings.capacity // 2)
        number = int(removable(weights, Trim(keep_scale=how.scale, least=least)))
        fraction, size = ess.of_weights(weights).fraction, float(len(weights))
        self._to_remove = number if self._acts(how) else 0
        outcome = DecisionResult(size, size - number, "law" if number else "healthy, or kept at least")
        self._note(clock, WINDOW, self._acts(how), Health("priority_ess", fraction, _LOW, fraction / _LOW), outcome)

    def _note(self, clock: Clock, name: str, acts: bool, health: Health, outcome: DecisionResult) -> None:
        self.log.decisions.append(
            Decision(
                num_env_steps=clock.num_env_steps,
                num_gradient_steps=clock.num_gradient_steps,
                parameter=name,
                mode="control" if acts else "advise",
                signal=health.signal,
                value=health.value,
                q=health.q,
                **vars(outcome),
            )
        )

    def put_back(self) -> None:
        """Training is over for now: what belongs to the user is as it was."""
        self.measurements.begin_phase()
        for hyperparameter in [
            *self._replayed.values(),
            *(adapter.hyperparameter for adapter in self._adapters.values()),
        ]:
            hyperparameter.put_back()

    def logs(self) -> dict[str, float]:
        """Adapted values and signals by now, for those who look on."""
        values = {f"adaptive/{name}": steps[-1][1] for name, steps in self.log.used.items()}
        return {**self.measurements.logs(), **values}

    def to_json(self) -> dict[str, Any]:
        """For checkpoints."""
        controllers = {name: one.controller.to_json() for name, one in self._adapters.items()}
        return {
            "log": self.log.to_json(),
            "controllers": {**self._stored, **controllers},
            "measurements": self.measurements.to_json(),
            "window_ess": self.window_ess.to_json(),
            "pending": [self._to_remove, self._noise_at_change],
        }

    def take(self, stored: Mapping[str, Any]) -> None:
        """Goes on from what to_json() gave; what is of adjusters not made yet waits for them."""
        self.log = DecisionLog()
        self.log.take(stored["log"])
        self._stored = dict(stored["controllers"])
        self.measurements.take(stored["measurements"])
        self.window_ess.take(stored["window_ess"])
        remove, noise = stored["pending"]
        self._to_remove, self._noise_at_change = int(remove), float(noise)
        for name, adapter in self._adapters.items():
            if name in self._stored:
                adapter.controller.take(self._stored[name])
