"""Sees from the trials of a study where its search has looked."""

from pathlib import Path

import optuna

from tuner.features.coverage.facts import COVERAGE, Coverage
from tuner.features.coverage.ranges import coverage
from tuner.results.records import SCREEN
from tuner.study.features import InStudy, Studies, first_stage
from tuner.study.storage.store import DEFINITION, WINNER


def _seen(study: optuna.Study, studies: Studies, folder: Path) -> dict[str, Coverage]:
    """Of a study that screens configurations by one score; sweeps are somebody's own plan."""
    del studies, folder
    definition = study.user_attrs[DEFINITION]
    if "metric" not in definition or definition.get("others") or first_stage(definition) != SCREEN:
        return {}
    found = coverage(study.get_trials(deepcopy=False), definition["space"], _number(study.user_attrs.get(WINNER)))
    return {} if found is None else {COVERAGE.key: found}


def _number(label: object) -> int | None:
    """Of the trial that has this label."""
    kind, _, number = str(label).partition(" ")
    return int(number) if kind == "trial" and number.isdecimal() else None


PART = InStudy(seen=_seen)
