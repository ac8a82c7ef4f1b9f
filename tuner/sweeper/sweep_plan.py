"""Everything about a sweep that is checked before anything runs, up to the study that it becomes."""

import hashlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import optuna
from hydra.core.singleton import Singleton
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from tuner.config.composition import HYDRA_KEYS
from tuner.config.hydra_internals import BASIC_LAUNCHER
from tuner.errors import UserError
from tuner.executors.executor_factory import check_executor
from tuner.executors.local import pickle_function
from tuner.executors.preload import Backend
from tuner.results.number_format import describe_part
from tuner.results.protocol import StudySettings
from tuner.runs.build import build_node
from tuner.study import StudyDefinition, quiet_optuna
from tuner.study.sampling.sampler_factory import SamplerFactory, require_packages
from tuner.study.storage.store import BY_CHANCE
from tuner.study.sweep.study_choice import SweepPlace
from tuner.study.sweep.sweep_study import DEFAULT_NUM_TRIALS, Sweep, SweepSampler
from tuner.support.names import did_you_mean
from tuner.support.passwords import command_line
from tuner.sweeper.custom_search_space import CustomSearchSpace
from tuner.sweeper.grammar import SweepSpace, parse_sweep
from tuner.sweeper.hydra_job import HydraApp, SweepJob, as_hydra_config, own_part
from tuner.sweeper.identity import identity_of, is_made_of_time
from tuner.sweeper.job_inputs import InputFiles
from tuner.sweeper.sweeper_settings import SweepSettings
from tuner.trial.messages import JsonDict

_EACH_ONCE = {"_target_": "optuna.samplers.BruteForceSampler"}


@dataclass(frozen=True)
class PlannedSweep:
    """A sweep that can begin.

    Attributes:
        app: The application.
        settings: Of the sweep.
        space: The search space.
        sweep: As a study, under the name that somebody gave it or one made of the search.
        place: Where its jobs are to be.
        backend: Framework that the fork server imports for the jobs; None: what the application itself has imported.
        remarks: Remarks for the user.
    """

    app: HydraApp
    settings: SweepSettings
    space: SweepSpace
    sweep: Sweep
    place: SweepPlace
    backend: Backend | None
    remarks: tuple[str, ...] = ()


def plan_sweep(app: HydraApp, settings: SweepSettings, arguments: Sequence[str]) -> PlannedSweep:
    """Checks a sweep; writes nothing.

    Raises:
        UserError: It cannot begin.
    """
    _check_launcher(app.config)
    if settings.executor is not None:
        check_executor(settings.executor)
    custom = settings.custom_search_space
    may_be_empty = custom is not None or settings.num_trials is not None
    space = parse_sweep(settings.params, arguments, app.context.config_loader, may_be_empty=may_be_empty)
    variants = composed_variants(app, space)
    choose_backend: Callable[[DictConfig], Backend | None] | None = getattr(app.task_function, "sweep_backend", None)
    backend = None if choose_backend is None else choose_backend(app.config)
    num_objectives = len(settings.directions)
    sampler = SweepSampler(_sampler(settings.sampler), space.grid(), num_objectives, custom is not None)
    sampler.make(settings.seed, 0)  # refused now, if it cannot be made
    remarks: tuple[str, ...] = ()
    once = sampler.each_once(settings.num_trials)
    if once is not None and once is not sampler:
        remarks = (f"{once.total(None)} combinations in all, and each is run once",)
        sampler, settings = once, replace(settings, sampler=_EACH_ONCE)
    settings = replace(settings, num_trials=sampler.total(settings.num_trials))
    files = InputFiles.of(own_part(config) for config in variants.values())
    definition = replace(
        _define(app, settings, space, identity_of(app, variants, [] if custom is None else [custom.path])),
        function=pickle_function(SweepJob(app, Singleton.get_state(), num_objectives, files)),
    )
    pruner = build_node("hydra.sweeper.pruner", settings.pruner) if settings.pruner else None
    sweep = Sweep(definition, settings.directions, _Jobs(app, space, custom), sampler, pruner)
    return PlannedSweep(app, settings, space, sweep, _place(app, files), backend, remarks)


@dataclass(frozen=True)
class _Jobs:
    """The application, as the study needs it."""

    app: HydraApp
    space: SweepSpace
    custom: CustomSearchSpace | None

    def added(self, trial: optuna.Trial, values: JsonDict) -> JsonDict:
        """Values that a function of the application adds to a job."""
        if self.custom is None:
            return {}
        added = self.custom.added(self.app.config, trial, values)
        for key in added:
            if key.lstrip("+") in self.space.lines:
                raise UserError(
                    f"{self.space.lines[key.lstrip('+')]} is set, and {self.custom.path} of "
                    f"hydra.sweeper.custom_search_space suggests {key}: leave one of them out"
                )
        return added

    def overrides(self, values: JsonDict) -> list[str]:
        """The overrides of a job with these values."""
        return self.space.overrides(values)

    def subdir(self, number: int, overrides: Sequence[str]) -> str:
        """As hydra.sweep.subdir says; a job whose config cannot be composed says so itself, in its own folder."""
        try:
            config = self.app.compose(number, overrides)
            with as_hydra_config(config):
                return str(config.hydra.sweep.subdir)
        except (HydraException, OmegaConfBaseException):
            return str(number)


def _check_launcher(config: DictConfig) -> None:
    launcher = config.hydra.launcher
    if launcher is not None and launcher.get("_target_") != BASIC_LAUNCHER:
        choice = config.hydra.runtime.choices.get("hydra/launcher")
        raise UserError(
            f"hydra/launcher={choice} cannot be used with hydra/sweeper=optuna: a launcher runs a whole batch of jobs "
            "and waits for all of them, so nothing could be pruned, learnt from or started in between. "
            "Leave it out; jobs run in processes of this machine, hydra.sweeper.n_jobs=... at a time"
        )


def _place(app: HydraApp, files: InputFiles) -> SweepPlace:
    """Where jobs are to be; `tuner` has put the time into the folder already, and says so."""
    sweep = OmegaConf.to_container(app.config.hydra.sweep, resolve=False)
    assert isinstance(sweep, dict)
    by_clock = getattr(app.task_function, "folder_by_clock", False) or is_made_of_time(str(sweep["dir"]))
    with as_hydra_config(app.config):
        return SweepPlace(Path(str(app.config.hydra.sweep.dir)).absolute(), by_clock, files.digest)


def composed_variants(app: HydraApp, space: SweepSpace) -> dict[str, DictConfig]:
    """Composes a job with every choice and every end of a range, one at a time; what Hydra refuses is said now."""
    composed = {}
    for overrides in space.variants:
        searched = " ".join(space.searched(overrides))
        try:
            composed[searched] = app.compose(0, overrides)
        except (HydraException, OmegaConfBaseException) as error:
            said = [
                str(error),
                *([str(error.__cause__)] if isinstance(error.__cause__, OmegaConfBaseException) else []),
            ]
            reason = " ".join(line.strip() for text in said for line in text.splitlines()[:2])
            raise UserError(f"no job can have {searched}: {reason}") from error
    return composed


def _define(app: HydraApp, settings: SweepSettings, space: SweepSpace, identity: JsonDict) -> StudyDefinition:
    name = str(app.config.hydra.job.name)
    config = {"directions": list(settings.directions), "overrides": sorted(space.fixed)}
    return StudyDefinition(
        name=settings.name or _default_name(name, config, space),
        config={**config, **identity},
        space=space.space,
        settings=StudySettings(
            metric="final",
            num_trials=settings.num_trials or DEFAULT_NUM_TRIALS,
            retries=settings.retries,
            max_failures=settings.max_failures,
        ),
        seed=settings.seed,
        agent=name,
        probe=None,
        facts={
            "command": command_line([Path(sys.argv[0]).name, *sys.argv[1:]]),
            "sampler": describe_part(settings.sampler),
            "pruner": describe_part(settings.pruner) if settings.pruner else "",
            **({BY_CHANCE: "as jobs end"} if settings.parallel > 1 else {}),
        },
    )


def _default_name(application: str, config: JsonDict, space: SweepSpace) -> str:
    """The same for the same search, however many jobs it asks for, so that one that was interrupted is found."""
    about = json.dumps([config, space.space.fingerprint], sort_keys=True)
    name = re.sub(r"[^\w.=-]+", "-", application).lstrip(".")
    return f"{name}-{hashlib.sha256(about.encode()).hexdigest()[:8]}"


def _sampler(node: JsonDict) -> SamplerFactory:
    kind = str(node["_target_"]).rpartition(".")[2]
    require_packages(kind)
    with quiet_optuna():
        factory: SamplerFactory = build_node("hydra.sweeper.sampler", {**node, "_partial_": True})
    try:
        inspect.signature(factory)
    except ValueError:  # an option that there is none of, such as one that Optuna has given up
        options = inspect.signature(getattr(factory, "func", factory)).parameters
        unknown = next(option for option in node if option not in options and option not in HYDRA_KEYS)
        raise UserError(f"hydra.sweeper.sampler: {kind} has no {unknown}{did_you_mean(unknown, options)}") from None
    return factory
