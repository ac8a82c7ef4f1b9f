"""The decisions of adaptation and the values that follow from them, so that they can be looked at and repeated."""

import math
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from typing import Any

from note_rl.settings.adaptive_rules import WINDOW


@dataclass(frozen=True)
class Decision:
    """About one parameter, at the end of one training phase.

    Attributes:
        num_env_steps, num_gradient_steps: When.
        parameter: Its name; of several optimizers, with its number.
        mode: advise or control.
        signal: Which signal ruled.
        value: What it said.
        q: Ratio of that to its target: 1 as wished, below 1 worse. (So named in the files of earlier runs.)
        old, new: The parameter before and after; of `window`, transitions stored and kept.
        reason: Why: law, slew, bound, deadband, cooldown, in band, static, or why the signal does not count.
    """

    num_env_steps: int
    num_gradient_steps: int
    parameter: str
    mode: str
    signal: str
    value: float
    q: float
    old: float
    new: float
    reason: str

    def to_json(self) -> dict[str, Any]:
        """For files; what is not finite as null."""
        return {name: None if _is_not_finite(value) else value for name, value in asdict(self).items()}


def _is_not_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


class DecisionLog:
    """All decisions, and the values that were used, each from the environment step on at which it began."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.used: dict[str, list[tuple[int, float]]] = {}

    def use(self, num_env_steps: int, values: Mapping[str, float]) -> None:
        """These values hold from now on."""
        for name, value in values.items():
            steps = self.used.setdefault(name, [])
            if steps and steps[-1][0] == num_env_steps:
                steps.pop()
            if not steps or steps[-1][1] != value or name == WINDOW:  # which is done, not held
                steps.append((num_env_steps, value))

    def schedule(self) -> dict[str, list[list[float]]]:
        """The values as `Adaptive(schedule=...)` takes them."""
        return {name: [[at, value] for at, value in steps] for name, steps in self.used.items()}

    def to_json(self) -> dict[str, Any]:
        """For checkpoints."""
        return {"decisions": [list(astuple(decision)) for decision in self.decisions], "used": self.schedule()}

    def take(self, stored: Any) -> None:
        """Goes on from what to_json() gave."""
        self.decisions = [Decision(*values) for values in stored["decisions"]]
        self.used = {name: [(int(at), float(value)) for at, value in steps] for name, steps in stored["used"].items()}
