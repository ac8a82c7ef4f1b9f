"""Refusals of settings that contradict several objectives."""

from collections.abc import Sequence
from typing import Final

from tuner.checking.features import InChecking
from tuner.errors import UserError
from tuner.results.protocol import StudySettings

_INSTEAD: Final = {
    "pruner": "leave it out, and runs end that others are ahead of in all objectives, or choose pruner=none",
    "study.num_race_seeds": "leave it out",
    "study.baselines": "leave it out",
}


def _typed(settings: StudySettings, overrides: Sequence[str]) -> None:
    """Refuses what goes by one score only, where it was asked for; by default it is off."""
    if not settings.others:
        return
    for key, default in (("pruner", "none"), ("study.num_race_seeds", "0"), ("study.baselines", "default")):
        typed = [one for one in overrides if one.partition("=")[0] == key and one.partition("=")[2] != default]
        if typed:
            raise UserError(f"{typed[0]} goes by one score, and study.metric names several objectives; {_INSTEAD[key]}")


PART = InChecking(typed=_typed)
