"""Plan and cost of a study, shown before it begins."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from statistics import median

from tuner.errors import UserError
from tuner.executors.base import Seats
from tuner.features import parts
from tuner.results.number_format import format_number, format_seconds, join_words
from tuner.results.protocol import DEFAULT_BASELINE, StagePlan, StudySettings
from tuner.results.records import CONFIRM, ONE_CHANGED, RACE, SCREEN, TEST
from tuner.study.budget import affordable_trials, seconds_too_many
from tuner.study.definition import StudyDefinition
from tuner.study.features import InStudy, first_stage, why_unpruned
from tuner.study.space.parameter_text import describe_values
from tuner.study.space.space import Space
from tuner.study.storage import store as attributes
from tuner.study.storage.store import StudyStore, describe
from tuner.study.storage.trial_records import read_records
from tuner.support.help_columns import in_columns

_WIDTH_OF_COUNTS = 11
_LEAST_NAMED_S = 0.05
_WHAT = {
    SCREEN: "configurations, sampled",
    RACE: "most promising, on further seeds until clearly worse",
    CONFIRM: "best of these, on fresh seeds",
    TEST: "winner and default configuration, on untouched seeds",
}


@dataclass(frozen=True)
class Speed:
    """How fast one run is.

    Attributes:
        steps_per_second: Environment steps, evaluations included.
        source: Where that is known from.
        start_s: Seconds that a run takes besides, to start and to end; 0: they are in the steps, or not known.
    """

    steps_per_second: float
    source: str
    start_s: float = 0.0

    def seconds(self, env_steps: int, num_runs: int) -> float:
        """The seconds of a number of runs with a number of steps in all, one after another."""
        return env_steps / self.steps_per_second + num_runs * self.start_s


def remembered_speed(store: StudyStore, definition: StudyDefinition) -> Speed | None:
    """Speed of earlier runs of the same agent, environment and framework in this storage; None if there are none."""
    speeds = []
    for name in store.names():
        study = store.find(name)
        about = study.user_attrs.get(attributes.DEFINITION, {}) if study is not None else {}
        configs = [one["config"] for one in (about.get("environments") or {}).values()] or [about.get("config", {})]
        total_steps = sum(config.get("training", {}).get("total_steps", 0) for config in configs)
        same = all(about.get(key) == value for key, value in _identity(definition).items())
        if study is None or not same or not total_steps or first_stage(about) != SCREEN:  # whose runs are parts
            continue
        runs = read_records(study, SCREEN, definition.study_folder)
        speeds += [total_steps / run.seconds for run in runs if run.complete and run.seconds > 0.0]
    return Speed(median(speeds), f"the median of {len(speeds)} earlier runs") if speeds else None


def _identity(definition: StudyDefinition) -> dict[str, str]:
    return {"agent": definition.agent, "env": definition.env_id, "backend": definition.backend}


def describe_plan(
    definition: StudyDefinition, seats: Seats, speed: Speed | None, prunes: bool = True, width: int | None = None
) -> str:
    """Stages, runs, seeds, rungs, environment steps and estimated minutes, as text for a terminal of that width."""
    settings = definition.settings
    total_steps = definition.total_steps
    num_parts = max(1, len(definition.part_names))  # runs of a configuration on a seed
    run_s = None if speed is None else speed.seconds(total_steps, num_parts)
    num_trials = affordable_trials(definition, seats.count, run_s)
    stages = [
        replace(plan, num_configurations=num_trials, env_steps=num_trials * total_steps)
        if plan.stage == SCREEN
        else plan
        for plan in definition.plan(num_trials)
    ]
    framework = f" ({definition.backend})" if definition.backend else ""
    prunes = prunes and not why_unpruned(describe(definition))
    prunes = prunes and num_trials > settings.pruning.min_trials
    points = _rungs(definition) if prunes else ()
    blocks = (
        _searched_rows(definition.space),
        [row for part in parts(InStudy) for row in part.plan_rows(definition)],
        [row for plan in stages for row in _stage_rows(plan, definition)],
        [
            _pruning_row(points, definition),
            _cost_row(stages, num_parts, seats.count, speed, prunes=bool(points)),
        ],
        [("machines", seats.remark)] if seats.remark else [],
        _budget_rows(settings, num_trials, run_s, seconds_too_many(definition, seats.count, run_s)),
    )
    lines = [f"study {definition.name}: {definition.subject}{framework}"]
    for rows in filter(None, blocks):
        lines += ["", *in_columns(rows, max(len(name) for block in blocks for name, _ in block), width)]
    return "\n".join(lines)


def _budget_rows(
    settings: StudySettings, num_trials: int, run_s: float | None, too_many_s: float
) -> list[tuple[str, str]]:
    bounds = [] if settings.budget_s is None else [format_seconds(settings.budget_s)]
    bounds += [] if settings.max_env_steps is None else [f"{settings.max_env_steps:,} environment steps"]
    if not bounds:
        return []
    known = settings.budget_s is None or run_s is not None
    if too_many_s:
        trials = (
            f"too little time: what follows screening takes about {format_seconds(too_many_s)} and is run all the "
            f"same, behind no more than {num_trials} trials"
        )
    elif known:
        trials = f"{num_trials} of at most {settings.num_trials} trials fit if none is pruned"
    else:
        trials = "as many trials as fit, which is known after the first"
    return [("budget", f"{join_words(bounds)}: {trials}")]


def _stage_rows(plan: StagePlan, definition: StudyDefinition) -> list[tuple[str, str]]:
    settings, num_seeds, num_environments = definition.settings, len(plan.seeds), len(definition.part_names)
    count = f"{plan.num_configurations} x {num_seeds}" if num_seeds > 1 else str(plan.num_configurations)
    count = count if plan.shared_runs is None else str(plan.shared_runs)
    count = f"{count} x {num_environments}".rjust(_WIDTH_OF_COUNTS) if num_environments else count
    seeds = f"{'seed' if num_seeds == 1 else 'seeds'} {', '.join(map(str, plan.seeds))}"
    seeds += "" if plan.shared_runs is None else ", and those that follow"
    what = plan.what or _WHAT[plan.stage]
    if plan.stage == SCREEN and (first := _tried_first(definition)):
        what += f"; {first}"
    if plan.stage == TEST and definition.others:
        what = what.replace("winner", "front")
    if plan.stage == TEST and settings.baselines:
        what = what.replace("winner and", f"winner, {', '.join(settings.baselines)} and")
    if num_environments:
        what += ", each in all environments"
    return [(plan.stage, f"{count:>7} runs  {plan.env_steps:>11,} env steps"), ("", what), ("", seeds)]


def _tried_first(definition: StudyDefinition) -> str:
    if not definition.warm_start:
        return _why_no_default(definition)
    names = ["the default configuration" if name == DEFAULT_BASELINE else name for name in definition.warm_start]
    changed = [name.removeprefix(ONE_CHANGED) for name in names if name.startswith(ONE_CHANGED)]
    others = [name for name in names if not name.startswith(ONE_CHANGED)]
    alone = f"; then, each changed alone, {join_words(changed)}" if changed else ""
    return f"the first {'is' if len(others) == 1 else 'ones are'} {join_words(others)}{alone}"


def _why_no_default(definition: StudyDefinition) -> str:
    """Empty where the default configuration lies in the space, or none is searched by a sampler."""
    if definition.search is not None:
        return ""
    try:
        definition.space.drawn(definition.config)
    except UserError as error:
        return f"the default is not tried: {error}"
    return ""


def _rungs(definition: StudyDefinition) -> tuple[int, ...]:
    of_a_feature = (part.rungs(definition) for part in parts(InStudy))
    return next(filter(None, of_a_feature), None) or definition.settings.pruning.points(definition.num_points)


def _pruning_row(points: Sequence[int], definition: StudyDefinition) -> tuple[str, str]:
    if not points:
        return "pruning", "no run is pruned"
    rungs = join_words(f"{point}/{definition.num_points}" for point in points)
    num_trials = definition.settings.pruning.min_trials
    where = next(filter(None, (part.used_where(definition) for part in parts(InStudy))), "")
    where = where or f"if ranks there agree with final ones in the first {num_trials} runs"
    return "rungs", f"after {rungs} of a run, used {where}"


def _cost_row(
    stages: Sequence[StagePlan], num_parts: int, parallel: int, speed: Speed | None, *, prunes: bool
) -> tuple[str, str]:
    env_steps, num_runs = sum(plan.env_steps for plan in stages), num_parts * sum(plan.num_runs for plan in stages)
    most = f"at most {env_steps:,} environment steps"
    if speed is None:
        return "in all", f"{most}; how long one run takes is not known yet"
    seconds, less = speed.seconds(env_steps, num_runs) / parallel, ", less what is pruned" if prunes else ""
    start = f", and {speed.start_s:.1f} s to start and end each run" if speed.start_s >= _LEAST_NAMED_S else ""
    return "in all", (
        f"{most}: about {format_seconds(seconds)} with {parallel} at a time, "
        f"{format_number(speed.steps_per_second)} steps per second each{start} ({speed.source}){less}"
    )


def _searched_rows(space: Space) -> list[tuple[str, str]]:
    """A row for each parameter, with its values as they are typed."""
    width = max(map(len, space.paths))
    rows = [f"{one.path:<{width}}  {describe_values(one.describe())}" for one in space.parameters]
    return list(zip_longest(["searched"], rows, fillvalue=""))
