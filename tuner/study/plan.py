"""What a study will do and cost, said before it begins."""

from tuner.protocol import plan_stages
from tuner.records import CONFIRM, SCREEN, TEST
from tuner.study.definition import StudyDefinition
from tuner.wording import format_seconds

_WHAT = {
    SCREEN: "configurations, sampled",
    CONFIRM: "best of these, on fresh seeds",
    TEST: "winner and default configuration, on untouched seeds",
}


def describe_plan(definition: StudyDefinition, parallel: int) -> str:
    """Stages, runs, seeds, rungs, environment steps and estimated minutes, as text for a terminal."""
    settings = definition.settings
    total_steps = int(definition.config.get("training", {}).get("total_steps", 0))
    stages = plan_stages(settings, definition.seed, total_steps)
    framework = f" ({definition.backend})" if definition.backend else ""
    lines = [f"study {definition.name}: {definition.subject}{framework}", ""]
    lines += [f"  searched: {', '.join(parameter.name for parameter in definition.space.parameters)}", ""]
    for plan in stages:
        count = (
            f"{plan.num_configurations} x {len(plan.seeds)}" if len(plan.seeds) > 1 else str(plan.num_configurations)
        )
        seeds = ", ".join(map(str, plan.seeds))
        lines.append(f"  {plan.stage:<8}{count:>7} runs  {plan.env_steps:>11,} env steps  {_WHAT[plan.stage]}")
        lines.append(f"  {'':<8}{'':>7}       seeds {seeds}")
    points = settings.pruning.points(definition.num_points)
    rungs = " and ".join(f"{point}/{definition.num_points}" for point in points)
    env_steps = sum(plan.env_steps for plan in stages)
    seconds = env_steps / settings.steps_per_second / parallel
    return "\n".join(
        [
            *lines,
            "",
            f"  rungs after {rungs or 'none'} of a run, used if ranks there agree with final ones in the first "
            f"{settings.pruning.min_trials} runs",
            f"  at most {env_steps:,} environment steps: about {format_seconds(seconds)} with {parallel} at a time and "
            f"{settings.steps_per_second:g} steps per second each (study.steps_per_second), less what is pruned",
        ]
    )
