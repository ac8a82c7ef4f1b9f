"""Trials that somebody has enqueued with plain Optuna: those that cannot be run are closed, and the study goes on."""

import logging

import optuna
from optuna.trial import TrialState

from tuner.study.optuna_internals import enqueued_params
from tuner.study.sampling.stored_values import why_not_drawn
from tuner.study.space.space import Space
from tuner.study.storage.trial_records import ENDING_ATTRIBUTE, OUTCOME_ATTRIBUTE, packed_curve
from tuner.trial.messages import Outcome

_log = logging.getLogger(__name__)


def admits(study: optuna.Study, trial: optuna.Trial, space: Space) -> bool:
    """Whether a trial can be run as it was enqueued; one that cannot is closed."""
    wrong = why_not_drawn(space, enqueued_params(study, trial))
    if wrong:
        close(study, trial, f"it was enqueued with {wrong}")
    return not wrong


def close(study: optuna.Study, trial: optuna.Trial, reason: str) -> None:
    """Ends a trial that was not begun, and says why."""
    trial.set_user_attr(OUTCOME_ATTRIBUTE, Outcome.CRASHED.value)
    trial.set_user_attr(ENDING_ATTRIBUTE, {"reason": reason, "seconds": 0.0, "curve": packed_curve(())})
    study.tell(trial, state=TrialState.FAIL)
    _log.warning("trial %d of study %s is not run: %s", trial.number, study.study_name, reason)
