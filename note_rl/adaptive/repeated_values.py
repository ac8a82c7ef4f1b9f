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
        steps: By hyperparameter, (environment steps, value from then on), rising. `learning_rate` is that of every
            optimizer, `learning_rate:0` that of the first one; a name without a rule of adaptation is a number of the
            agent (`entropy_coef`).

    Attributes:
        hyperparameters: By name, where they lie here; the window is none of them.
    """

    steps: Mapping[str, Sequence[Sequence[float]]]
    hyperparameters: dict[str, Hyperparameter] = field(default_factory=dict)
    _meant: dict[str, list[str]] = field(default_factory=dict)  # the hyperparameters behind a name

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
            if name == WINDOW:
                continue
            parameter = name.partition(":")[0]  # which stands for one hyperparameter per optimizer
            candidates = {candidate.name: candidate for candidate in hyperparameters_of(parameter, place)}
            meant = list(candidates) if name == parameter else [name]
            if not meant or meant[-1] not in candidates:
                there_are = ", ".join(candidates) or "none"
                raise SettingsError(f"schedule.{name} is to be repeated, but of {parameter} there are {there_are}")
            self.hyperparameters.update({one: candidates[one] for one in meant})
            self._meant[name] = meant

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
            if name == WINDOW:
                if since == clock.num_env_steps:  # it was trimmed once, then
                    values[name] = float(value)
                continue
            for one in self._meant[name]:
                self.hyperparameters[one].base(scheduled)  # which takes note of what is to be put back
                values[one] = float(value)
        return values
