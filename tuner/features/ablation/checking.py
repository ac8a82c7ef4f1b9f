"""What `tuner ablate` is configured by."""

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.checking.features import InChecking
from tuner.checking.schema import OF_A_STUDY, Part, Schema
from tuner.features.ablation.settings import AblationSettings


@dataclass(frozen=True, kw_only=True)
class AblateValues:
    """Of `tuner ablate`; ranges are those of `AblationSettings`."""

    num_seeds: int = AblationSettings.num_seeds
    num_race_seeds: int = AblationSettings.num_race_seeds
    until: float | None = AblationSettings.until
    ranges: bool | str | Sequence[str] = False
    num_checks: int = AblationSettings.num_checks
    plan: bool = False
    trust: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Refuses what measures nothing."""
        self.settings()

    def settings(self) -> AblationSettings:
        """How large the ablation is."""
        typed = self.ranges
        ranges = typed if isinstance(typed, bool) else (typed,) if isinstance(typed, str) else tuple(typed)
        return AblationSettings(self.num_seeds, self.num_race_seeds, self.until, ranges, self.num_checks)


PART = InChecking(
    schemas={"ablate": Schema(AblateValues, OF_A_STUDY, {"executor": Part(), "tracker": Part(several=True)})}
)
