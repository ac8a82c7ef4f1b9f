"""Repeats the values that adaptation came to in an earlier run, without measuring anything."""

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from note_rl.adaptive.hyperparameters import Hyperparameter, Places, hyperparameters_of
from note_rl.errors import SettingsError
from note_rl.replay.experience import Clock
from note_rl.settings.adaptive_rules import WINDOW


@dataclass
class RepeatedSchedule:
    """The values of an earlier run.

    Args:
        steps: By hyperparameter, (environment steps, value from then on), rising.

    Attributes:
        hyperparameters: By name, where they lie here; the window is none of them.
    """

    steps: Mapping[str, Sequence[Sequence[float]]]
    hyperparameters: dict[str, Hyperparameter] = field(default_factory=dict)

    @property
    def parameters(self) -> set[str]:
        """Whose values these are, without the numbers of optimizers."""
        return {name.partition(":")[0] for name in self.steps}

    def bind(self, place: Places) -> None:
        """Finds the hyperparameters.

        Raises:
            SettingsError: One of them is not there.
        """
        for name in self.steps:
            if name != WINDOW:
                parameter = name.partition(":")[0]  # which stands for one hyperparameter per optimizer
                candidates = {candidate.name: candidate for candidate in hyperparameters_of(parameter, place)}
                if name not in candidates:
                    there_are = ", ".join(candidates) or "none"
                    raise SettingsError(f"schedule.{name} is to be repeated, but of {parameter} there are {there_are}")
                self.hyperparameters[name] = candidates[name]

    def values(self, scheduled: Mapping[str, float], clock: Clock) -> dict[str, float]:
        """Returns those that hold now.

        Args:
            scheduled: What the schedules tell the learner.
            clock: Now.
        """
        values = {}
        for name, steps in self.steps.items():
            number = bisect.bisect_right(steps, float(clock.num_env_steps), key=lambda step: step[0])
            if not number:
                continue
            since, value = steps[number - 1]
            if name != WINDOW:
                self.hyperparameters[name].base(scheduled)  # which takes note of what is to be put back
            elif since < clock.num_env_steps:  # it was trimmed once, then
                continue
            values[name] = float(value)
        return values
