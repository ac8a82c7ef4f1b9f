"""What Optuna's trials say of our runs, as records."""

from pathlib import Path

import optuna
from optuna.trial import FrozenTrial, TrialState

from tuner.objective import AUC, Final
from tuner.records import RunRecord, Scalar
from tuner.trial.messages import JsonDict, Outcome

RUN_ATTRIBUTE = "run"
OUTCOME_ATTRIBUTE = "outcome"
ENDING_ATTRIBUTE = "ending"
ATTEMPTS_ATTRIBUTE = "attempts"


def read_records(study: optuna.Study, stage: str, folder: Path) -> tuple[RunRecord, ...]:
    """All runs of a stage that have been started, by number."""
    states = (TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
    return tuple(record_of(trial, stage, folder) for trial in study.get_trials(deepcopy=False, states=states))


_OUTCOMES = {TrialState.COMPLETE: Outcome.COMPLETE, TrialState.PRUNED: Outcome.PRUNED, TrialState.FAIL: Outcome.CRASHED}


def record_of(trial: FrozenTrial, stage: str, folder: Path) -> RunRecord:
    """What is shown of a run."""
    attributes = trial.user_attrs
    about: JsonDict = attributes.get(RUN_ATTRIBUTE, {})
    ending: JsonDict = attributes.get(ENDING_ATTRIBUTE, {})
    outcome = None
    if trial.state.is_finished():
        outcome = Outcome(attributes.get(OUTCOME_ATTRIBUTE, _OUTCOMES[trial.state]))
    curve = tuple((float(step), float(value)) for step, value in ending.get("curve", ()))
    complete = outcome is Outcome.COMPLETE and curve
    return RunRecord(
        number=trial.number,
        stage=stage,
        label=about.get("label", f"trial {trial.number}"),
        seed=about.get("seed", 0),
        params={path: _as_scalar(value) for path, value in about.get("values", {}).items()},
        outcome=outcome,
        value=trial.value if trial.state in (TrialState.COMPLETE, TrialState.PRUNED) else None,
        reason=ending.get("reason", ""),
        curve=curve,
        seconds=ending.get("seconds", 0.0),
        folder=str(folder / stage / str(trial.number)),
        scores={metric.name: metric(curve) for metric in (Final(), AUC())} if complete else {},
    )


def _as_scalar(value: object) -> Scalar:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
