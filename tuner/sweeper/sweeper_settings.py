"""The settings of the Hydra sweeper: those of hydra-optuna-sweeper and our own become one set, here only."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

from tuner.errors import UserError
from tuner.executors.gpus import GpuChoice
from tuner.executors.local import Isolation
from tuner.support.names import did_you_mean
from tuner.sweeper.custom_search_space import CustomSearchSpace, as_params
from tuner.trial.messages import JsonDict, Limits

Direction: TypeAlias = Literal["minimize", "maximize"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
NODE = "hydra.sweeper"

_OLD_NAMES = {"n_trials": "num_trials", "n_jobs": "parallel", "study_name": "name"}
_LOWEST = {"num_trials": 1, "parallel": 1, "retries": 0, "max_failures": 1, "threads": 1}  # of the whole numbers
_LIMITS = Limits(grace_s=3.0)  # few Hydra applications listen when they are asked to leave
_KNOWN = (
    *(
        "direction",
        "params",
        "sampler",
        "pruner",
        "name",
        "storage",
        "isolation",
        "gpus",
        "executor",
        "max_failure_rate",
        "custom_search_space",
        "search_space",
        "report",
    ),
    *(*_LOWEST, *asdict(_LIMITS), *_OLD_NAMES),
)
_WORDS = {
    "go on with these with study.as_begun=true": "go back to that",
    "go on without that with study.as_begun=true": "go back to that",
    "once it is mended, the same command goes on": "mend it, and type the command again",
    "study.name": f"{NODE}.study_name",
    "study.num_trials": f"{NODE}.n_trials",
    "study.retries": f"{NODE}.retries",
    "study.max_failures": f"{NODE}.max_failures",
    "study.folder": "hydra.sweep.dir",
    "storage.url": f"{NODE}.storage",
    "executor.parallel": f"{NODE}.n_jobs",
    "executor.threads": f"{NODE}.threads",
    "executor.gpus": f"{NODE}.gpus",
    "executor.isolation": f"{NODE}.isolation",
    "executor.limits.": f"{NODE}.",
    "limits.": f"{NODE}.",
}
"""Names here of the settings of `tuner tune`."""


@dataclass(frozen=True)
class SweepSettings:
    """How a sweep is run.

    Attributes:
        directions: Of each objective: minimize or maximize.
        params: The search by config path, in Hydra's sweep grammar.
        custom_search_space: Adds parameters to each job; None: nothing does.
        report: Whether the page of a sweep is written at its end.
        sampler: Node of Optuna's sampler, without what is not set.
        pruner: Node of Optuna's pruner; None: no job is pruned.
        seed: Of the sampler.
        name: Of the study; None: made of the application's name and what is searched.
        storage: URL.
        num_trials: Jobs in all, those of earlier sessions included; None: all of a grid, otherwise 20.
        parallel: Jobs at a time.
        retries: How often a job that crashed is started again.
        max_failures: Failures in a row that end the sweep.
        threads: Of each job; None: the cores shared out.
        isolation: forkserver or spawn.
        gpus: GPUs that are dealt out to the jobs, one to each; None: every job sees all that there are.
        limits: Of a job's resources.
        executor: A choice of the configuration group executor, which runs the jobs in place of processes that are made
            with the settings above; None: those.
    """

    directions: tuple[Direction, ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    custom_search_space: CustomSearchSpace | None = None
    report: bool = True
    sampler: JsonDict = field(default_factory=dict)
    pruner: JsonDict | None = None
    seed: int = 0
    name: str | None = None
    storage: str = "memory"
    num_trials: int | None = None
    parallel: int = 2
    retries: int = 1
    max_failures: int = 5
    threads: int | None = None
    isolation: Isolation = "forkserver"
    gpus: GpuChoice = "auto"
    limits: Limits = _LIMITS
    executor: JsonDict | None = None


def translate(node: Mapping[str, Any]) -> SweepSettings:
    """Returns the settings that a node `hydra.sweeper` means.

    Args:
        node: Plain data; what is None is not set, but for `storage`, where it means that nothing is kept, and `gpus`.

    Raises:
        UserError: An unknown or impossible setting, no direction, the same thing said twice.
    """
    given = {key: value for key, value in node.items() if value is not None}
    _check_names(given)
    given = _under_new_names(given)
    given |= _executor(given)
    directions = _directions(given.get("direction"))
    sampler = _component("sampler", given.get("sampler"))
    seed = sampler.pop("seed", 0)  # ours: the study seeds its sampler anew whenever it is resumed
    return SweepSettings(
        directions=directions,
        params={
            **as_params(_mapping("search_space", given.get("search_space", {}))),
            **_mapping("params", given.get("params", {})),
        },
        custom_search_space=CustomSearchSpace.at(str(given["custom_search_space"]))
        if "custom_search_space" in given
        else None,
        report=_switch("report", given.get("report", SweepSettings.report)),
        sampler=sampler,
        pruner=_pruner(given.get("pruner"), len(directions)),
        seed=_whole("sampler.seed", seed, 0),
        name=str(given["name"]) if "name" in given else None,
        storage=_storage(given.get("storage")),
        isolation=_isolation(given.get("isolation", SweepSettings.isolation)),
        gpus=node.get("gpus", SweepSettings.gpus),  # None says something here: leave them alone
        limits=_limits({key: given[key] for key in asdict(_LIMITS) if key in given}),
        executor=given.get("executor"),
        **{key: _whole(key, given[key], lowest) for key, lowest in _LOWEST.items() if key in given},
    )


def in_own_words(message: str) -> str:
    """Returns a message of the study engine with the names that its settings have here."""
    for engine, ours in _WORDS.items():
        message = message.replace(engine, ours)
    return message


def _check_names(given: Mapping[str, Any]) -> None:
    for key in given:
        if key not in _KNOWN:
            raise UserError(f"unknown key {NODE}.{key}{did_you_mean(key, _KNOWN)}")


def _under_new_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings with those of hydra-optuna-sweeper said in our terms."""
    for old, new in _OLD_NAMES.items():
        if old in given and new in given:
            raise UserError(f"{NODE}.{old} and {NODE}.{new} are the same setting; give one of them")
    renamed = {_OLD_NAMES.get(key, key): value for key, value in given.items()}
    rate = renamed.pop("max_failure_rate", None)
    if rate is not None and "max_failures" not in renamed:
        renamed["max_failures"] = _failures_in_a_row(rate, renamed.get("parallel", SweepSettings.parallel))
    return renamed


def _executor(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the executor that is named, with as many jobs at a time as asked for, or else by its own settings."""
    node = given.get("executor")
    if node is None:
        return {}
    if not isinstance(node, Mapping) or "_target_" not in node:
        raise UserError(
            f"{NODE}.executor={node} is not possible: choose one of the group executor with "
            f"+executor@{NODE}.executor=NAME, or give a class of your own as {NODE}.executor._target_"
        )
    for key in ("threads", "isolation", "gpus", *asdict(_LIMITS)):
        if given.get(key, "auto") != "auto":
            raise UserError(
                f"{NODE}.{key} is for the jobs of this machine, and {NODE}.executor runs them: say it among the "
                f"settings of {NODE}.executor, if it has such a one"
            )
    parallel = given.get("parallel")
    if parallel is None:
        return {"executor": dict(node), "parallel": int(node.get("parallel", 1))}
    return {"executor": {**node, "parallel": _whole("parallel", parallel, 1)}}


def _directions(direction: object) -> tuple[Direction, ...]:
    if direction is None or direction == []:
        raise UserError(
            f"{NODE}.direction is not set: say {NODE}.direction=minimize or {NODE}.direction=maximize "
            "(a list for several objectives). There is no default: the wrong one would find the worst job"
        )
    listed = direction if isinstance(direction, list) else [direction]
    for name in listed:
        if name not in DIRECTIONS:
            raise UserError(f"{NODE}.direction={name} must be minimize or maximize")
    return tuple(listed)


def _storage(storage: object) -> str:
    if isinstance(storage, Mapping):
        storage = storage.get("url")
        if storage is None:
            raise UserError(f"{NODE}.storage must be a URL, for example sqlite:///studies.db")
    return "memory" if storage is None else str(storage)


def _pruner(node: object, num_directions: int) -> JsonDict | None:
    if node is None:
        return None
    pruner = _component("pruner", node)
    if num_directions > 1 and not pruner["_target_"].endswith("NopPruner"):
        raise UserError(f"{NODE}.pruner cannot be used with several directions: Optuna prunes by one value only")
    return pruner


def _component(name: str, node: object) -> JsonDict:
    """Returns the node of a sampler or pruner without what is not set, so that Optuna's own defaults hold."""
    if not isinstance(node, Mapping) or "_target_" not in node:
        raise UserError(
            f"{NODE}.{name}={node} is not possible: choose one with hydra/sweeper/{name}=NAME, "
            f"or give a class of your own as {NODE}.{name}._target_"
        )
    return {str(key): value for key, value in node.items() if value is not None}


def _mapping(name: str, node: object) -> JsonDict:
    if not isinstance(node, Mapping):
        raise UserError(f"{NODE}.{name}={node} must map config paths to sweeps, for example {{lr: 'interval(0,1)'}}")
    return {str(key): value for key, value in node.items()}


def _isolation(isolation: Any) -> Isolation:
    if isolation not in get_args(Isolation):
        raise UserError(f"{NODE}.isolation={isolation} must be {' or '.join(get_args(Isolation))}")
    chosen: Isolation = isolation
    return chosen


def _limits(given: dict[str, Any]) -> Limits:
    try:
        return replace(_LIMITS, **{key: float(value) for key, value in given.items()})
    except (TypeError, ValueError) as error:
        raise UserError(in_own_words(str(error))) from error


def _switch(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UserError(f"{NODE}.{key}={value} must be true or false")
    return value


def _whole(key: str, value: object, lowest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
        raise UserError(f"{NODE}.{key}={value} must be a whole number, at least {lowest}")
    return value


def _failures_in_a_row(rate: object, parallel: object) -> int:
    """Returns how many failures in a row end a sweep, by hydra-optuna-sweeper's `max_failure_rate`.

    That one gave up when more than this share of a batch of `n_jobs` had failed.
    """
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0.0 <= rate <= 1.0:
        raise UserError(f"{NODE}.max_failure_rate={rate} must lie in [0, 1]")
    num_jobs = _whole("n_jobs", parallel, 1)
    never = 2**31
    return never if rate == 1.0 else math.floor(rate * num_jobs) + 1
