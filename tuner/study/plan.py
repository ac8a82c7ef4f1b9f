"""What a study will do and cost, said before it begins."""

from dataclasses import dataclass
from statistics import median

from tuner.results.protocol import plan_stages
from tuner.results.records import CONFIRM, RACE, SCREEN, TEST
from tuner.results.wording import format_number, format_seconds
from tuner.study.definition import StudyDefinition
from tuner.study.space.describing import describe_values
from tuner.study.space.space import Space
from tuner.study.storage import store as attributes
from tuner.study.storage.reading import read_records
from tuner.study.storage.store import StudyStore

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
    """

    steps_per_second: float
    source: str


def remembered_speed(store: StudyStore, definition: StudyDefinition) -> Speed | None:
    """What runs of the same agent, environment and framework in this storage needed; None if there are none."""
    speeds = []
    for name in store.names():
        study = store.find(name)
        about = study.user_attrs.get(attributes.DEFINITION, {}) if study is not None else {}
        total_steps = about.get("config", {}).get("training", {}).get("total_steps")
        same = all(about.get(key) == value for key, value in _identity(definition).items())
        if study is None or not same or not total_steps:
            continue
        runs = read_records(study, SCREEN, definition.study_folder)
        speeds += [total_steps / run.seconds for run in runs if run.complete and run.seconds > 0.0]
    return Speed(median(speeds), f"the median of {len(speeds)} earlier runs") if speeds else None


def _identity(definition: StudyDefinition) -> dict[str, str]:
    return {"agent": definition.agent, "env": definition.env_id, "backend": definition.backend}


def describe_plan(definition: StudyDefinition, parallel: int, speed: Speed | None, prunes: bool = True) -> str:
    """Stages, runs, seeds, rungs, environment steps and estimated minutes, as text for a terminal."""
    settings = definition.settings
    total_steps = int(definition.config.get("training", {}).get("total_steps", 0))
    stages = plan_stages(settings, definition.seed, total_steps)
    framework = f" ({definition.backend})" if definition.backend else ""
    lines = [f"study {definition.name}: {definition.subject}{framework}", ""]
    lines += [*_searched(definition.space), ""]
    for plan in stages:
        count = (
            f"{plan.num_configurations} x {len(plan.seeds)}" if len(plan.seeds) > 1 else str(plan.num_configurations)
        )
        seeds = ", ".join(map(str, plan.seeds))
        lines.append(f"  {plan.stage:<8}{count:>7} runs  {plan.env_steps:>11,} env steps  {_WHAT[plan.stage]}")
        lines.append(f"  {'':<8}{'':>7}       seeds {seeds}")
    points = settings.pruning.points(definition.num_points) if prunes and not definition.others else []
    rungs = " and ".join(f"{point}/{definition.num_points}" for point in points)
    env_steps = sum(plan.env_steps for plan in stages)
    condition = f"used if ranks there agree with final ones in the first {settings.pruning.min_trials} runs"
    lines += ["", f"  rungs after {rungs} of a run, {condition}" if points else "  no run is pruned"]
    if speed is None:
        return "\n".join(
            [*lines, f"  at most {env_steps:,} environment steps; how long one run takes is not known yet"]
        )
    seconds = env_steps / speed.steps_per_second / parallel
    return "\n".join(
        [
            *lines,
            f"  at most {env_steps:,} environment steps: about {format_seconds(seconds)} with {parallel} at a time and "
            f"{format_number(speed.steps_per_second)} steps per second each ({speed.source}), less what is pruned",
        ]
    )


def _searched(space: Space) -> list[str]:
    """A line for each parameter, with its values as they are typed."""
    width = max(map(len, space.paths))
    ranges = [f"    {one.path:<{width}}  {describe_values(one.describe())}" for one in space.parameters]
    return ["  searched:", *ranges]
