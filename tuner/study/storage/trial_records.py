"""Optuna's trials as records of our runs.

A trial's parameters are coordinates (`1-agent.gamma`), so it carries the values besides, as attributes under the names
of the command line (`agent.gamma`). Optuna keeps all attributes of all trials in memory: what is not for people is kept
short.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial, TrialState

from note_rl.support.garbage import no_garbage_collection
from tuner.errors import UserError
from tuner.results.metric import AUC, Final
from tuner.results.protocol import DEFAULT_BASELINE
from tuner.results.records import DESCENT, Descent, RunRecord, Scalar
from tuner.support.plain_text import MAX_REASON, plain
from tuner.trial.messages import OUTPUT_FILE, JsonDict, Outcome

RUN_ATTRIBUTE = "run"
OUTCOME_ATTRIBUTE = "outcome"
ENDING_ATTRIBUTE = "ending"
ATTEMPTS_ATTRIBUTE = "attempts"
PARTS_ATTRIBUTE = "environments"
"""Of a run with parts: what is known of each, by the name of its environment, in their order."""
TIMES = "times"
"""Of an ending, where an objective goes by it: seconds of training until each point of the curve."""
TIME_LIMIT = "time_limit"
"""Of the same ending: what runs that miss a value are scored by."""
LOGGED = "logged"
"""Of the same ending: the last values of the metrics that are kept, by name."""
START_ATTRIBUTE = "warm_start"
"""Of a screening trial: what the configuration is called that the search was started with."""

OWN_ATTRIBUTES = frozenset(
    {
        *(*DESCENT, RUN_ATTRIBUTE),
        *(OUTCOME_ATTRIBUTE, ENDING_ATTRIBUTE, ATTEMPTS_ATTRIBUTE, START_ATTRIBUTE, PARTS_ATTRIBUTE),
    }
)

JOB_FOLDER = "subdir"
"""Of a job of a sweep, among what is known of its run: its folder in that of the sweep."""


@no_garbage_collection()  # see `check_study`
def read_records(study: optuna.Study, stage: str, folder: Path, others: Sequence[str] = ()) -> tuple[RunRecord, ...]:
    """All runs of a stage that have been started, by number; arguments as of `record_of`.

    Raises:
        UserError: Somebody has removed one: Optuna numbers the trials of a study without a gap.
    """
    trials = study.get_trials(deepcopy=False)
    for expected, trial in enumerate(sorted(trials, key=lambda trial: trial.number)):
        if trial.number != expected:
            raise UserError(
                f"the storage holds no trial {expected} of {study.study_name}, and one of number {trial.number}: "
                "somebody has removed it. Put back a copy of the storage, or begin another study with another "
                "study.name or storage.url"
            )
    return tuple(record_of(trial, stage, folder, others) for trial in trials if trial.state is not TrialState.WAITING)


def default_trial(screen: optuna.Study) -> str | None:
    """Label of the screening trial that has the default configuration; None: the search was not started with it."""
    trials = screen.get_trials(deepcopy=False)
    found = (one for one in trials if one.user_attrs.get(START_ATTRIBUTE) == DEFAULT_BASELINE)
    return next((f"trial {one.number}" for one in found), None)


def carry_values(trial: optuna.Trial, values: JsonDict) -> None:
    """Writes values beside a trial's coordinates, but for one whose name would hide what we keep ourselves."""
    for path, value in values.items():
        if path not in OWN_ATTRIBUTES:
            trial.set_user_attr(path, value)


def carried_values(attributes: JsonDict) -> JsonDict:
    """The values of a trial by config path; those of later stages stand with its run."""
    known: JsonDict | None = attributes.get(RUN_ATTRIBUTE, {}).get("values")
    return {path: attributes[path] for path in attributes if path not in OWN_ATTRIBUTES} if known is None else known


def packed_curve(curve: Sequence[tuple[float, float]]) -> str:
    """A curve in a third of the memory that lists of numbers take."""
    return json.dumps([list(point) for point in curve], separators=(",", ":"))


def curve_of(ending: JsonDict) -> tuple[tuple[float, float], ...]:
    """The curve kept with a run's end; empty before that."""
    return _unpacked(ending.get("curve", "[]"))


def times_of(ending: JsonDict) -> tuple[tuple[float, float], ...]:
    """The seconds of training until each point of the curve, kept with a run's end where an objective goes by them."""
    return _unpacked(ending.get(TIMES, "[]"))


def time_limit_of(ending: JsonDict) -> float:
    """The time limit that the score at a run's end goes by; 0: none."""
    return float(ending.get(TIME_LIMIT, 0.0))


def logged_of(ending: JsonDict) -> dict[str, float]:
    """The last values of the metrics that are kept with a run's end."""
    return {str(name): float(value) for name, value in ending.get(LOGGED, {}).items()}


def _unpacked(curve: str) -> tuple[tuple[float, float], ...]:
    return tuple((float(step), float(value)) for step, value in json.loads(curve))


_OUTCOMES = {TrialState.COMPLETE: Outcome.COMPLETE, TrialState.PRUNED: Outcome.PRUNED, TrialState.FAIL: Outcome.CRASHED}


def record_of(trial: FrozenTrial, stage: str, folder: Path, others: Sequence[str] = ()) -> RunRecord:
    """The record of a run.

    Args:
        trial: Optuna's.
        stage: Its stage.
        folder: Of the study, or of the sweep.
        others: Names of the objectives behind the first one.
    """
    attributes = trial.user_attrs
    about: JsonDict = attributes.get(RUN_ATTRIBUTE, {})
    ending: JsonDict = attributes.get(ENDING_ATTRIBUTE, {})
    outcome = None
    if trial.state.is_finished():
        outcome = Outcome(attributes.get(OUTCOME_ATTRIBUTE, _OUTCOMES[trial.state]))
    curve = curve_of(ending)
    job: str | None = about.get(JOB_FOLDER)
    measured = outcome is Outcome.COMPLETE and curve and job is None  # steps of a job may be anything
    scores = {metric.name: metric(curve) for metric in (Final(), AUC())} if measured else {}
    values = trial.values if trial.state in (TrialState.COMPLETE, TrialState.PRUNED) and trial.values else []
    home = folder / stage / str(trial.number) if job is None else folder / job
    label = about.get("label", f"trial {trial.number}")
    return RunRecord(
        number=trial.number,
        stage=stage,
        label=label,
        seed=about.get("seed", 0),
        params={path: _as_scalar(value) for path, value in carried_values(attributes).items()},
        outcome=outcome,
        value=values[0] if values else None,
        reason=plain(str(ending.get("reason", "")), MAX_REASON, OUTPUT_FILE),  # a database may come from anybody
        curve=curve,
        times=times_of(ending),
        time_limit=time_limit_of(ending),
        seconds=ending.get("seconds", 0.0),
        used=ending.get("used"),
        host=str(ending.get("host", "")),
        descent=descent_of(attributes),
        folder=str(home),
        scores={**logged_of(ending), **scores, **dict(zip(others, values[1:], strict=False))},
        feasible=all(value <= 0.0 for value in trial.constraints.values()),
        parts=tuple(
            part_of(RunRecord(trial.number, stage, label, about.get("seed", 0), {}, None, None), name, known, home)
            for name, known in attributes.get(PARTS_ATTRIBUTE, {}).items()
        ),
    )


def part_of(whole: RunRecord, environment: str, known: JsonDict, folder: Path) -> RunRecord:
    """A part of a run, which is in one of its environments.

    Args:
        whole: The run that it is a part of.
        environment: Which.
        known: Its entries in the storage.
        folder: Of the whole.
    """
    outcome = known.get("outcome")
    return replace(
        whole,
        environment=environment,
        outcome=None if outcome is None else Outcome(outcome),
        value=known.get("value"),
        reason=plain(str(known.get("reason", "")), MAX_REASON, OUTPUT_FILE),
        curve=curve_of(known),
        seconds=known.get("seconds", 0.0),
        used=known.get("used"),
        host=str(known.get("host", "")),
        folder=str(folder / environment),
    )


def descent_of(attributes: JsonDict) -> Descent | None:
    """Where a trial stands in the tree of those that go on from one another; None: it begins from nothing."""
    member, place, parent = (attributes.get(name) for name in DESCENT)
    return Descent(member, place, parent) if isinstance(member, int) and isinstance(place, int) else None


def _as_scalar(value: object) -> Scalar:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
