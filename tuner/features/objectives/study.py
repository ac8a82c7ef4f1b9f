"""How a study of several objectives selects."""

from collections.abc import Callable, Mapping

import optuna

from tuner.features.objectives.facts import FRONT
from tuner.features.objectives.front_judge import FrontJudge, describe_kept
from tuner.features.objectives.front_selection import FrontSelection
from tuner.features.objectives.leads import NUM_AHEAD, rung_points
from tuner.features.objectives.pareto_front import Losses, front_of
from tuner.study.definition import StudyDefinition
from tuner.study.features import InStudy
from tuner.study.sweep.sweep_study import SWEEP_FOLDER, best_jobs


def _selection(definition: StudyDefinition) -> FrontSelection | None:
    return FrontSelection(definition.others, definition.settings.over_seeds) if definition.others else None


def _judge(definition: StudyDefinition, study: optuna.Study, note: Callable[[str], object]) -> FrontJudge | None:
    return FrontJudge(definition, study, note) if definition.others else None


def _used_where(definition: StudyDefinition) -> str:
    known = f"as measured in the first {definition.settings.pruning.min_trials} runs or later"
    ahead = f"for runs that {NUM_AHEAD} others are ahead of in all objectives by more than chance, {known}"
    return ahead if definition.others else ""


def _rungs(definition: StudyDefinition) -> tuple[int, ...]:
    return rung_points(definition.settings.pruning, definition.num_points) if definition.others else ()


def _best_jobs(losses: Mapping[int, Losses]) -> list[int]:
    return front_of(losses) if any(len(own) > 1 for own in losses.values()) else []


def _seen(study: optuna.Study, *where: object) -> dict[str, object]:
    """The front of a sweep, which keeps none."""
    del where
    if SWEEP_FOLDER not in study.user_attrs or len(study.directions) == 1:
        return {}
    return {FRONT.key: tuple(f"trial {job.number}" for job in best_jobs(study))}


PART = InStudy(
    selection=_selection,
    undecided={FRONT.key: []},
    judge=_judge,
    why_pruned=describe_kept,
    used_where=_used_where,
    rungs=_rungs,
    best_jobs=_best_jobs,
    seen=_seen,
)
