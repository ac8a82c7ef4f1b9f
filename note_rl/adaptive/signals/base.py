"""Base of every signal: how it is read, how readings become one smoothed value, and that value health."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from note_rl.adaptive.health import Health, Target, skipped
from note_rl.adaptive.running_means import RunningMean
from note_rl.errors import SettingsError
from note_rl.learners.base import Learner
from note_rl.replay.experience import Experience
from note_rl.settings.signals import Need
from note_rl.types import FloatArray, Sample, Update

TINY = 1e-12
"""Stands for a value of 0 where something is divided by it."""


@dataclass(frozen=True)
class TrainingView:
    """The inputs of a signal, beside the update block at hand.

    Attributes:
        experience: What is trained from: its settings, and its current priorities.
        learner: Evaluates gradients.
        num_envs: Environments stepped together.
        clip: PPO's current range of clipping; None: there is none.
    """

    experience: Experience
    learner: Learner
    num_envs: int
    clip: Callable[[], float | None]

    def ratios_of_last_epoch(self, update: Update, signal: str) -> FloatArray:
        """Returns the ratios of new to old policy in the last pass over a rollout, [k, B].

        Args:
            update: In which the agent handed them over.
            signal: Which asks for them.

        Raises:
            SettingsError: The agent did not; what it has to call is named.
        """
        if update.ratio is None:
            raise SettingsError(
                f"the signal {signal} needs the ratios of new to old policy: call self.prioritized_replay.update(TD, "
                "ratio) in __call__"
            )
        settings = self.experience.settings
        if settings.target_kl is not None:  # then an update block is no more than an epoch
            return update.ratio
        num_minibatches = max(len(update.ratio) // settings.num_epochs, 1)
        return update.ratio[-num_minibatches:]


class RunningSignal(Protocol):
    """The running measurement of a signal with some smoothing.

    Attributes:
        signal: Which.
        target: The target value of the signal.
    """

    signal: "Signal"
    target: Target

    @property
    def value(self) -> float:
        """The smoothed value, for logging; nan: unknown."""

    def add(self, reading: Any) -> None:
        """Takes one more reading of the signal; one that is not finite is left out."""

    def health(self, batch_size: float, loss: int | None = None, target: float | None = None) -> Health:
        """The current value.

        Args:
            batch_size: Of the minibatches that the parameter in question is used with.
            loss: Which the parameter belongs to; None: all of them.
            target: Instead of its own.
        """

    def to_json(self) -> dict[str, Any]:
        """For checkpoints."""

    def take(self, stored: Any) -> None:
        """Goes on from what to_json() gave."""


class Signal:
    """Something that the health of training can be measured by. It keeps nothing itself.

    One of the three methods that give a reading is to be overridden. The others return None: nothing is read then.

    Attributes:
        name: In settings, checkpoints and logs.
        text: What it is, in one line for people.
        target: What is wished unless somebody says otherwise: a number above 0, or "auto": the median of its first
            values.
        needs: What it cannot be measured without.
        larger_is_better: Whether training does worse where the value is below its target; else, where it is above.
        scales_with_batch: Whether its value is another one as soon as the batch size is.
        reads_gradients: Whether it is measured by gradients of the agent's loss.
        stands_for_kl: Whether it can be read as a KL divergence, which law=kl_step goes by: kl_ratio() is a number.
    """

    name: str
    text: str
    target: float | str = "auto"
    needs: tuple[Need, ...] = ()
    larger_is_better: bool = True
    scales_with_batch: bool = False
    reads_gradients: bool = False
    stands_for_kl: bool = False

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), self.name))

    def before_update(self, sample: Sample, view: TrainingView) -> Any:
        """Reads what the parameters are like before they learn from minibatches; every `noise_period` gradient steps.

        Args:
            sample: The minibatches of an update block, [K, B, ...].
            view: Of everything else.
        """
        return None

    def after_update(self, sample: Sample, update: Update, view: TrainingView) -> Any:
        """Reads an update block that was learned from; every `period` gradient steps.

        Args:
            sample: Its minibatches, [K, B, ...].
            update: What it gave.
            view: Of everything else.
        """
        return None

    def after_phase(self, view: TrainingView) -> Any:
        """Reads what experience is like at the end of a training phase."""
        return None

    def beside(self, update: Update, view: TrainingView) -> Mapping[str, float]:
        """Returns numbers that are shown beside its value, and never decided by; whenever after_update() is called."""
        return {}

    def averaged(self, reading: float) -> float:
        """Returns a reading on the scale on which readings are averaged."""
        return reading

    def from_average(self, mean: float) -> float:
        """Returns the value that an average stands for; undoes averaged()."""
        return mean

    def ratio(self, value: float, target: float) -> float:
        """Returns health: 1 as wished, below 1 worse."""
        return value / target if self.larger_is_better else target / max(value, TINY)

    def kl_ratio(self, value: float, target: float) -> float:
        """Returns the same in terms of KL divergence; nan where it cannot be read as one."""
        return math.nan

    def begin(self, smooth: float, target: Target, warm_up: int) -> RunningSignal:
        """Returns a running measurement.

        Args:
            smooth: Weight of the newest reading.
            target: What is wished.
            warm_up: Readings before it counts.
        """
        return MeasuredMean(self, smooth, target, warm_up)


class MeasuredMean:
    """The running mean of a signal whose readings are numbers.

    Args:
        signal: Which.
        smooth: Weight of the newest reading.
        target: What is wished.
        warm_up: Readings before it counts.
    """

    def __init__(self, signal: Signal, smooth: float, target: Target, warm_up: int) -> None:
        self.signal = signal
        self.target = target
        self._mean = RunningMean(smooth)
        self._warm_up = warm_up

    def add(self, reading: float) -> None:
        """Takes one more reading."""
        if math.isfinite(reading):
            self._mean.add(self.signal.averaged(reading))
            self.target.add(self.value)

    @property
    def value(self) -> float:
        """Nan before the first reading."""
        return self.signal.from_average(self._mean.value) if self._mean.count else math.nan

    def health(self, batch_size: float, loss: int | None = None, target: float | None = None) -> Health:
        """Returns the current health, which depends neither on the batch size nor on the loss."""
        name, value = self.signal.name, self.value
        if target is None:
            target = self.target.value
        if self._mean.count < self._warm_up:
            reason = f"warm-up: {self._mean.count} of {self._warm_up} measurements"
            return skipped(name, reason, value, target or math.nan)
        if target is None:
            return skipped(name, "calibration of the target", value)
        return Health(name, value, target, self.signal.ratio(value, target), self.signal.kl_ratio(value, target))

    def to_json(self) -> dict[str, Any]:
        """For checkpoints."""
        return {"mean": self._mean.to_json(), "first": self.target.first}

    def take(self, stored: Any) -> None:
        """Goes on from what to_json() gave."""
        self._mean.take(stored["mean"])
        self.target.first = [float(value) for value in stored["first"]]
