"""Measures the health of training while it goes on, without touching its random numbers."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from note_rl.adaptive import ess
from note_rl.adaptive.signals import MeanSignal, NoiseSignal, Target
from note_rl.errors import SettingsError
from note_rl.learners.base import Learner
from note_rl.replay.experience import Experience
from note_rl.settings.adaptive import Adaptive
from note_rl.settings.experience import RolloutSettings, check_signal
from note_rl.types import FloatArray, Sample, Update

NOISE = "gradient_noise"
Signal = MeanSignal | NoiseSignal


_MOST_MINIBATCHES = (
    8  # of an update block, among which distinct transitions are looked for to measure the noise of gradients
)


@dataclass
class Measurements:
    """The running measurements of one trainer.

    Args:
        options: What was chosen.
        experience: Knows what is drawn how often.
        learner: Measures the noise of gradients.
        num_envs: Environments stepped together.
        clip: PPO's range of clipping by now; None: there is none.
    """

    options: Adaptive
    experience: Experience
    learner: Learner
    num_envs: int
    clip: Callable[[], float | None]
    last: tuple[Sample, Update] | None = None  # of the present phase
    fresh: bool = False  # whether anything was measured in this phase
    _signals: dict[tuple[str, float], Signal] = field(default_factory=dict)
    _clipped: float = math.nan  # effective share of clipped ratios: only to be looked at
    _since: int = 0  # gradient steps since the last measurement
    _since_noise: int = 0  # the same of the noise of gradients, which costs more than all others
    _stored: dict[str, Any] = field(default_factory=dict)  # of a checkpoint, for signals not begun yet

    def signal(self, name: str, smooth: float | None = None, warm_up: int | None = None) -> Signal:
        """The running measurement of a signal with some smoothing, begun when first asked for."""
        smooth = self.options.smooth if smooth is None else smooth
        key = (name, smooth)
        if key not in self._signals:
            check_signal(name, self.experience.settings)
            target = Target(self.options.target(name), self.options.calibration)
            warm_up = self.options.warm_up if warm_up is None else warm_up
            made: Signal = NoiseSignal(smooth, target) if name == NOISE else MeanSignal(name, smooth, target, warm_up)
            if _key(*key) in self._stored:
                made.take(self._stored[_key(*key)])
            self._signals[key] = made
        return self._signals[key]

    def _is_due(self) -> bool:
        chosen = self.options.mode != "off" and bool(self.options.parameters or self.options.signals)
        return chosen and self._since >= self.options.period

    def begin_phase(self) -> None:
        """Nothing is known of it yet."""
        self.last, self.fresh = None, False

    def before_update(self, sample: Sample) -> None:
        """Measures the noise of gradients with the parameters as they are, if it is time."""
        self._since += sample.num_gradient_steps
        self._since_noise += sample.num_gradient_steps
        noises = [one for one in self._signals.values() if isinstance(one, NoiseSignal)]
        if noises and self._is_due() and self._since_noise >= self.options.noise_period:
            self._since_noise = 0
            self._measure_noise(sample, noises)

    def after_update(self, sample: Sample, update: Update) -> None:
        """Measures what the update has told, if it is time."""
        self.last = (sample, update)
        if not self._is_due():
            return
        self._since, self.fresh = 0, True
        for signal in self._signals.values():
            if isinstance(signal, MeanSignal) and signal.name != "priority_ess":
                signal.add(self._reading(signal.name, sample, update))

    def end_phase(self) -> None:
        """Measures the priorities as they are now."""
        weights = self.experience.priorities()
        for signal in self._signals.values():
            if isinstance(signal, MeanSignal) and signal.name == "priority_ess" and weights is not None:
                signal.add(ess.of_weights(weights))

    def _measure_noise(self, sample: Sample, signals: Sequence[NoiseSignal]) -> None:
        rollout = isinstance(self.experience.settings, RolloutSettings)
        few = some_of(sample, slice(_MOST_MINIBATCHES))
        moments, size = self.learner.gradient_noise(few, self.num_envs if rollout else None)
        for signal in signals:
            signal.add(moments, size)

    def _reading(self, name: str, sample: Sample, update: Update) -> ess.WeightSums | float:
        """One measurement of an update block."""
        if name == "weight_ess":
            return ess.of_weights(sample.weights) if sample.weights is not None else math.nan
        if update.ratio is None:
            raise SettingsError(
                f"the signal {name} needs the ratios of new to old policy: call self.prioritized_replay.update(TD, "
                "ratio) in __call__"
            )
        last_epoch = update.ratio[-max(len(update.ratio) // self.experience.settings.num_epochs, 1) :]
        if name == "kl":
            return ess.kl_divergence(last_epoch)
        clip = self.clip()
        if clip is not None:
            self._clipped = ess.clipped_ratios(last_epoch, clip).fraction
        return ess.of_weights(last_epoch)

    def measure_noise(self, signal: NoiseSignal, num_minibatches: int) -> None:
        """Measures the noise of gradients in so many of the minibatches that were last learned from."""
        assert self.last is not None
        sample = self.last[0]
        for k in range(min(num_minibatches, sample.num_gradient_steps)):
            self._measure_noise(some_of(sample, slice(k, k + 1)), [signal])

    def measure_again(self, smooths: Iterable[float], name: str) -> None:
        """One measurement of a signal, with each of these weights, of what was last learned from."""
        weights = self.experience.priorities() if name == "priority_ess" else None
        for smooth in smooths:
            signal = self._signals.get((name, smooth))
            if isinstance(signal, MeanSignal) and self.last is not None:
                signal.add(ess.of_weights(weights) if weights is not None else self._reading(name, *self.last))

    def logs(self) -> dict[str, float]:
        """What is known by now."""
        readings = {
            f"adaptive/{name}": one.value if isinstance(one, MeanSignal) else one.scale_of(None)
            for (name, _), one in self._signals.items()
        }
        readings["adaptive/clipped_ratio_ess"] = self._clipped
        return {name: value for name, value in readings.items() if math.isfinite(value)}

    def to_json(self) -> dict[str, Any]:
        """For checkpoints."""
        signals = {_key(*key): one.to_json() for key, one in self._signals.items()}
        return {"signals": {**self._stored, **signals}, "since": [self._since, self._since_noise]}

    def take(self, stored: Mapping[str, Any]) -> None:
        """Goes on from what to_json() gave; what is of signals not begun yet waits for them."""
        self._stored = dict(stored["signals"])
        self._since, self._since_noise = map(int, stored["since"])
        for key, signal in self._signals.items():
            if _key(*key) in self._stored:
                signal.take(self._stored[_key(*key)])


def _key(name: str, smooth: float) -> str:
    return f"{name}/{smooth}"


def some_of(sample: Sample, steps: slice) -> Sample:
    """The minibatches of some gradient steps of an update block."""

    def cut(values: FloatArray | None) -> Any:
        return None if values is None else values[steps]

    arrays = {one.name: cut(getattr(sample, one.name)) for one in fields(Sample) if one.name != "extras"}
    return Sample(**arrays, extras={name: cut(values) for name, values in sample.extras.items()})
