"""The controller's side of a sweep: runs the study that it is, or what is left of it."""

import importlib.util
import logging
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from hydra.core.utils import configure_log
from hydra.errors import CompactHydraException

from tuner.config.composition import plain_choice
from tuner.config.hydra_internals import MODULES_OF_A_JOB
from tuner.errors import UserError
from tuner.executors.base import Executor
from tuner.executors.executor_factory import make_executor
from tuner.executors.preload import FIRST_OPTIMIZER, Preload
from tuner.reporting.page import write_page
from tuner.results.insights.failures import failed_runs
from tuner.results.records import StudySummary
from tuner.study import STOPPED, StudyStore, fill_dashboard, home_of, how_it_stopped, summarise
from tuner.study.guard import further_trials
from tuner.study.sweep.kept_inputs import InputsListener, what_is_kept
from tuner.study.sweep.study_choice import named_study, unnamed_study
from tuner.study.sweep.sweep_study import SweepRunner
from tuner.support.interrupts import EXIT_INTERRUPTED
from tuner.sweeper.hydra_job import HydraApp
from tuner.sweeper.optimization_results import results_of
from tuner.sweeper.sweep_log import SweepListeners, SweepLog
from tuner.sweeper.sweep_plan import PlannedSweep, plan_sweep
from tuner.sweeper.sweep_tracking import tracking
from tuner.sweeper.sweeper_settings import SweepSettings, in_own_words, translate
from tuner.trial.messages import JsonDict

_log = logging.getLogger(__name__)

_PRELOAD = ("numpy", *MODULES_OF_A_JOB, "tuner.sweeper.hydra_job")
_SAFE_TO_PRELOAD = {
    "torch": ("torch", FIRST_OPTIMIZER),
    **{module: (module,) for module in ("tensorflow", "keras", "gymnasium", "pandas", "sklearn")},
}
"""Slow to import, and without threads of their own: the fork server may have them if the application does."""


class SweepRefusedError(UserError, CompactHydraException):
    """A mistake of the user's, which every Hydra application prints without a traceback."""


def run_sweep(app: HydraApp, node: Mapping[str, Any], arguments: Sequence[str]) -> JsonDict:
    """Runs a sweep, or what is left of it.

    Args:
        app: The application.
        node: `hydra.sweeper`, plain.
        arguments: Overrides of the command line.

    Returns:
        The content of optimization_results.yaml.

    Raises:
        SweepRefusedError: It cannot begin, or not go on.
        SystemExit: After Ctrl-C or SIGTERM; the same command goes on.
    """
    configure_log(app.config.hydra.hydra_logging, app.config.hydra.verbose)
    try:
        return _run(plan_sweep(app, translate(node), arguments))
    except STOPPED as stop:
        _log.info("%s", how_it_stopped(stop))
        raise SystemExit(EXIT_INTERRUPTED) from None
    except UserError as error:
        raise SweepRefusedError(in_own_words(str(error))) from error


def _run(planned: PlannedSweep) -> JsonDict:
    place, num_objectives = planned.place, len(planned.sweep.directions)
    log = SweepLog(planned.app.config, num_objectives, planned.space)
    with StudyStore(planned.settings.storage, log.on_note) as store:
        named = planned.settings.name is not None
        definition = planned.sweep.definition
        if named:
            definition = named_study(store, definition, place)
        else:
            definition = unnamed_study(store, definition, place, log.on_note)
        study = store.find(definition.name)
        kept = "" if study is None else in_own_words(what_is_kept(study))
        for remark in filter(None, (*planned.remarks, kept)):
            _log.info("%s", remark)
        runner = partial(SweepRunner, replace(planned.sweep, definition=definition), store)
        with tracking(planned, definition) as tracked:
            listener = SweepListeners(log, InputsListener(), *filter(None, [tracked]))
            best = runner(partial(_make_executor, planned), listener).run(place.folder)
            if not best:
                num_jobs = len(store.require(definition.name).get_trials(deepcopy=False))
                raise _nothing_good(further_trials(num_jobs, num_jobs, num_jobs) if named else "")
            summary = _say_how_it_went(store, definition.name, place.folder, planned.settings)
            if tracked is not None:
                tracked.on_summary(summary, best)
    return results_of(best, num_objectives)


def _nothing_good(further: str) -> UserError:
    """Of a sweep whose jobs all failed; one with a name has to have further ones."""
    return UserError(
        "no job of the sweep came to a good end; what each of them said is in its output.log, see above. "
        f"Mend it. {further or 'The same command begins anew.'}"
    )


def _say_how_it_went(store: StudyStore, name: str, folder: Path, settings: SweepSettings) -> StudySummary:
    """Writes the page of the sweep, beside its results, and says where it is and how many jobs failed.

    One job has nothing to compare, and is not worth the time that the page takes.
    """
    home = home_of(store, name, folder)
    with_page = settings.report and settings.num_trials != 1
    summary = summarise(store, name, home, thorough=with_page)
    if with_page:
        fill_dashboard(store, summary, home)
        _write_report(summary, home)
    failed = failed_runs(summary)
    if failed:
        _log.warning("%s", failed)
    return summary


def _write_report(summary: StudySummary, home: Path) -> None:
    """Without plotly, only how to get one."""
    if importlib.util.find_spec("plotly") is None:
        _log.info("For a report: pip install 'note-rl[report]' && tuner report %s", shlex.quote(summary.name))
        return
    try:
        _log.info("Look at everything: %s", write_page(summary, home))
    except UserError as error:  # the sweep is done whether or not its page can be written
        _log.warning("%s", error)


def _make_executor(planned: PlannedSweep) -> AbstractContextManager[Executor]:
    settings = planned.settings
    if settings.executor is not None:
        return make_executor(settings.executor)
    of_application = (modules for module, modules in _SAFE_TO_PRELOAD.items() if module in sys.modules)
    others = (*_PRELOAD, *chain.from_iterable(of_application))
    return make_executor(
        plain_choice("executor", "local"),
        parallel=settings.parallel,
        backend=Preload(planned.backend, others),
        isolation=settings.isolation,
        limits=settings.limits,
        threads=settings.threads or max(1, (os.cpu_count() or 1) // settings.parallel),
        gpus=settings.gpus,
    )
