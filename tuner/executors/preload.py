"""Imports of the fork server before it forks the first trial."""

import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from note_rl.support.xla_cache import xla_variables
from tuner.errors import UserError

Backend: TypeAlias = Literal["torch", "keras", "none"]

FIRST_OPTIMIZER = "note_rl.learners.pytorch.first_optimizer"
_FRAMEWORK: Mapping[str, tuple[str, ...]] = {"torch": ("torch",), "keras": ("tensorflow", "keras"), "none": ()}
_PRELOAD: Mapping[str, tuple[str, ...]] = {
    "torch": ("torch", FIRST_OPTIMIZER, "note_rl.agents.pytorch", "note_rl.optimizers.pytorch"),
    "keras": ("tensorflow", "keras", "note_rl.agents.keras", "note_rl.optimizers.keras"),
    "none": (),
}
_PRELOAD_ALWAYS = (
    "numpy",
    "gymnasium.envs.classic_control",
    "hydra.utils",
    "tuner.config.first_config",
    "note_rl",
    "tuner.runs.functions",
    "tuner.runs.training",
)


@dataclass(frozen=True)
class Preload:
    """A framework and other modules, all of which must start no threads and leave the GPUs alone.

    Attributes:
        backend: The framework, with what trains by it; "none" for none, None for nothing at all of ours.
        others: Further modules.

    Raises:
        UserError: The backend is unknown, or not installed.
    """

    backend: Backend | None = None
    others: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.backend is None:
            return
        if self.backend not in _FRAMEWORK:
            raise UserError(f"backend must be one of {', '.join(_FRAMEWORK)}, not {self.backend!r}")
        for module in _FRAMEWORK[self.backend]:
            if importlib.util.find_spec(module) is None:
                raise UserError(
                    f"backend={self.backend} needs {module}, which is not installed: "
                    f"pip install 'note-rl[{self.backend}]'"
                )

    @property
    def modules(self) -> tuple[str, ...]:
        """All modules, in the order of their import."""
        return (*_PRELOAD[self.backend], *_PRELOAD_ALWAYS, *self.others) if self.backend else tuple(self.others)

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that the framework needs, in the fork server and in its trials."""
        if self.backend != "keras":
            return {}
        return {"KERAS_BACKEND": "tensorflow", **xla_variables(os.environ)}
