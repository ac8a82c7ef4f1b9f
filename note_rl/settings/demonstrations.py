"""Demonstrations of an expert: observations and actions to learn from, in one file without pickle."""

import os
import zipfile
from dataclasses import dataclass

import numpy as np

from note_rl.errors import NoteRLError
from note_rl.types import Array


@dataclass(frozen=True, eq=False)
class Demonstrations:
    """N pairs of what an expert saw and did, in any order.

    Attributes:
        obs: [N, *obs]
        action: [N] int or [N, A] float
    """

    obs: Array
    action: Array

    def __post_init__(self) -> None:
        """Refuses pairs that are none."""
        object.__setattr__(self, "obs", np.asarray(self.obs))
        object.__setattr__(self, "action", np.asarray(self.action))
        if len(self.obs) != len(self.action) or len(self.obs) == 0:
            raise NoteRLError(
                f"demonstrations need one action per observation and at least one pair, got {len(self.obs)} "
                f"observations and {len(self.action)} actions"
            )

    def __len__(self) -> int:
        """N."""
        return len(self.obs)

    def sample(self, shape: tuple[int, int], rng: np.random.Generator) -> dict[str, Array]:
        """`expert_obs` and `expert_action`, [K, B, ...] each; a pair may occur twice."""
        index = rng.integers(len(self), size=shape)
        return {"expert_obs": self.obs[index], "expert_action": self.action[index]}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes an .npz file; the suffix is added where it is missing."""
        np.savez_compressed(path, obs=self.obs, action=self.action)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Demonstrations":
        """Reads what save() wrote.

        Raises:
            NoteRLError: There is no such file, or it holds something else.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                return cls(file["obs"], file["action"])
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise NoteRLError(f"cannot read demonstrations from {os.fspath(path)}: {error}") from error


Expert = Demonstrations | str | os.PathLike[str]


def as_demonstrations(expert: Expert) -> Demonstrations:
    """The demonstrations themselves, read from their file where a path is given."""
    return expert if isinstance(expert, Demonstrations) else Demonstrations.load(expert)
