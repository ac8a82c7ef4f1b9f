"""Refusals of settings that contradict a search over several budgets."""

import re
from collections.abc import Sequence
from typing import Final

from tuner.checking.features import InChecking
from tuner.checking.section_types import StudyConfig
from tuner.errors import UserError
from tuner.results.metric import TARGETS


def _several(overrides: Sequence[str]) -> list[str]:
    """Refuses one budget where several are listed, and times."""
    for word in overrides:
        key, _, value = word.partition("=")
        if key != "study.budgets":
            continue
        if re.search(_TIME, value):
            raise UserError(
                f"{word}: budgets are numbers of environment steps, such as [10k,30k,100k]. In a time, a faster "
                "machine takes more steps, so the same budget would be another one there; tuner tune ... plan=true "
                "says how many steps a second this one takes"
            )
        if re.fullmatch(_ONE, value):
            steps = value.strip("[]'\" ")
            raise UserError(
                f"{word} is one budget, and study.budgets compares several: type study.budgets=[{steps},...] with more "
                f"of them, such as [10k,30k,100k], or training.total_steps={steps} for one"
            )
    return list(overrides)


_TIME: Final = r"\d\s*(s|sec|m|min|h|hours?)\b(?<!\dm)"
_ONE: Final = r"\[?['\" ]*\d[\d._]*(e\d+)?[kKmM]?['\" ]*\]?"


def _typed(settings: StudyConfig, overrides: Sequence[str]) -> None:
    """Refuses what a study for each budget has no use for."""
    if settings.budgets is None:
        return
    for word in overrides:
        if word.partition("=")[0].lstrip("+") == "training.total_steps":
            raise UserError(f"{word} is one budget, and study.budgets lists several: leave it out")
    if settings.others:
        raise UserError("study.budgets compares budgets by one score, and study.metric lists more: name one of them")
    if settings.first_metric.startswith(tuple(kind.prefix for kind in TARGETS)):
        raise UserError(
            f"study.metric={settings.first_metric} goes by the length of the budget, so scores of several budgets "
            "cannot be compared: use mixed, final, auc or best with study.budgets"
        )
    if settings.search is not None:
        raise UserError(
            f"study.budgets compares whole runs, and {settings.search.name} has none: leave study={settings.size} out"
        )
    if settings.as_begun:
        raise UserError(
            "study.as_begun=true is for one study, and study.budgets makes several: leave it out, and type the "
            "settings that they were begun with, such as schedule=none"
        )


PART = InChecking(meant=_several, typed=_typed)
