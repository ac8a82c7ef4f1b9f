"""Trials that somebody has enqueued with plain Optuna: those that cannot be run are closed, and the study goes on."""

import logging

import optuna
from optuna.trial import TrialState

from tuner.study.sampling.vetting import why_not_drawn
from tuner.study.space.space import Space
from tuner.study.storage.reading import ENDING_ATTRIBUTE, OUTCOME_ATTRIBUTE, packed_curve
from tuner.trial.messages import JsonDict, Outcome

_log = logging.getLogger(__name__)


def enqueued(study: optuna.Study, trial: optuna.Trial) -> JsonDict:
    """The parameters that a trial was enqueued with; none of one that was sampled."""
    fixed: JsonDict = study._storage.get_trial_system_attrs(trial._trial_id).get("fixed_params", {})
    return fixed


def admits(study: optuna.Study, trial: optuna.Trial, space: Space) -> bool:
    """Whether a trial can be run as it was enqueued; one that cannot is closed."""
    wrong = why_not_drawn(space, enqueued(study, trial))
    if wrong:
        close(study, trial, f"it was enqueued with {wrong}")
    return not wrong


def close(study: optuna.Study, trial: optuna.Trial, reason: str) -> None:
    """Ends a trial that was not begun, and says why."""
    trial.set_user_attr(OUTCOME_ATTRIBUTE, Outcome.CRASHED.value)
    trial.set_user_attr(ENDING_ATTRIBUTE, {"reason": reason, "seconds": 0.0, "curve": packed_curve(())})
    study.tell(trial, state=TrialState.FAIL)
    _log.warning("trial %d of study %s is not run: %s", trial.number, study.study_name, reason)
