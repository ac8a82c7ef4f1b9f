"""The configuration of `tuner bench`."""

from collections.abc import Sequence
from dataclasses import dataclass

from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import Count, OneOf
from tuner.checking.features import InChecking
from tuner.checking.section_types import RunValues
from tuner.config.section_base import Named
from tuner.results.metric import METRICS


@dataclass(frozen=True, kw_only=True)
class BenchValues(RunValues):
    """Of `tuner bench`."""

    agents: Sequence[str] = setting(kind=Named("the name of an agent"))
    envs: Sequence[str] = setting(kind=Named("the name of an environment"))
    settings: Sequence[str] | None = setting(None, Named("settings as they are typed"))
    seeds: int = setting(kind=Count(1))
    metric: str = setting("mixed", OneOf(tuple(METRICS)))


PART = InChecking(trained={"bench": BenchValues})
