"""Refusals of settings that contradict a search over several budgets."""

from collections.abc import Sequence

from tuner.checking.features import InChecking
from tuner.checking.section_types import StudyConfig
from tuner.errors import UserError
from tuner.results.metric import TARGETS


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
        raise UserError("study.as_begun=true is for one study, and study.budgets makes several: leave it out")


PART = InChecking(typed=_typed)
