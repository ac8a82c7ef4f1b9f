"""`tuner tune plan=true`: what a study will do, and how long that will take."""

import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tuner.executors.base import Executor
from tuner.executors.executor_factory import count_seats, make_executor
from tuner.runs.build import build_node
from tuner.runs.functions import ENTRY as FUNCTION_ENTRY
from tuner.study import StudyDefinition, StudyStore
from tuner.study.plan import Speed, describe_plan, remembered_speed
from tuner.study.sampling.sampler_factory import make_sampler, num_distinct
from tuner.study.storage.open_storage import has_studies
from tuner.study.storage.store import quiet_optuna
from tuner.study.study_probe import measure_pace
from tuner.support import waiting_line
from tuner.trial.messages import JsonDict


def make_plan(definition: StudyDefinition, resolved: JsonDict, width: int | None = None) -> str:
    """The plan, with the speed of former runs in the storage, or else measured now. Leaves nothing behind.

    Args:
        definition: The study.
        resolved: The config it was made from.
        width: Columns of the terminal; None: it is none.
    """
    definition = _as_far_as_there_are_trials(definition, resolved)
    speed, asked = None, definition.settings.steps_per_second
    url = resolved["storage"]["url"]
    if asked is not None:
        speed = Speed(asked, "study.steps_per_second")
    elif has_studies(url):
        with StudyStore(url) as store:
            speed = remembered_speed(store, definition)
    if speed is None and definition.entry != FUNCTION_ENTRY:
        waiting_line.change("measuring one run")
        with TemporaryDirectory() as folder, make_executor(resolved["executor"]) as executor:
            speed = _measured_speed(definition, executor, Path(folder))
    prunes = not str(resolved["pruner"]["_target_"]).endswith(".NopPruner")
    return describe_plan(definition, count_seats(resolved["executor"]), speed, prunes, width)


def _measured_speed(definition: StudyDefinition, executor: Executor, folder: Path) -> Speed | None:
    """Of a run of a few thousand steps; of runs with parts, of one of each."""
    busy = _programs_beside()
    steps_s = start_s = 0.0
    names = definition.part_names or ("",)
    for number, name in enumerate(names):
        alone = definition.within(name)
        pace = measure_pace(alone, executor, folder / str(number))
        if pace is None:
            return None
        steps_s += alone.total_steps / pace.steps_per_second
        start_s += pace.start_s
    beside = f"one run beside other programs, load {busy:.0f}" if busy else "one run alone"
    return Speed(definition.total_steps / steps_s, f"measured just now, {beside}", start_s / len(names))


def _programs_beside() -> float:
    """The load of the last minute as far as it is not this command's own, which is at most 1; 0: there is no other."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return load - 1.0 if load >= 2.0 else 0.0


def _as_far_as_there_are_trials(definition: StudyDefinition, resolved: JsonDict) -> StudyDefinition:
    """The study without the trials that a grid or a list of choices does not have."""
    if definition.search is not None:
        return definition
    with quiet_optuna():
        factory = build_node("sampler", {**resolved["sampler"], "_partial_": True})
    distinct = num_distinct(make_sampler(factory, definition.seed, 0, definition.space), definition.space)
    num_trials = definition.settings.num_trials
    fewer = num_trials if distinct is None else min(num_trials, distinct)
    return replace(definition, settings=replace(definition.settings, num_trials=fewer))
