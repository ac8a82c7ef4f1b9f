"""How a study of several environments is measured, kept and compared with studies of one."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path

import optuna

from tuner.config.composition import with_section_defaults
from tuner.config.paths import config_difference
from tuner.features.environments.facts import ENVIRONMENTS, OWN_WINNERS, OwnWinner
from tuner.features.environments.part_registry import EnvironmentsRegistry
from tuner.features.environments.scales import ScoreScale, check_scale
from tuner.results.metric import Curve, Rescale
from tuner.results.number_format import format_number, join_words
from tuner.results.records import SCREEN, TEST
from tuner.study.definition import StudyDefinition, judged_part
from tuner.study.features import InStudy, Probe, Studies, first_stage
from tuner.study.run_registry import RunRegistry
from tuner.study.storage.store import DEFINITION, RANDOM_SCORE, WINNER
from tuner.study.storage.trial_records import read_records
from tuner.trial.messages import JsonDict


def _scales_of(study: optuna.Study) -> dict[str, ScoreScale]:
    return {name: ScoreScale(**scale) for name, scale in study.user_attrs.get(ENVIRONMENTS.kept_as, {}).items()}


def _prepare(definition: StudyDefinition, study: optuna.Study, probe: Probe) -> None:
    """The scale of each environment, fixed for good; in each, one process tries out what fits."""
    known = _scales_of(study)
    for number, one in enumerate(definition.environments):
        if one.name in known:
            continue
        random = one.random
        if definition.probe is not None:
            measured = probe(definition.within(one.name), number)
            random = measured if random is None else random
        assert random is not None, "a function has no random policy to be measured"
        known[one.name] = ScoreScale(random, one.good)
        check_scale(one.name, known[one.name])
        study.set_user_attr(ENVIRONMENTS.kept_as, {name: asdict(scale) for name, scale in known.items()})
    if known:
        study.set_user_attr(RANDOM_SCORE, 0.0)


def _rescale(study: optuna.Study) -> Rescale | None:
    scales = _scales_of(study)

    def rescale(name: str, curve: Curve) -> Curve:
        return scales[name].curve(curve) if name in scales else curve

    return rescale if scales else None


def _in_parts(registry: RunRegistry, definition: StudyDefinition, rescale: Rescale) -> RunRegistry | None:
    return EnvironmentsRegistry(registry, definition, rescale) if definition.environments else None


def _described(definition: StudyDefinition) -> JsonDict:
    about = {
        one.name: {"random": one.random, "good": one.good, "config": judged_part(one.config)}
        for one in definition.environments
    }
    return {"environments": about} if about else {}


def _changed(*definitions: JsonDict) -> list[str]:
    before, now = (one.get("environments") or {} for one in definitions)
    if list(before) != list(now):
        said = [join_words(names) or "one" for names in (before, now)]
        return [f"environments were {said[0]} and are {said[1]}"]
    changed = []
    for name in now:
        configs = (with_section_defaults(one[name]["config"]) for one in (before, now))
        changed += [f"in {name}, {line}" for line in config_difference(*configs)]
        changed += [
            f"the {key} return of {name} was {before[name][key]} and is {now[name][key]}"
            for key in ("random", "good")
            if before[name][key] != now[name][key]
        ]
    return changed


def _unpruned(about: JsonDict) -> str:
    why = "environments are trained in one after the other, and a run that is behind in one may be ahead in the next"
    return f"Nothing was pruned: {why}." if about.get("environments") else ""


def _plan_rows(definition: StudyDefinition) -> list[tuple[str, str]]:
    """A row for each environment: what a run in it takes, and its scale."""
    width = max((len(one.name) for one in definition.environments), default=0)
    rows = []
    for one in definition.environments:
        random = "measured first" if one.random is None else format_number(one.random)
        steps = one.config["training"]["total_steps"]
        scale = f"score 0: {random} (random policy), 1: {format_number(one.good)}"
        rows.append(f"{one.name:<{width}}  {steps:>9,} env steps  {scale}")
    return list(zip_longest(["environments"][: len(rows)], rows, fillvalue=""))


def _unit(study: optuna.Study) -> str:
    return "mean over environments (0: random policy, 1: good policy)" if _scales_of(study) else ""


def _seen(study: optuna.Study, studies: Studies, folder: Path) -> dict[str, object]:
    found = dict(_own_winners(study, studies, folder)) if _scales_of(study) else {}
    return {OWN_WINNERS.key: found} if found else {}


def _own_winners(study: optuna.Study, studies: Studies, folder: Path) -> dict[str, OwnWinner]:
    """Winners of studies of one of the environments alone, the latest of each."""
    several: JsonDict = study.user_attrs[DEFINITION]
    found: dict[str, OwnWinner] = {}
    for name, alone, tested in _alone(studies, studies.names()):
        about: JsonDict = alone.user_attrs[DEFINITION]
        label = alone.user_attrs.get(WINNER)
        for environment, one in (several.get("environments") or {}).items():
            if environment not in found and _is_alike(about, several, one["config"]):
                runs = read_records(tested, TEST, folder.parent / name)
                scores = [(run.seed, run.score) for run in runs if run.label == label and run.score is not None]
                if scores:
                    found[environment] = OwnWinner(name, tuple(scores))
    return found


def _alone(studies: Studies, names: Sequence[str]) -> Iterable[tuple[str, optuna.Study, optuna.Study]]:
    """Tested studies of one environment: their names, their first stage and their test."""
    for name in names:
        study, tested = studies.find(name), studies.find(name, TEST)
        about: JsonDict = study.user_attrs.get(DEFINITION, {}) if study is not None else {}
        is_alone = about and not about.get("environments") and first_stage(about) == SCREEN
        if study is not None and tested is not None and is_alone:
            yield name, study, tested


def _is_alike(alone: JsonDict, several: JsonDict, config: JsonDict) -> bool:
    """Whether a study of one environment measures what a study of several does in it, after as many steps."""
    same = all(alone.get(key) == several.get(key) for key in ("agent", "backend", "metric"))
    parts = ("env", "training", "evaluation", "wrapper", "wrapper_training")
    return same and all((alone["config"].get(part) or {}) == (config.get(part) or {}) for part in parts)


PART = InStudy(
    prepare=_prepare,
    rescale=_rescale,
    in_parts=_in_parts,
    described=_described,
    changed=_changed,
    unpruned=_unpruned,
    plan_rows=_plan_rows,
    unit=_unit,
    seen=_seen,
)
