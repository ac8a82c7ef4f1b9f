"""How a study was made: what somebody must know who repeats it or compares with it.

The questions are those that Eimer, Lindauer & Raileanu (2023, https://arxiv.org/abs/2306.01324) want to see answered
wherever a hyperparameter search in reinforcement learning is reported.
"""

from tuner.results.features import all_stages
from tuner.results.insights.effort import costs
from tuner.results.number_format import counted, format_seconds, join_words
from tuner.results.records import TEST, StudySummary


def checklist(summary: StudySummary) -> dict[str, str]:
    """Question -> answer, as far as the study knows; a sweep has no stages and answers fewer."""
    spent = costs(summary)
    steps = [one.env_steps for one in spent if one.env_steps is not None]
    took = [format_seconds(sum(one.seconds for one in spent)) + " summed over runs"] if spent else []
    answers = {
        "How was it searched?": join_words(filter(None, (summary.sampler, summary.pruner))),
        "In what space?": f"{counted(len(summary.space), 'parameter')}, listed below" if summary.space else "",
        "With what budget?": ", ".join(
            [counted(len(summary.runs), "run"), *([f"{sum(steps):,} environment steps"] if steps else []), *took]
        ),
        "What is a score?": summary.metric_name,
        **({} if summary.is_sweep else _of_stages(summary)),
        "With what code?": summary.code,
    }
    return {question: answer for question, answer in answers.items() if answer}


def _of_stages(summary: StudySummary) -> dict[str, str]:
    seeds = {stage: {run.seed for run in summary.stage(stage)} for stage in all_stages() if summary.stage(stage)}
    tuned_on = sorted(set().union(*(found for stage, found in seeds.items() if stage != TEST)))
    tested_on = sorted(seeds.get(TEST, ()))
    shared = sorted(set(tuned_on) & set(tested_on))
    return {
        "On which seeds was it tuned?": ", ".join(map(str, tuned_on)),
        "On which seeds was it tested?": ", ".join(map(str, tested_on)),
        "Are these disjoint?": (
            "" if not tested_on else f"no: both have {', '.join(map(str, shared))}" if shared else "yes"
        ),
        "What is it compared with?": (
            "the default configuration, on the same test seeds and with as many environment steps" if tested_on else ""
        ),
        "How is the result stated?": (
            "interquartile mean over test seeds (not used for any selection), with a 95 % bootstrap interval"
            if tested_on
            else ""
        ),
    }
