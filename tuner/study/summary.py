"""The contents of a storage about a study, as the records that tables, verdict and page are made from."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import optuna
from optuna.study import StudyDirection

from tuner.features import parts
from tuner.results.features import InResults, all_facts, chosen
from tuner.results.insights.effort import used_share
from tuner.results.metric import make_metric, make_others
from tuner.results.number_format import counted, join_words
from tuner.results.protocol import DEFAULT_BASELINE
from tuner.results.records import (
    CONFIRM,
    LATER_STAGES,
    SCREEN,
    TEST,
    Importances,
    Objective,
    RunRecord,
    StudySummary,
)
from tuner.study.definition import default_in_test
from tuner.study.features import InStudy, first_stage, rescale_of, why_unpruned
from tuner.study.importance import PERMUTATIONS, importances, over_time
from tuner.study.sampling.pruning import decisions_from_json, describe_decisions
from tuner.study.schedule_text import Schedule
from tuner.study.score_checks import check_scores
from tuner.study.space.parameter_text import axis_kind, describe_values
from tuner.study.storage import store as attributes
from tuner.study.storage.homes import is_home
from tuner.study.storage.ownership import OWNER
from tuner.study.storage.store import NUM_SHARED, StudyStore, unlike_versions, versions_of
from tuner.study.storage.trial_records import RUN_ATTRIBUTE, START_ATTRIBUTE, default_trial, read_records
from tuner.study.sweep.job_registry import other_objectives
from tuner.study.sweep.sweep_study import RETURNED, SWEEP_FOLDER, best_jobs, home_of_sweep
from tuner.trial.messages import JsonDict

NOT_REPEATABLE = "Parallel trials end in an order that may differ next time, so the search is not exactly repeatable."


_DIGITS = 9
"""Of fractions of a budget that are the same point."""


def summarise(store: StudyStore, name: str, folder: Path, *, thorough: bool = False) -> StudySummary:
    """The summary of a study or a sweep, finished or not.

    Args:
        store: Where it is kept.
        name: Of the study.
        folder: Where the folders of its runs are; a sweep knows that itself.
        thorough: Whether it is also worked out what chance makes of importances, how these change over training, and
            which parameters act together; that takes some seconds.

    Raises:
        UserError: There is no such study.
    """
    screen = store.require(name)
    if SWEEP_FOLDER in screen.user_attrs:
        return _summarise_sweep(screen, store, folder, thorough)
    facts: JsonDict = screen.user_attrs.get(attributes.FACTS, {})
    definition: JsonDict = screen.user_attrs[attributes.DEFINITION]
    metric = make_metric(definition["metric"])
    others = make_others(definition.get("others", ()), definition["metric"])
    names = [other.name for other in others]
    stage = first_stage(definition)
    is_screened = stage == SCREEN
    runs = list(read_records(screen, stage, folder, names))
    for stage in LATER_STAGES:
        study = store.find(name, stage)
        runs += read_records(study, stage, folder, names) if study is not None else ()
    check_scores(runs, metric, others, rescale_of(screen))
    winner, started = screen.user_attrs.get(attributes.WINNER), default_trial(screen)
    tested = {run.label for run in runs if run.stage == TEST}
    unit = "".join(f", {said}" for part in parts(InStudy) if (said := part.unit(screen)))
    found = (
        Importances()  # values change while members train: no score belongs to one of them
        if not is_screened
        else importances(screen, definition["space"], permutations=PERMUTATIONS if thorough else 0)
    )
    summary = StudySummary(
        **_shared(screen),
        metric_name=f"{metric.label}{unit}",
        metric=metric.name,
        runs=tuple(runs),
        winner_label=winner,
        default_label=default_in_test(started, tested),
        importances=found.shares,
        importance_null=found.null,
        importance_over_time=over_time(screen, definition["space"], metric) if thorough and is_screened else (),
        notes=_notes(screen, definition, runs),
        retrain_command=str(facts.get("retrain", "")),
        default_command=str(facts.get("default", "")),
        others=others,
        baselines=tuple(screen.user_attrs.get(attributes.BASELINES, ())),
        starts=_starts(screen),
        random_score=screen.user_attrs.get(attributes.RANDOM_SCORE),
        seconds=float(screen.user_attrs.get(attributes.SECONDS, 0.0)),
        facts={
            **dict(_kept_facts(store, name)),
            **_seen(screen, store, folder),
            **(_worked_out(screen, definition["space"]) if thorough and is_screened else {}),
        },
    )
    # once chosen, it is the default under its own label, even if it was tested as another one before
    return replace(summary, default_label=started) if started in chosen(summary).labels else summary


def _kept_facts(store: StudyStore, name: str) -> Iterator[tuple[str, object]]:
    """The facts of features that the storage keeps."""
    for fact in all_facts():
        study = None if fact.stage is None else store.find(name, fact.stage)
        if study is not None and fact.key_kept in study.user_attrs:
            found = fact.read(study.user_attrs[fact.key_kept])
            if found != fact.default:
                yield fact.key, found


def _seen(study: optuna.Study, store: StudyStore, folder: Path) -> dict[str, object]:
    return {key: fact for part in parts(InStudy) for key, fact in part.seen(study, store, folder).items()}


def _worked_out(study: optuna.Study, space: JsonDict, maximised: bool = True) -> dict[str, object]:
    """The facts that features see in the trials; those that are nothing are left out."""
    found = [part.worked_out(study, space, maximised) for part in parts(InStudy)]
    return {key: fact for one in found for key, fact in one.items() if fact is not None}


def home_of(store: StudyStore, name: str, folder: Path) -> Path:
    """The folder of a study; of a sweep that which it began in."""
    return home_of_sweep(store.require(name), folder)


def recorded_home(store: StudyStore, name: str) -> Path | None:
    """The folder of a study as its controller has noted it, to be read; None where that was on another machine."""
    folder = store.require(name).user_attrs.get(OWNER, {}).get("folder")
    return Path(folder) if folder is not None and Path(folder).is_dir() else None


def home_to_read(store: StudyStore, name: str) -> Path:
    """The folder of a study to read from: the recorded one, else that of its name in the usual place."""
    return home_of(store, name, recorded_home(store, name) or Path("studies") / name)


def own_home(store: StudyStore, name: str, typed: Path) -> Path:
    """The folder to write to: the recorded one if that is known to be the study's, else the one that was typed."""
    mark = store.require(name).user_attrs.get(OWNER, {})
    recorded = recorded_home(store, name)
    if recorded is not None and recorded.name == name and is_home(recorded, mark):
        return recorded
    return typed


def _summarise_sweep(study: optuna.Study, store: StudyStore, folder: Path, thorough: bool) -> StudySummary:
    """A sweep has no stages: the winner is its best job, if it has one objective."""
    maximised, *others = (direction is StudyDirection.MAXIMIZE for direction in study.directions)
    names = other_objectives(study)
    best = best_jobs(study)
    space = study.user_attrs[attributes.DEFINITION]["space"]
    found = importances(study, space, maximised, PERMUTATIONS if thorough else 0)
    runs = read_records(study, SCREEN, Path(study.user_attrs[SWEEP_FOLDER]), names)
    started = [trial.datetime_start for trial in study.get_trials(deepcopy=False) if trial.datetime_start]
    ended = [trial.datetime_complete for trial in study.get_trials(deepcopy=False) if trial.datetime_complete]
    labels = {run.number: run.label for run in runs}
    facts: JsonDict = study.user_attrs.get(attributes.FACTS, {})
    return StudySummary(
        **_shared(study),
        metric_name=f"{facts.get(RETURNED, 'what a job returned')} ({'higher' if maximised else 'lower'} is better)",
        runs=runs,
        winner_label=labels[best[0].number] if best and not others else None,
        importances=found.shares,
        importance_null=found.null,
        facts={
            **dict(_kept_facts(store, study.study_name)),
            **_seen(study, store, folder),
            **(_worked_out(study, space, maximised) if thorough else {}),
        },
        notes=_order_note(study),
        seconds=(max(ended) - min(started)).total_seconds() if started and ended else 0.0,
        maximised=maximised,
        others=tuple(Objective(name, name, up) for name, up in zip(names, others, strict=True)),
        is_sweep=True,
    )


def _shared(study: optuna.Study) -> JsonDict:
    """Fields that describe both studies and sweeps."""
    definition: JsonDict = study.user_attrs[attributes.DEFINITION]
    settings: JsonDict = study.user_attrs.get(attributes.SETTINGS, {})
    facts: JsonDict = study.user_attrs.get(attributes.FACTS, {})
    known = {words: key for part in parts(InResults) for words, key in part.sizes.items()}
    sizes = {words: settings.get(key) for words, key in {**known, **_SIZES}.items()}
    space = sorted(definition["space"].values(), key=lambda one: str(one["path"]))
    return {
        "name": study.study_name,
        "env_id": definition["env"],
        "agent": definition["agent"],
        "backend": definition["backend"],
        "versions": versions_of(study),
        "seed": definition["seed"],
        "budget": {words: size for words, size in sizes.items() if size},
        "study_command": str(facts.get("command", "")),
        "space": {one["path"]: describe_values(one) for one in space},
        "scales": {one["path"]: axis_kind(one) for one in space},
        **{key: str(facts.get(key, "")) for key in ("sampler", "pruner", "code")},
    }


_SIZES = {
    "screening trials": "num_trials",
    "configurations raced": "num_entrants",
    "further seeds in the race": "num_race_seeds",
    "candidates confirmed": "num_candidates",
    "seeds per candidate": "num_select_seeds",
    "runs after screening, shared out by a model": NUM_SHARED,
    "test seeds": "num_test_seeds",
    "environment steps per run": "total_steps",
    "seconds in all": "budget_s",
    "environment steps in all": "max_env_steps",
}


def _notes(study: optuna.Study, definition: JsonDict, runs: list[RunRecord]) -> tuple[str, ...]:
    notes = []
    if first_stage(definition) != SCREEN:
        return (why_unpruned(definition), *_order_note(study))
    if attributes.RUNGS in study.user_attrs:
        rungs = study.user_attrs[attributes.RUNGS]
        notes.append(describe_decisions(decisions_from_json(rungs["decisions"]), rungs["num_trials"]))
    elif why := why_unpruned(definition) or next(filter(None, (one.why_pruned(study) for one in parts(InStudy))), ""):
        notes.append(why)
    else:
        complete = [run for run in runs if run.stage == SCREEN and run.complete]
        notes += _why_nothing_was_pruned(study, complete)
    starts = _starts(study)
    if starts:
        listed = join_words(f"{label} is {name}" for label, name in starts.items())
        alone = list(starts.values()) == [DEFAULT_BASELINE]
        known = f"the default configuration ({next(iter(starts))})" if alone else f"known configurations: {listed}"
        notes.append(f"The search was started with {known}.")
    notes.append("All screening trials share one seed.")
    notes += filter(None, [unlike_versions(study)])
    return (*notes, *_remarks(runs), *_unlike_reports(definition, runs), *_order_note(study))


def _unlike_reports(definition: JsonDict, runs: list[RunRecord]) -> list[str]:
    """That the runs of a function reported at different points, as a score depends on these."""
    if definition["backend"]:  # its runs are evaluated on a grid
        return []
    whole = [run for run in runs if run.complete and run.used is None]
    numbers = [len(run.curve) for run in whole]
    points = {tuple(round(step, _DIGITS) for step, _ in run.curve) for run in whole}
    if len(points) < 2:
        return []
    return [
        f"Complete runs reported at different points ({min(numbers)} to {max(numbers)} reports a run), and "
        f"study.metric={definition['metric']} depends on these points: let every run report at the same fractions."
    ]


def _remarks(runs: list[RunRecord]) -> list[str]:
    """Remarks of runs that used all of their budget: of a function that it returned another value than its score."""
    said = [run for run in runs if run.complete and run.reason and used_share(run) >= 1.0]
    if not said:
        return []
    first = said[0]
    kept = f"{counted(len(said), 'complete run')} said something at the end"
    return [f"{kept}, first {first.stage}/{first.number}: {first.reason}."]


def _why_nothing_was_pruned(study: optuna.Study, complete: list[RunRecord]) -> list[str]:
    """Either of two reasons, where it has not been decided yet at which rungs to prune."""
    if not complete:
        return []
    if not study.user_attrs.get(attributes.FACTS, {}).get("pruner"):
        return ["Nothing was pruned: pruning is off (pruner=none)."]
    needed = study.user_attrs[attributes.SETTINGS]["min_trials_to_prune"]
    number = sum(run.feasible for run in complete)  # others are no measure
    kind = "complete run" if number == len(complete) else "feasible complete run"
    few = f"{counted(number, kind)} {'is' if number == 1 else 'are'}"
    return [f"Nothing was pruned: {few} too few to judge early scores by, {needed} are needed."]


def _starts(study: optuna.Study) -> dict[str, str]:
    """Label of a screening trial -> the name of the configuration that the search was started with."""
    trials = study.get_trials(deepcopy=False)
    return {
        f"trial {one.number}": one.user_attrs[START_ATTRIBUTE] for one in trials if START_ATTRIBUTE in one.user_attrs
    }


def _order_note(study: optuna.Study) -> tuple[str, ...]:
    return (NOT_REPEATABLE,) if attributes.BY_CHANCE in study.user_attrs.get(attributes.FACTS, {}) else ()


@dataclass(frozen=True)
class Winner:
    """The configuration that a study chose.

    Attributes:
        label: "trial 7".
        values: Its searched values by config path.
        config: The whole run config.
        schedule: How some of the values change while training goes on: (environment steps, value from then on) by name.
    """

    label: str
    values: JsonDict
    config: JsonDict
    schedule: Schedule = field(default_factory=dict)


def find_winner(store: StudyStore, name: str, label: str | None = None) -> Winner | None:
    """The winner of a study, or the configuration with that label; None if there is none.

    Args:
        store: Where the study is kept.
        name: Of the study.
        label: Of a configuration that was confirmed; None: the winner.
    """
    label = label or store.require(name).user_attrs.get(attributes.WINNER)
    confirmed = store.find(name, CONFIRM)
    for trial in confirmed.get_trials(deepcopy=False) if confirmed is not None else ():
        about: JsonDict = trial.user_attrs.get(RUN_ATTRIBUTE, {})
        if label is not None and about.get("label") == label:
            return Winner(label, about["values"], about["config"], about.get("schedule", {}))
    return None
