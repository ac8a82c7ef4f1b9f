"""The controller's side of a sweep: checks everything, then runs the study, or what is left of it."""

import hashlib
import importlib.util
import inspect
import json
import logging
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.singleton import Singleton
from hydra.core.utils import configure_log
from hydra.errors import CompactHydraException, HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from tuner.config.composing import HYDRA_KEYS, plain_choice
from tuner.errors import UserError
from tuner.executors.base import Executor
from tuner.executors.building import check_executor, make_executor
from tuner.executors.local import pickle_function
from tuner.executors.preload import Backend, Preload
from tuner.reporting.page import write_page
from tuner.results.insights.failures import failed_runs
from tuner.results.protocol import StudySettings
from tuner.results.records import StudySummary
from tuner.results.wording import describe_part
from tuner.runs.build import build_node
from tuner.study import (
    StudyDefinition,
    StudyStopped,
    StudyStore,
    fill_dashboard,
    home_of,
    quiet_optuna,
    summarise,
)
from tuner.study.guard import further_trials
from tuner.study.sampling.samplers import SamplerFactory, require_packages
from tuner.study.storage.store import BY_CHANCE
from tuner.study.sweep.study import Sweep, SweepRunner, SweepSampler
from tuner.support.interrupts import EXIT_INTERRUPTED
from tuner.support.names import did_you_mean
from tuner.support.passwords import command_line
from tuner.sweeper.grammar import SweepSpace, parse_sweep
from tuner.sweeper.job import HydraApp, SweepJob
from tuner.sweeper.listener import SweepLog
from tuner.sweeper.results import results_of
from tuner.sweeper.settings import SweepSettings, in_own_words, translate
from tuner.trial.messages import JsonDict

_log = logging.getLogger(__name__)

BASIC_LAUNCHER = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"

_PRELOAD = ("numpy", "hydra._internal.hydra", "hydra._internal.core_plugins.basic_launcher", "tuner.sweeper.job")
_SAFE_TO_PRELOAD = ("torch", "torch._dynamo", "tensorflow", "keras", "gymnasium", "pandas", "sklearn")
"""Slow to import, and without threads of their own: the fork server may have them if the application does."""


class SweepRefusedError(UserError, CompactHydraException):
    """A mistake of the user's, which every Hydra application prints without a traceback."""


@dataclass(frozen=True)
class _Jobs:
    """What the study has to know of the application."""

    app: HydraApp
    space: SweepSpace

    def overrides(self, values: JsonDict) -> list[str]:
        """The overrides of a job with these values."""
        return self.space.overrides(values)

    def subdir(self, number: int, overrides: Sequence[str]) -> str:
        """As hydra.sweep.subdir says; a job whose config cannot be composed says so itself, in its own folder."""
        try:
            config = self.app.compose(number, overrides)
            with _as_hydra_config(config):
                return str(config.hydra.sweep.subdir)
        except (HydraException, OmegaConfBaseException):
            return str(number)


def run_sweep(app: HydraApp, node: Mapping[str, Any], arguments: Sequence[str]) -> JsonDict:
    """Runs a sweep, or what is left of it.

    Args:
        app: The application.
        node: `hydra.sweeper`, plain.
        arguments: Overrides of the command line.

    Returns:
        What stands in optimization_results.yaml.

    Raises:
        SweepRefusedError: It cannot begin, or not go on.
        SystemExit: After Ctrl-C or SIGTERM; the same command goes on.
    """
    configure_log(app.config.hydra.hydra_logging, app.config.hydra.verbose)
    try:
        return _run(app, translate(node), arguments)
    except StudyStopped as stop:
        _log.info("%s; the same command goes on", stop)
        raise SystemExit(EXIT_INTERRUPTED) from None
    except UserError as error:
        raise SweepRefusedError(in_own_words(str(error))) from error


def _run(app: HydraApp, settings: SweepSettings, arguments: Sequence[str]) -> JsonDict:
    _check_launcher(app.config)
    if settings.executor is not None:
        check_executor(settings.executor)
    space = parse_sweep(settings.params, arguments, app.context.config_loader)
    _check_variants(app, space)
    choose_backend: Callable[[DictConfig], Backend | None] | None = getattr(app.task_function, "sweep_backend", None)
    backend = None if choose_backend is None else choose_backend(app.config)
    num_objectives = len(settings.directions)
    job = pickle_function(SweepJob(app, Singleton.get_state(), num_objectives))
    sampler = SweepSampler(_sampler(settings.sampler), space.grid(), num_objectives)
    sampler.make(settings.seed, 0)  # refused now, if it cannot be made
    sweep = Sweep(
        definition=_define(app, settings, space, job, sampler.total(settings.num_trials)),
        directions=settings.directions,
        jobs=_Jobs(app, space),
        sampler=sampler,
        pruner=build_node("hydra.sweeper.pruner", settings.pruner) if settings.pruner else None,
    )
    with _as_hydra_config(app.config):
        folder = Path(str(app.config.hydra.sweep.dir)).absolute()
    listener = SweepLog(app.config, num_objectives, len(space.fixed))
    with StudyStore(settings.storage, listener.on_note) as store:
        best = SweepRunner(sweep, store, lambda: _make_executor(settings, backend), listener).run(folder)
        if best:
            _say_how_it_went(store, sweep.definition.name, folder)
        num_jobs = len(store.require(sweep.definition.name).get_trials(deepcopy=False))
    if not best:
        again = further_trials(num_jobs, num_jobs, num_jobs)
        raise UserError(
            "no job of the sweep came to a good end; what each of them said is in its output.log, see above. "
            f"Mend it. {again}"
        )
    return results_of(best, num_objectives)


def _say_how_it_went(store: StudyStore, name: str, folder: Path) -> None:
    """Writes the page of the sweep, beside its results, and says where it is and how many jobs failed."""
    home = home_of(store, name, folder)
    summary = summarise(store, name, home, thorough=True)
    fill_dashboard(store, summary, home)
    _write_report(summary, home)
    failed = failed_runs(summary)
    if failed:
        _log.warning("%s", failed)


def _write_report(summary: StudySummary, home: Path) -> None:
    """Without plotly, only how to get one."""
    if importlib.util.find_spec("plotly") is None:
        _log.info("For a report: pip install 'note-rl[report]' && tuner report %s", shlex.quote(summary.name))
        return
    try:
        _log.info("Look at everything: %s", write_page(summary, home))
    except UserError as error:  # the sweep is done whether or not its page can be written
        _log.warning("%s", error)


def _check_launcher(config: DictConfig) -> None:
    launcher = config.hydra.launcher
    if launcher is not None and launcher.get("_target_") != BASIC_LAUNCHER:
        choice = config.hydra.runtime.choices.get("hydra/launcher")
        raise UserError(
            f"hydra/launcher={choice} cannot be used with hydra/sweeper=optuna: a launcher runs a whole batch of jobs "
            "and waits for all of them, so nothing could be pruned, learnt from or started in between. "
            "Leave it out; jobs run in processes of this machine, hydra.sweeper.n_jobs=... at a time"
        )


def _check_variants(app: HydraApp, space: SweepSpace) -> None:
    """Composes a job with every choice and every end of a range, one at a time; what Hydra refuses is said now."""
    for overrides in space.variants:
        try:
            app.compose(0, overrides)
        except (HydraException, OmegaConfBaseException) as error:
            said = [
                str(error),
                *([str(error.__cause__)] if isinstance(error.__cause__, OmegaConfBaseException) else []),
            ]
            reason = " ".join(line.strip() for text in said for line in text.splitlines()[:2])
            raise UserError(f"no job can have {' '.join(overrides[len(space.fixed) :])}: {reason}") from error


def _define(app: HydraApp, settings: SweepSettings, space: SweepSpace, job: bytes, num_trials: int) -> StudyDefinition:
    name = str(app.config.hydra.job.name)
    config = {"directions": list(settings.directions), "overrides": sorted(space.fixed)}
    return StudyDefinition(
        name=settings.name or _default_name(name, config, space),
        config=config,
        space=space.space,
        settings=StudySettings(
            metric="final",
            num_trials=num_trials,
            retries=settings.retries,
            max_failures=settings.max_failures,
        ),
        seed=settings.seed,
        agent=name,
        function=job,
        probe=None,
        facts={
            "command": command_line([Path(sys.argv[0]).name, *sys.argv[1:]]),
            "sampler": describe_part(settings.sampler),
            "pruner": describe_part(settings.pruner) if settings.pruner else "",
            **({BY_CHANCE: "as jobs end"} if settings.parallel > 1 else {}),
        },
    )


def _default_name(application: str, config: JsonDict, space: SweepSpace) -> str:
    """The same for the same command, however many jobs it asks for, so that it goes on with the same study."""
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


def _make_executor(settings: SweepSettings, backend: Backend | None) -> AbstractContextManager[Executor]:
    if settings.executor is not None:
        return make_executor(settings.executor)
    others = (*_PRELOAD, *(module for module in _SAFE_TO_PRELOAD if module in sys.modules))
    return make_executor(
        plain_choice("executor", "local"),
        parallel=settings.parallel,
        backend=Preload(backend, others),
        isolation=settings.isolation,
        limits=settings.limits,
        threads=settings.threads or max(1, (os.cpu_count() or 1) // settings.parallel),
        gpus=settings.gpus,
    )


@contextmanager
def _as_hydra_config(config: DictConfig) -> Iterator[None]:
    """Lets `${hydra:...}` in a config find that config."""
    holder = HydraConfig.instance()
    before = holder.cfg
    holder.set_config(config)
    try:
        yield
    finally:
        holder.cfg = before
