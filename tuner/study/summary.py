"""What a storage knows of a study, as the records that tables, verdict and page are made from."""

import math
import warnings
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.study import StudyDirection
from optuna.trial import TrialState

from tuner.errors import UserError
from tuner.objective import make_metric
from tuner.records import CONFIRM, SCREEN, STAGES, RunRecord, StudySummary
from tuner.study import store as attributes
from tuner.study.definition import DEFAULT_LABEL
from tuner.study.pruning import decisions_from_json, describe_decisions
from tuner.study.reading import RUN_ATTRIBUTE, read_records
from tuner.study.store import StudyStore
from tuner.trial.messages import JsonDict

MIN_TRIALS_FOR_IMPORTANCE = 10
"""With fewer complete trials the importances are noise."""


def summarise(store: StudyStore, name: str, folder: Path) -> StudySummary:
    """The summary of a study, finished or not.

    Args:
        store: Where it is kept.
        name: Of the study.
        folder: Where the folders of its runs are.

    Raises:
        UserError: There is no such study.
    """
    screen = store.require(name)
    if screen.directions != [StudyDirection.MAXIMIZE]:
        raise UserError(
            f"study {name} is a sweep that minimises or has several objectives, and a report takes higher for better; "
            "its results are in optimization_results.yaml, and `tuner dashboard` shows it"
        )
    facts: JsonDict = screen.user_attrs.get(attributes.FACTS, {})
    definition: JsonDict = screen.user_attrs[attributes.DEFINITION]
    settings: JsonDict = screen.user_attrs.get(attributes.SETTINGS, {})
    runs = list(read_records(screen, SCREEN, folder))
    for stage in STAGES[1:]:
        study = store.find(name, stage)
        runs += read_records(study, stage, folder) if study is not None else ()
    return StudySummary(
        name=name,
        metric_name=make_metric(definition["metric"]).label,
        env_id=definition["env"],
        agent=definition["agent"],
        backend=definition["backend"],
        runs=tuple(runs),
        winner_label=screen.user_attrs.get(attributes.WINNER),
        default_label=DEFAULT_LABEL,
        importances=_importances(screen, definition["space"]),
        notes=_notes(screen, definition, runs),
        versions=definition["versions"],
        retrain_command=str(facts.get("retrain", "")),
        seconds=float(screen.user_attrs.get(attributes.SECONDS, 0.0)),
        seed=definition["seed"],
        budget={
            "screening trials": settings.get("num_trials"),
            "configurations raced": settings.get("num_entrants"),
            "further seeds in the race": settings.get("num_race_seeds"),
            "candidates confirmed": settings.get("num_candidates"),
            "seeds per candidate": settings.get("num_select_seeds"),
            "test seeds": settings.get("num_test_seeds"),
            "environment steps per run": settings.get("total_steps"),
        },
    )


def _importances(study: optuna.Study, space: JsonDict) -> dict[str, float]:
    """Share of each parameter in what makes a trial good (PED-ANOVA), by config path; empty while trials are few."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    values = {trial.value for trial in complete}
    if len(complete) < MIN_TRIALS_FOR_IMPORTANCE or len(values) < 2:
        return {}
    evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=0.25)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    except UserWarning:  # so many ties that the best quarter is everything
        return {}
    return {space[name]["path"]: value for name, value in found.items() if name in space and math.isfinite(value)}


def _notes(study: optuna.Study, definition: JsonDict, runs: list[RunRecord]) -> tuple[str, ...]:
    notes = []
    if attributes.RUNGS in study.user_attrs:
        rungs = study.user_attrs[attributes.RUNGS]
        notes.append(describe_decisions(decisions_from_json(rungs["decisions"]), rungs["num_trials"]))
    elif any(run.stage == SCREEN and run.complete for run in runs):
        notes.append("Nothing was pruned: pruning is off, or has too few complete runs yet to judge early scores by.")
    if definition["warm_start"] == "default":
        notes.append("The search was started with the default configuration (warm_start=default): it is trial 0.")
    notes.append(
        "All screening trials share one seed. With several trials at a time the order of their ends, "
        "and so the search, is not exactly repeatable."
    )
    return tuple(notes)


@dataclass(frozen=True)
class Winner:
    """The configuration that a study chose.

    Attributes:
        label: "trial 7".
        values: Its searched values by config path.
        config: The whole run config.
    """

    label: str
    values: JsonDict
    config: JsonDict


def find_winner(store: StudyStore, name: str) -> Winner | None:
    """The winner of a study; None while there is none."""
    label = store.require(name).user_attrs.get(attributes.WINNER)
    confirmed = store.find(name, CONFIRM)
    for trial in confirmed.get_trials(deepcopy=False) if confirmed is not None else ():
        about: JsonDict = trial.user_attrs.get(RUN_ATTRIBUTE, {})
        if label is not None and about.get("label") == label:
            return Winner(label, about["values"], about["config"])
    return None
