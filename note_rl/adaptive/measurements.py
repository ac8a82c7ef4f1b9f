"""Measures the health of training while it goes on, without touching its random numbers."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from note_rl.adaptive.health import Target
from note_rl.adaptive.signals.base import RunningSignal, Signal, TrainingView
from note_rl.adaptive.signals.gradient_noise import some_of
from note_rl.errors import SettingsError
from note_rl.learners.base import Learner
from note_rl.replay.experience import Experience
from note_rl.settings.adaptive import Adaptive
from note_rl.settings.signals import RegisteredSignal, check_signal
from note_rl.types import Sample, Update


@dataclass
class Measurements:
    """The running measurements of one trainer.

    Args:
        options: What was chosen.
        experience: Knows what is drawn how often.
        learner: Measures the noise of gradients.
        num_envs: Environments stepped together.
        clip: PPO's current range of clipping; None: there is none.
    """

    options: Adaptive
    experience: Experience
    learner: Learner
    num_envs: int
    clip: Callable[[], float | None]
    last: tuple[Sample, Update] | None = None  # of the newest phase that had any
    has_learned: bool = False  # whether there was an update in this phase
    fresh: bool = False  # whether anything was measured in this phase
    _measured: dict[tuple[str, float], RunningSignal] = field(default_factory=dict)  # by name and weight of the newest
    _beside: dict[str, float] = field(default_factory=dict)  # only to be looked at
    _since: int = 0  # gradient steps since the last measurement
    _since_noise: int = 0  # the same of what is measured before updates, which costs more than all others
    _stored: dict[str, Any] = field(default_factory=dict)  # of a checkpoint, for signals not begun yet

    def __post_init__(self) -> None:
        """Shows signals what they may look at."""
        self._view = TrainingView(self.experience, self.learner, self.num_envs, self.clip)

    def measured(
        self, signal: RegisteredSignal, smooth: float | None = None, warm_up: int | None = None
    ) -> RunningSignal:
        """Returns the running measurement of a signal with some smoothing, begun when first asked for.

        Raises:
            SettingsError: It is no signal, or cannot be measured here.
        """
        smooth = self.options.smooth if smooth is None else smooth
        key = (signal.name, smooth)
        if key not in self._measured:
            self._measured[key] = self._begun(signal, smooth, self.options.warm_up if warm_up is None else warm_up)
        return self._measured[key]

    def _begun(self, signal: RegisteredSignal, smooth: float, warm_up: int) -> RunningSignal:
        if not isinstance(signal, Signal):
            raise SettingsError(f"signals: {signal!r} must inherit from note_rl.adaptive.signals.Signal")
        check_signal(signal, self.experience.settings)
        target = Target(self.options.target(signal), self.options.calibration)
        measured = signal.begin(smooth, target, warm_up)
        stored = self._stored.get(_stored_name(signal.name, smooth))
        if stored is not None:
            measured.take(stored)
        return measured

    def _by_signal(self) -> Iterator[tuple[Signal, list[RunningSignal]]]:
        """Each signal with all its measurements, so that it is read once for all of them."""
        grouped: dict[str, list[RunningSignal]] = {}
        for (name, _), measured in self._measured.items():
            grouped.setdefault(name, []).append(measured)
        for several in grouped.values():
            yield several[0].signal, several

    def _is_due(self) -> bool:
        chosen = self.options.mode != "off" and bool(self.options.parameters or self.options.signals)
        return chosen and self._since >= self.options.period

    def begin_phase(self) -> None:
        """Nothing is known of it yet."""
        self.has_learned = self.fresh = False

    def forget(self) -> None:
        """Lets go of what was learned from last, once training is over."""
        self.begin_phase()
        self.last = None

    def before_update(self, sample: Sample) -> None:
        """Measures what depends on the parameters as they are, if it is time."""
        self._since += sample.num_gradient_steps
        self._since_noise += sample.num_gradient_steps
        if not self._is_due() or self._since_noise < self.options.noise_period:
            return
        self._since_noise = 0
        for signal, several in self._by_signal():
            _add(several, signal.before_update(sample, self._view))

    def after_update(self, sample: Sample, update: Update) -> None:
        """Measures what the update has reported, if it is time."""
        self.last, self.has_learned = (sample, update), True
        if not self._is_due():
            return
        self._since, self.fresh = 0, True
        for signal, several in self._by_signal():
            _add(several, self._read_update(signal, sample, update))

    def end_phase(self) -> None:
        """Measures experience as it is now."""
        for signal, several in self._by_signal():
            _add(several, signal.after_phase(self._view))

    def _read_update(self, signal: Signal, sample: Sample, update: Update) -> Any:
        self._beside.update(signal.beside(update, self._view))
        return signal.after_update(sample, update, self._view)

    def measure_minibatches(self, measured: RunningSignal, num_minibatches: int) -> None:
        """Measures what depends on the parameters in a number of the minibatches that were last learned from."""
        assert self.last is not None
        sample = self.last[0]
        for k in range(min(num_minibatches, sample.num_gradient_steps)):
            _add([measured], measured.signal.before_update(some_of(sample, slice(k, k + 1)), self._view))

    def measure_again(self, signal: Signal, smooths: Iterable[float]) -> None:
        """Takes one reading of experience, or else of what was last learned from.

        Args:
            signal: Which is read.
            smooths: The weights of the newest reading by which it is measured.
        """
        if self.last is None:
            return
        reading = signal.after_phase(self._view)
        if reading is None:
            reading = self._read_update(signal, *self.last)
        keys = [(signal.name, smooth) for smooth in smooths]
        _add([self._measured[key] for key in keys if key in self._measured], reading)

    def logs(self) -> dict[str, float]:
        """The current readings."""
        values = {name: measured.value for (name, _), measured in self._measured.items()} | self._beside
        return {f"adaptive/{name}": value for name, value in values.items() if math.isfinite(value)}

    def to_json(self) -> dict[str, Any]:
        """For checkpoints."""
        signals = {_stored_name(*key): measured.to_json() for key, measured in self._measured.items()}
        return {"signals": {**self._stored, **signals}, "since": [self._since, self._since_noise]}

    def take(self, stored: Mapping[str, Any]) -> None:
        """Goes on from what to_json() gave; what is of signals not begun yet waits for them."""
        self._stored = dict(stored["signals"])
        self._since, self._since_noise = map(int, stored["since"])
        for key, measured in self._measured.items():
            if _stored_name(*key) in self._stored:
                measured.take(self._stored[_stored_name(*key)])


def _add(several: Iterable[RunningSignal], reading: Any) -> None:
    """Gives all of them a reading, if there is one."""
    if reading is not None:
        for measured in several:
            measured.add(reading)


def _stored_name(name: str, smooth: float) -> str:
    return f"{name}/{smooth}"
