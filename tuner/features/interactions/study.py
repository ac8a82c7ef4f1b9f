"""Works out the interactions of a study from its trials."""

import optuna

from tuner.features.interactions.facts import INTERACTIONS, Interactions
from tuner.features.interactions.pairs import interactions
from tuner.study.features import InStudy
from tuner.trial.messages import JsonDict


def _worked_out(study: optuna.Study, space: JsonDict, maximised: bool) -> dict[str, Interactions | None]:
    return {INTERACTIONS.key: interactions(study, space, maximised)}


PART = InStudy(worked_out=_worked_out)
