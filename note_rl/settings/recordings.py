"""Recorded steps of another agent or person: to begin a replay pool with, or to learn from alone."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from note_rl.errors import SettingsError
from note_rl.errors.wording import Name, out_of_range
from note_rl.support.value_kinds import Described
from note_rl.types import Array, BoolArray, FloatArray, Steps


@dataclass(frozen=True, eq=False)
class RecordedSteps:
    """N steps of whole episodes, one behind the other, as one environment went through them.

    Attributes:
        obs: What was seen. [N, *obs]
        action: What was done, discrete actions counted from 0. [N] int or [N, A] float
        reward: What it got. [N]
        next_obs: What was seen next; the true last observation where an episode ended. [N, *obs]
        terminated: The task ended here; a time limit is not an end. [N] bool
        ended: The episode ended here, by the task or by a time limit. [N] bool
    """

    obs: Array
    action: Array
    reward: FloatArray
    next_obs: Array
    terminated: BoolArray
    ended: BoolArray

    def __post_init__(self) -> None:
        """Refuses what are no steps."""
        lengths = {one.name: len(getattr(self, one.name)) for one in fields(self)}
        if len(set(lengths.values())) > 1 or not len(self):
            raise SettingsError(f"a recording needs as many of each and one step at least, got {lengths}")
        if np.any(self.terminated & ~self.ended):
            raise SettingsError("a recording says of a step that the task ended, and not that the episode did")

    def __len__(self) -> int:
        """N."""
        return len(self.ended)

    def steps(self, num_envs: int = 1) -> Steps:
        """The same as E environments would have taken them side by side, [N // E, E].

        The recording is cut into E parts of the same length; up to E - 1 steps at its end are left out. Where a part
        ends counts as the end of an episode by a time limit: nothing is read on from there, and what was seen next is
        known.

        Raises:
            SettingsError: There are fewer steps than environments.
        """
        length = len(self) // num_envs
        if not length:
            raise SettingsError(f"a recording of {len(self)} steps cannot be laid out for {num_envs} environments")
        columns: dict[str, Any] = {}
        for one in fields(self):
            values = np.asarray(getattr(self, one.name))[: length * num_envs]
            columns[one.name] = values.reshape(num_envs, length, *values.shape[1:]).swapaxes(0, 1)
        columns["reward"] = columns["reward"].astype(np.float32)
        columns["ended"] = columns["ended"].copy()
        columns["ended"][-1] = True
        return Steps(**columns)


def _steps_or_dataset(name: Name, value: Any) -> RecordedSteps | str:
    if not isinstance(value, RecordedSteps) and not (isinstance(value, str) and value.strip()):
        rule = "be the id of a Minari data set or a RecordedSteps(...)"
        raise SettingsError(out_of_range(name, rule, value))
    return value


steps_or_dataset = Described("the id of a Minari data set, or RecordedSteps(...)", _steps_or_dataset)
