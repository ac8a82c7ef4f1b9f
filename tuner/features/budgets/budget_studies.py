"""The studies that `study.budgets` stands for: one for each number of steps, each from the best of the one before.

Where a schedule ends with the budget, a short run is no beginning of a long one. So every budget has runs of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from omegaconf import DictConfig

from tuner.checking.features import InChecking
from tuner.checking.section_types import StudyConfig
from tuner.checking.step_counts import short_count
from tuner.commands.baselines import named_starts
from tuner.commands.preflight import check_command
from tuner.commands.study_from_config import define
from tuner.config.overrides import to_hydra
from tuner.features import parts
from tuner.results.records import EARLIER_STUDY
from tuner.runs.config_checks import resolve
from tuner.study.storage.store import KEEP_SETTINGS, KEEP_SPACE

_OWN_KEYS: Final = ("study.budgets", "study.name", "study.budget", "study.max_env_steps", "warm_start", "plan")


@dataclass(frozen=True)
class BudgetStudies:
    """The overrides for several budgets, and the studies made of them.

    Attributes:
        name: Common to all of them.
        steps: Of a run, of each study, the lowest first.
        settings: As they were typed for all together.
        folder: Where the folders of studies are.
        overrides: As typed, without those that differ from study to study.
        starts: Starting configurations of the first one, as typed.
        config_dir: The user's own folder of groups.
    """

    name: str
    steps: tuple[int, ...]
    settings: StudyConfig
    folder: Path
    overrides: tuple[str, ...]
    starts: tuple[str, ...]
    config_dir: str | Path | None = None

    @classmethod
    def of(cls, config: DictConfig, overrides: Sequence[str], config_dir: str | Path | None) -> "BudgetStudies":
        """The studies that a config describes.

        Raises:
            UserError: It cannot be.
        """
        resolved = resolve(config)
        settings = StudyConfig(**resolved["study"])
        for part in parts(InChecking):
            part.typed(settings, overrides)
        assert settings.budgets is not None
        rest = tuple(word for word in overrides if word.lstrip("+").partition("=")[0] not in _OWN_KEYS)
        single = config.copy()
        single.study.budgets = None
        name = settings.name or define(single, rest, config_dir).name
        starts = tuple(named_starts(resolved["warm_start"]))
        return cls(name, tuple(map(int, settings.budgets)), settings, Path(settings.folder), rest, starts, config_dir)

    def name_of(self, place: int) -> str:
        """The name of a study, by its place: `dqn-cartpole-torch-quick-10k`."""
        return f"{self.name}-{short_count(self.steps[place])}"

    def start_of(self, place: int) -> str:
        """Name under which a search begins with the best of the study before: `study:NAME-10k`."""
        return f"{EARLIER_STUDY}{self.name_of(place - 1)}"

    def typed(self, place: int, *, from_earlier: bool = True) -> list[str]:
        """Overrides for one of the studies alone. Time and steps in all are shared out evenly.

        Args:
            place: Of its budget.
            from_earlier: Whether it begins with the best of the study before; not while that is still to come.
        """
        bounds = []
        if self.settings.budget_s is not None:
            bounds.append(f"study.budget={self.settings.budget_s / len(self.steps):.1f}s")
        if self.settings.max_env_steps is not None:
            bounds.append(f"study.max_env_steps={self.settings.max_env_steps // len(self.steps)}")
        earlier = [self.start_of(place)] if place and from_earlier else []
        starts = earlier or [*self.starts]
        first = to_hydra(starts[0] if len(starts) == 1 else starts) if starts else "off"
        return [
            *self.overrides,
            "study.budgets=null",
            f"study.name={to_hydra(self.name_of(place))}",
            f"training.total_steps={self.steps[place]}",
            *bounds,
            f"warm_start={first}",
        ]

    def of_all(self, place: int, refusal: str) -> str:
        """The refusal of one study in words that can be typed for all together."""
        name = self.name_of(place)
        ways = {
            KEEP_SETTINGS: "type the settings that were begun with",
            KEEP_SPACE: "leave that out of the space",
            f"study.name={name}-2": f"study.name={self.name}-2",
        }
        for of_one, way in ways.items():
            refusal = refusal.replace(of_one, way)
        return refusal

    def composed(self, typed: Sequence[str]) -> DictConfig:
        """The checked config of one of the studies.

        Raises:
            UserError: It is refused.
        """
        return check_command("tune", typed, self.config_dir).config
