"""The studies of one storage: by name, with what is known of each beside its runs."""

import math
import platform
import shlex
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Literal

import optuna
from optuna.pruners import BasePruner, NopPruner
from optuna.samplers import BaseSampler, RandomSampler
from optuna.storages import BaseStorage, RDBStorage

from note_rl.support.formats import FORMAT
from tuner.config.composition import with_section_defaults
from tuner.config.paths import config_difference
from tuner.errors import UserError
from tuner.features import parts
from tuner.results.features import all_stages, stages_behind
from tuner.results.records import SCREEN, Objective
from tuner.study.definition import StudyDefinition
from tuner.study.features import InStudy
from tuner.study.optuna_internals import with_cache
from tuner.study.storage.open_storage import open_storage
from tuner.study.storage.presence import StorageFile
from tuner.study.storage.retries import RetryingStorage
from tuner.study.storage.soundness import check_study, readable
from tuner.support.close_at_exit import ClosedAtExit
from tuner.support.names import did_you_mean, some_of
from tuner.support.passwords import shown
from tuner.support.revision import code_revision
from tuner.trial.messages import JsonDict

DEFINITION = "definition"
SETTINGS = "settings"
NUM_SHARED = "num_shared_runs"
"""In these: runs behind screening that a model shares out."""
RANDOM_SCORE = "random_score"
RUNGS = "rungs"
WINNER = "winner"
BASELINES = "baselines"
SECONDS = "seconds"
CLOSED = "closed"
"""Of a study with a budget: the trials after which the rest was left to the later stages, and which budget that was."""
FACTS = "facts"
KEEP_SETTINGS = "go on with these with study.as_begun=true"
KEEP_SPACE = "go on without that with study.as_begun=true"
"""The ways on with a study that was begun with other settings, or with a smaller space."""
BY_CHANCE = "order"
"""Fact of a study in which several trials ran at a time, in processes: which of them ends first is chance."""

_VERSIONED = ("note-rl", "optuna", "numpy", "gymnasium", "torch", "tensorflow", "keras")
_BACKEND_PACKAGES = {"torch": {"torch"}, "keras": {"tensorflow", "keras"}}


class StudyStore(ClosedAtExit):
    """Access to the studies of a storage. Study NAME has its later stages in studies NAME/confirm and NAME/test.

    Attributes:
        url: Of the storage, as it may be shown.
        file: Behind it, if there is one.
    """

    def __init__(self, url: str, log: Callable[[str], None] = lambda message: None) -> None:
        self.url = shown(url)
        self._storage: BaseStorage = open_storage(url, log)
        self.file = StorageFile(url, self._storage)
        self._cached = with_cache(self._storage)
        self._sound: set[str] = set()

    def close(self) -> None:
        """Closes connections; the store cannot be used any more."""
        if isinstance(self._storage, RetryingStorage):
            self._storage.connections.close()
        self._storage.remove_session()
        if isinstance(self._storage, RDBStorage):
            self._storage.engine.dispose()

    @property
    def is_waiting(self) -> bool:
        """Whether an answer of the database is waited for at this moment."""
        return isinstance(self._storage, RetryingStorage) and self._storage.connections.is_waiting

    def give_up(self) -> bool:
        """Waits no longer for that answer, nor for any other. Returns whether the call ends by itself now."""
        return isinstance(self._storage, RetryingStorage) and self._storage.connections.give_up()

    def names(self) -> list[str]:
        """Names of all studies of ours, the one with the latest activity first."""
        with readable(self.url):
            summaries = optuna.get_all_study_summaries(storage=self._storage)
        latest = {one.study_name: 0.0 for one in summaries if DEFINITION in one.user_attrs}
        for summary in summaries:
            name = study_of_stage(summary.study_name) or summary.study_name
            if name in latest and summary.datetime_start is not None:
                latest[name] = max(latest[name], summary.datetime_start.timestamp())
        return sorted(latest, key=lambda name: (-latest[name], name))

    def others(self) -> list[str]:
        """Names of the studies that other programs have made."""
        ours = set(self.names())
        with readable(self.url):
            names = optuna.get_all_study_names(self._storage)
        return [name for name in names if name not in ours and study_of_stage(name) not in ours]

    def none_yet(self) -> UserError:
        """The error for a storage without a study of ours."""
        others = self.others()
        if not others:
            return UserError(f"there is no study in {self.url} yet: run `tuner tune` first")
        return UserError(
            f"no study in {self.url} was made by tuner{some_of(others)}: `{_to_import(others[0], self.url)}` makes a "
            "copy that tuner reads"
        )

    def open(
        self,
        name: str,
        stage: str,
        sampler: BaseSampler | None = None,
        pruner: BasePruner | None = None,
        directions: Sequence[Literal["minimize", "maximize"]] = ("maximize",),
    ) -> optuna.Study:
        """The Optuna study of a stage, made where there is none."""
        with readable(self.url):
            study = optuna.create_study(
                storage=self._cached,
                study_name=study_name(name, stage),
                sampler=sampler or RandomSampler(),
                pruner=pruner or NopPruner(),
                directions=directions,
                load_if_exists=True,
            )
        self._check(study)
        return study

    def find(self, name: str, stage: str = SCREEN) -> optuna.Study | None:
        """The Optuna study of a stage, or None."""
        full_name = study_name(name, stage)
        if not self._has(full_name):
            return None
        with readable(self.url):
            study = optuna.load_study(
                study_name=full_name, storage=self._cached, sampler=RandomSampler(), pruner=NopPruner()
            )
        self._check(study)
        return study

    def _has(self, full_name: str) -> bool:
        """Whether there is such a study of Optuna's: names are not listed, as Optuna copies all studies for that."""
        with readable(self.url):
            try:
                self._storage.get_study_id_from_name(full_name)
            except KeyError:
                return False
            return True

    def _check(self, study: optuna.Study) -> None:
        """Sees once to it that a study is sound, if it is one of ours."""
        if study.study_name not in self._sound and self._is_ours(study):
            check_study(study, self.url)
            self._sound.add(study.study_name)

    def _is_ours(self, study: optuna.Study) -> bool:
        begun = study_of_stage(study.study_name)
        with readable(self.url):
            if begun is None or DEFINITION in study.user_attrs:
                return DEFINITION in study.user_attrs
            if not self._has(begun):
                return False
            return DEFINITION in optuna.load_study(study_name=begun, storage=self._cached).user_attrs

    def require(self, name: str) -> optuna.Study:
        """The screening study of that name.

        Raises:
            UserError: There is none, or it was not made by us.
        """
        study = self.find(name)
        if study is None:
            raise UserError(f"there is no study {name} in {self.url}{did_you_mean(name, self.names())}")
        if DEFINITION not in study.user_attrs:
            raise UserError(
                f"the study {name} in {self.url} was not made by tuner: `{_to_import(name, self.url)}` makes a copy "
                "that tuner reads"
            )
        return study

    def delete(self, name: str) -> None:
        """Removes a study of one stage, with its trials."""
        with readable(self.url):
            optuna.delete_study(study_name=name, storage=self._cached)

    def keep_fact(self, name: str, key: str, value: str) -> None:
        """Keeps something with a study that is not about its search, such as a command line."""
        study = self.require(name)
        study.set_user_attr(FACTS, {**study.user_attrs.get(FACTS, {}), key: value})


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Holds back Optuna's remarks that a part of it is experimental: it was chosen in a configuration file of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


def _to_import(name: str, url: str) -> str:
    return shlex.join(["tuner", "import", "study", f"storage={url}", f"name={name}"])


def study_of_stage(full_name: str) -> str | None:
    """The study that a stage of this name would be of; None: it is no name of a stage."""
    name, _, stage = full_name.rpartition("/")
    return name if name and "/" not in name and stage in (*all_stages(), *stages_behind()) else None


def study_name(name: str, stage: str) -> str:
    """Optuna's name for a stage: screening bears the study's own."""
    return name if stage == SCREEN else f"{name}/{stage}"


def check_continues(study: optuna.Study, definition: StudyDefinition, url: str) -> None:
    """Sees to it that a study can go on as it began; writes nothing.

    Raises:
        UserError: As `begin_or_continue`.
    """
    if not _is_new(study):
        _check_continues(_check_ours(study, url), definition)


def _is_new(study: optuna.Study) -> bool:
    return DEFINITION not in study.user_attrs and not study.get_trials(deepcopy=False)


def _check_ours(study: optuna.Study, url: str) -> JsonDict:
    definition: JsonDict | None = study.user_attrs.get(DEFINITION)
    if definition is None:
        raise UserError(
            f"the study {study.study_name} in {url} was not made by tuner: "
            "choose another name (study.name=...) or storage.url"
        )
    return definition


def describe(definition: StudyDefinition) -> JsonDict:
    """Properties that a study must not change while it goes on."""
    return {
        "format": FORMAT,
        "fingerprint": definition.space.fingerprint,
        "space": definition.space.describe(),
        "metric": definition.settings.first_metric,
        "others": list(definition.settings.others),
        "over_seeds": definition.settings.over_seeds,
        "seed": definition.seed,
        "agent": definition.agent,
        "env": definition.env_id,
        "backend": definition.backend,
        "config": definition.judged_config(),
        "warm_start": list(definition.warm_start),
        "versions": versions(definition.backend),
        **{key: about for part in parts(InStudy) for key, about in part.described(definition).items()},
    }


def begin_or_continue(study: optuna.Study, definition: StudyDefinition, url: str) -> bool:
    """Writes down what a new study is, or sees to it that an old one goes on as it began.

    Returns:
        Whether the study is new.

    Raises:
        UserError: It was begun with another space, configuration, seed or metric; says with which.
    """
    check_continues(study, definition, url)
    new = _is_new(study)
    if new:
        described = describe(definition)
        for key in (
            "fingerprint",
            "metric",
            "agent",
            "env",
            "backend",
            "versions",
        ):  # for readers such as the dashboard
            study.set_user_attr(key, described[key])
        study.set_user_attr(DEFINITION, described)
    study.set_user_attr(SETTINGS, settings_to_json(definition))
    for key, settings in definition.features.items():
        study.set_user_attr(key, settings)
    revision = code_revision(Path())
    facts = {**definition.facts, **({} if revision is None else {"code": revision})}
    before = study.user_attrs.get(FACTS, {})
    study.set_user_attr(FACTS, {**before, **facts, **{key: _followed(before, facts, key) for key in _MAY_CHANGE}})
    return new


def keep_versions(study: optuna.Study, backend: str) -> None:
    """Writes down the present versions of packages where runs of a study have had others."""
    known, now = versions_of(study), versions(backend)
    later = {
        f"{_VERSION}{package}": _THEN.join(filter(None, (known.get(package), version)))
        for package, version in now.items()
        if version not in known.get(package, "").split(_THEN)
    }
    if later:
        study.set_user_attr(FACTS, {**study.user_attrs.get(FACTS, {}), **later})


def versions_of(study: optuna.Study) -> dict[str, str]:
    """By package, the version that runs of a study had, and those of later sessions where they differ."""
    kept: JsonDict = study.user_attrs.get(FACTS, {})
    later = {key.removeprefix(_VERSION): str(told) for key, told in kept.items() if key.startswith(_VERSION)}
    return {**study.user_attrs[DEFINITION]["versions"], **later}


def unlike_versions(study: optuna.Study) -> str:
    """That its runs had several versions of a package, as scores may depend on these; empty if they had not."""
    several = [f"{package} {one}" for package, one in versions_of(study).items() if _THEN in one]
    return f"Runs of this study had several versions: {', '.join(several)}." if several else ""


def name_objectives(study: optuna.Study, others: Sequence[Objective]) -> None:
    """Tells readers such as the dashboard what a study is judged by, unless that is stored already."""
    if study.metric_names is None:
        with quiet_optuna():
            study.set_metric_names(["score", *(other.name for other in others)])


_MAY_CHANGE = ("sampler", "pruner", "code")
_VERSION = "version of "
_THEN = "; then "


def _followed(before: JsonDict, now: JsonDict, key: str) -> str:
    """The former and the present value, where they differ: `RandomSampler; then TPESampler`."""
    former, present = str(before.get(key, "")), str(now.get(key, ""))
    same = not present or former.rpartition(_THEN)[2] == present
    return former if same else f"{former}{_THEN}{present}" if former else present


def settings_to_json(definition: StudyDefinition) -> JsonDict:
    """The sizes of the study as they are now; these may grow."""
    settings = definition.settings
    searched = {"num_trials": settings.num_trials}
    if definition.search is not None:
        searched = definition.search.sizes(settings.num_trials)
    again = {"num_candidates": settings.num_candidates, "num_select_seeds": settings.num_select_seeds}
    if definition.search is None and settings.num_raced:
        again = {"num_entrants": settings.num_raced, "num_race_seeds": settings.num_race_seeds, **again}
    shared = sum(plan.shared_runs or 0 for plan in definition.plan())
    return {
        **searched,
        **({NUM_SHARED: shared} if shared else again),
        "num_test_seeds": settings.num_test_seeds,
        "total_steps": definition.total_steps or None,
        "min_trials_to_prune": settings.pruning.min_trials,
        "budget_s": None if settings.budget_s is None else math.ceil(settings.budget_s),
        "max_env_steps": settings.max_env_steps,
    }


def _check_continues(before: JsonDict, definition: StudyDefinition) -> None:
    other = f"or begin another study with study.name={definition.name}-2"
    if before["agent"] != definition.agent:
        raise UserError(
            f"study {definition.name} is one of {before['agent'] or 'another program'}, and this is "
            f"{definition.agent}.\n"
            f"go back to that, {other}"
        )
    changed = definition.space.difference(before["space"])
    if changed:
        is_more = len(changed) == len(definition.space.added_to(before["space"]))
        way = KEEP_SPACE if is_more else "go back to that"
        raise UserError(
            f"study {definition.name} was begun with another search space: {_listed(changed)}.\n{way}, {other}"
        )
    now = describe(definition)
    judged = ("seed", "metric", "others", "over_seeds")
    changed = [f"{key} was {before[key]} and is {now[key]}" for key in judged if before[key] != now[key]]
    changed += [line for part in parts(InStudy) for line in part.changed(before, now)]
    settings = config_difference(*(with_section_defaults(one["config"]) for one in (before, now)))
    if changed or settings:
        way = "go back to that" if changed else KEEP_SETTINGS
        listed = _listed([*changed, *settings])
        raise UserError(f"study {definition.name} was begun with other settings: {listed}.\n{way}, {other}")


def _listed(lines: list[str], limit: int = 4) -> str:
    rest = len(lines) - limit
    return "; ".join(lines[:limit]) + (f"; and {rest} more" if rest > 0 else "")


def versions(backend: str) -> dict[str, str]:
    """Versions of what a run's score depends on, read without importing any of it."""
    unused = set().union(*_BACKEND_PACKAGES.values()) - _BACKEND_PACKAGES.get(backend, set())
    found = {package: _version_of(package) for package in _VERSIONED if package not in unused}
    return {"python": platform.python_version(), **{name: version for name, version in found.items() if version}}


@cache
def _version_of(package: str) -> str:
    """The installed version, looked up once, as that reads many files; empty if the package is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
