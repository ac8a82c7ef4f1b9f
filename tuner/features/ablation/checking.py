"""The configuration of `tuner ablate`."""

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.checking.features import InChecking
from tuner.checking.schema import OF_A_STUDY, Part, Schema
from tuner.features.ablation.settings import AblationSettings


@dataclass(frozen=True)
class AblateValues(AblationSettings):
    """Of `tuner ablate`."""

    plan: bool = False
    trust: str | Sequence[str] | None = None


PART = InChecking(
    schemas={"ablate": Schema(AblateValues, OF_A_STUDY, {"executor": Part(), "tracker": Part(several=True)})}
)
