"""How a population searches in place of screening, and what is kept and shown of it."""

import json
from dataclasses import asdict, replace

from tuner.errors import UserError
from tuner.features.population.evolution import Evolution
from tuner.features.population.facts import EVOLVE, STATIC
from tuner.features.population.knobs import check_evolution, knobs, scheduled
from tuner.features.population.member_registry import PopulationRegistry, SegmentJudge
from tuner.results.metric import TargetMetric
from tuner.results.number_format import join_words
from tuner.results.records import CONFIRM, Descent, RunRecord
from tuner.results.selection import choose_winner
from tuner.study.definition import Candidate, StudyDefinition
from tuner.study.dispatch import Stage
from tuner.study.features import Bench, InStudy
from tuner.study.run_registry import Run
from tuner.study.storage.store import WINNER
from tuner.trackers.base import PartOfRun, RunInfo
from tuner.trial.messages import JsonDict

_ABOUT = (
    "Each member of the population has its own seeds. Its score is usually too high, as agents were selected by it. "
    "The result is the score of schedules that are replayed from scratch."
)


def _check(definition: StudyDefinition) -> None:
    evolution, metric = definition.search, definition.metric
    if not isinstance(evolution, Evolution):
        return
    if definition.part_names:
        raise UserError(
            "study=pbt compares members by returns of one environment while they train: name one, env=NAME, or "
            "search with study=quick or study=full"
        )
    if isinstance(metric, TargetMetric):
        raise UserError(
            f"study.metric={metric.name} has no meaning with study=pbt: members are compared while they train, "
            "and all that have reached the target are equal; use final, auc or mixed, or "
            "study=quick"
        )
    check_evolution(evolution, definition.space, definition.config)


def _plan_rows(definition: StudyDefinition) -> list[tuple[str, str]]:
    """The parameters that evolve, and those that follow a schedule; the rest is drawn once for each member."""
    if not isinstance(definition.search, Evolution):
        return []
    space, config = definition.space, definition.config
    rows = [("evolving", join_words([one.path for one in knobs(space, config).values()]))]
    of_schedules = scheduled(space, config)
    return rows + [("scheduled", f"{one.path}; with ~schedule.{name} it evolves") for name, one in of_schedules.items()]


def _find(bench: Bench) -> list[Candidate]:
    """Has a population evolve: its best schedule and its best static configuration, each replayed and confirmed."""
    study, settings = bench.study, bench.definition.settings
    if not isinstance(bench.definition.search, Evolution):
        return []
    registry = PopulationRegistry(study, bench.definition)
    if registry.num_open or registry.num_entered < registry.total:
        study.set_user_attr(WINNER, None)
    bench.listener.on_stage(EVOLVE, registry.total, (*registry.records(), *bench.later()))
    bench.run_stage(Stage(registry, SegmentJudge(registry)))
    groups = [found[: settings.num_candidates] for found in (registry.schedules(), registry.statics())]
    confirmed = bench.run_seeds(CONFIRM, [one for group in groups for one in group], settings.num_select_seeds)
    chosen = list(filter(None, (choose_winner(confirmed, group, settings.over_seeds) for group in groups)))
    if not chosen:
        raise bench.nothing_confirmed()
    study.set_user_attr(STATIC.kept_as, chosen[-1].label if len(chosen) > 1 else None)
    study.set_user_attr(WINNER, chosen[0].label)
    return chosen


def _described(definition: StudyDefinition) -> JsonDict:
    evolution = definition.search
    if not isinstance(evolution, Evolution):
        return {}
    return {"evolution": {**asdict(evolution), "members": definition.settings.num_trials}}


def _changed(*definitions: JsonDict) -> list[str]:
    before, now = (json.loads(json.dumps(one.get("evolution"))) for one in definitions)
    return [f"evolution was {before} and is {now}"] if before != now else []


def _told(about: RunInfo, descent: Descent | None, run: Run | RunRecord) -> RunInfo:
    """With where a run stands in the tree; while it runs, as a part of that of its member."""
    if descent is None:
        return about
    member = f"member {descent.member}"
    about = replace(
        about,
        name=f"{run.stage}/{run.number} ({member}, generation {descent.generation})",
        tags=(*about.tags, member),
        config={**about.config, "population": asdict(descent)},
    )
    return replace(about, part=_of_member(about, run, descent)) if isinstance(run, Run) else about


def _of_member(about: RunInfo, run: Run, descent: Descent) -> PartOfRun:
    """A member may be shown as one run; each generation begins with its place in the tree and its values."""
    assert about.group_folder is not None
    member = f"member {descent.member}"
    folder = about.group_folder / "members" / str(descent.member)
    whole = replace(about, name=member, folder=folder, tags=(run.stage, member))
    tree = {"generation": descent.generation, "parent": descent.parent}
    begins_with = {
        f"population/{name}": value
        for name, value in {**tree, **run.values}.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return PartOfRun(whole, begins_with)


PART = InStudy(
    check=_check,
    find=_find,
    first_stage=lambda about: EVOLVE if about.get("evolution") else "",
    unpruned=lambda about: _ABOUT if about.get("evolution") else "",
    described=_described,
    changed=_changed,
    plan_rows=_plan_rows,
    tracked=_told,
)
