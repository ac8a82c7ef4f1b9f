"""The study that several environments make together."""

import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
from omegaconf import DictConfig, OmegaConf

from note_rl.errors import NoteRLError
from tuner.checking.env_names import GROUP
from tuner.checking.section_types import StudyConfig
from tuner.commands.preflight import check_command
from tuner.commands.study_from_config import define, joined
from tuner.config.composition import REFERENCE, run_config_of
from tuner.config.paths import get_path
from tuner.config.typed_command import typed_line
from tuner.errors import UserError
from tuner.features.environments.scales import ScoreScale, check_scale
from tuner.features.environments.typed import SETTING, as_typed, in_environment
from tuner.results.metric import METRICS, TargetMetric, make_metric
from tuner.results.protocol import DEFAULT_BASELINE, StudySettings
from tuner.results.records import ONE_CHANGED
from tuner.runs.build import build_wrappers, reward_wrappers
from tuner.runs.config_checks import resolve
from tuner.runs.functions import function_name, is_function
from tuner.study import StudyDefinition
from tuner.study.definition import StudyEnvironment, judged_part
from tuner.study.features import check_definition
from tuner.support.names import is_folder_name
from tuner.trial.messages import JsonDict

_MOST_NAMED = 3


def define_in_all(config: DictConfig, overrides: Sequence[str], config_dir: str | Path | None) -> StudyDefinition:
    """The study of a configuration for several environments, each with the config that it would have alone.

    Args:
        config: With the names of the environments.
        overrides: As typed.
        config_dir: The user's own folder of groups.

    Raises:
        UserError: Something does not fit one of them, or they do not fit together.
    """
    names = list(config.study.environments)
    _check_names(names, StudyConfig(**resolve(config)["study"]))
    _refuse_for_all(overrides)
    _refuse_baselines(overrides)
    study = _name_of(config, names)
    alone: dict[str, StudyDefinition] = {}
    environments = []
    for name in names:
        typed = in_environment(overrides, name)
        try:
            own = check_command("tune", typed, config_dir, multirun=True).config  # of a sweep, the first study
            OmegaConf.update(own, "study.name", study)  # what the storage has of it is that of all of them
            alone[name] = define(own, typed, config_dir)
        except (UserError, NoteRLError) as error:
            raise UserError(f"in {GROUP}={name}: {error}") from error
        _check_rewards(typed, alone[name].config, config_dir)
        random, good = _reference(name, own, alone[name])
        environments.append(StudyEnvironment(name, alone[name].config, good, random, alone[name].configure))
    first = alone[names[0]]
    _check_together(alone)
    fits = all(DEFAULT_BASELINE in one.warm_start for one in alone.values())
    points = [first.space.drawn(one.config) for one in alone.values()] if fits else []
    starts = {
        name: config
        for name, config in first.warm_start.items()
        if name != DEFAULT_BASELINE and not name.startswith(ONE_CHANGED)
    }
    found = replace(
        first,
        warm_start=first.warm_start if fits and all(point == points[0] for point in points) else starts,
        environments=tuple(environments),
        settings=replace(first.settings, baselines=()),  # each known configuration is one of a single environment
        known={},
        facts={**first.facts, "command": typed_line("tune", as_typed(overrides), config_dir), "pruner": ""},
    )
    check_definition(found)
    return found


def _name_of(config: DictConfig, names: Sequence[str]) -> str:
    """The name of the study: that which is typed, or one of agent, environments, framework and size."""
    if config.study.name is not None:
        return str(config.study.name)
    run = run_config_of(resolve(config))
    world = [_short_name(names), *([] if is_function(run) else [run["backend"]["name"]])]
    return joined(function_name(run).lower(), *world, config.study.size, config.seed)


def _check_names(names: Sequence[str], settings: StudySettings) -> None:
    typed = f"{GROUP}=[{','.join(map(str, names))}]"
    if not names:
        raise UserError(f"{typed} names no environment: list two or more, such as env=[cartpole,acrobot]")
    if len(set(names)) == 1:
        raise UserError(f"{typed} names one environment only: type env={names[0]}, or list another one beside it")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{typed} names {twice} twice: leave one of them out")
    nested = next((name for name in names if not is_folder_name(name)), None)
    if nested is not None:
        raise UserError(f"{SETTING}: {nested!r} is a folder's name too: give it a plain file in env/")
    if isinstance(make_metric(settings.first_metric), TargetMetric):
        raise UserError(
            f"study.metric={settings.first_metric} names a return of one environment, and there are several: type "
            f"{', '.join(METRICS)}"
        )
    if settings.others:
        raise UserError(
            f"study.metric names several objectives, and of several environments there is one score: type "
            f"study.metric={settings.first_metric}"
        )


def _short_name(names: Sequence[str]) -> str:
    """Short name of several environments, for the name of a study."""
    if len(names) <= _MOST_NAMED:
        return "-".join(names)
    return f"{names[0]}-and-{len(names) - 1}-more-{zlib.crc32(','.join(names).encode()):08x}"


def _refuse_for_all(overrides: Sequence[str]) -> None:
    """Refuses what says which environment it is, or what its returns are worth: typed, it is said of all of them."""
    changing = (("id", "="), ("max_episode_steps", "="), ("kwargs", "=."), (REFERENCE, "=."))
    told = tuple(f"{GROUP}.{key}{end}" for key, ends in changing for end in ends)
    typed = next((word for word in overrides if word.lstrip("+").startswith(told)), None)
    if typed is not None:
        raise UserError(
            f"{typed} would hold for every environment of the study: leave it out, or give it a file of its own, "
            f"my_conf/{GROUP}/NAME.yaml with --config-dir my_conf"
        )


def _check_rewards(typed: Sequence[str], config: JsonDict, config_dir: str | Path | None) -> None:
    """Refuses typed wrappers that change rewards: the returns in the file of an environment are those of that file."""
    chosen = [word for word in typed if word.lstrip("+~").startswith(("wrapper=", "wrapper."))]
    if not chosen:
        return
    plain = check_command("tune", [word for word in typed if word not in chosen], config_dir, multirun=True).config
    of_its_own = _changing_rewards(resolve(plain))
    changed = next((name for name, node in _changing_rewards(config).items() if of_its_own.get(name) != node), None)
    if changed is not None:
        raise UserError(
            f"{chosen[0]}: wrapper.{changed} changes rewards, and the returns that scores are compared by, "
            f"{GROUP}.{REFERENCE}, are those without it: write both into a file of each environment, "
            f"my_conf/{GROUP}/NAME.yaml with --config-dir my_conf"
        )


def _changing_rewards(config: JsonDict) -> JsonDict:
    nodes: JsonDict = config.get("wrapper") or {}
    return {name: nodes[name] for name in reward_wrappers(nodes, build_wrappers({"wrapper": nodes}))}


def _refuse_baselines(overrides: Sequence[str]) -> None:
    """Refuses baselines, where they were asked for; the default configuration is one in any case."""
    off = (DEFAULT_BASELINE, f"[{DEFAULT_BASELINE}]")
    typed = [word for word in overrides if word.lstrip("+").partition("=")[0] == "study.baselines"]
    asked = next((word for word in typed if word.partition("=")[2] not in off), None)
    if asked is not None:
        raise UserError(
            f"{asked} names configurations for one environment each, and this study has several, in which the winner "
            "is compared with the default configuration: leave it out"
        )


def _check_together(alone: dict[str, StudyDefinition]) -> None:
    """Refuses environments that would not be searched alike."""
    (first, one), *others = alone.items()
    for name, other in others:
        if changed := other.space.difference(one.space.describe()):
            raise UserError(f"{GROUP}={name} and {GROUP}={first} have different search spaces: {changed[0]}")
        if judged_part(other.config) == judged_part(one.config):
            raise UserError(f"{GROUP}={name} and {GROUP}={first} are the same environment: leave one of them out")
        for parameter in one.space.parameters:
            for path in parameter.rests_on:
                values = [get_path(each.config, path) for each in (one, other)]
                if values[0] != values[1]:
                    raise UserError(
                        f"space.{parameter.path} follows {path}, which is {values[0]} in {first} and {values[1]} "
                        f"in {name}: type {path}={values[0]} for both"
                    )


def _reference(name: str, config: DictConfig, alone: StudyDefinition) -> tuple[float | None, float]:
    """The returns of a random and of a good policy, from the file of the environment or else from Gymnasium.

    None for the random one: it is measured. The good one has to be known.
    """
    told = OmegaConf.select(config, f"{GROUP}.{REFERENCE}")
    found: dict[str, Any] = dict(told) if OmegaConf.is_dict(told) else {}
    given = all(key in ("random", "good") and _is_number(value) for key, value in found.items())
    if (told is not None and not OmegaConf.is_dict(told)) or not given:
        raise UserError(f"{GROUP}={name}: {GROUP}.{REFERENCE} must be numbers, {{random: ..., good: ...}}")
    good = found.get("good", _threshold(alone.config))
    if good is None:
        raise UserError(
            f"{GROUP}={name}: its good return is not known, so its scores cannot be compared with those of other "
            f"environments. Write it into its file: {REFERENCE}: {{good: ...}}, and random: ... if that is known, too"
        )
    random = found.get("random")
    if random is None and alone.probe is None:
        raise UserError(
            f"{GROUP}={name}: a function has no random policy to be measured; write the return of one into its file, "
            f"{GROUP}: {{{REFERENCE}: {{random: ..., good: ...}}}}"
        )
    if random is not None:
        check_scale(name, ScoreScale(float(random), float(good)))
    return None if random is None else float(random), float(good)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _threshold(config: dict[str, Any]) -> float | None:
    """Gymnasium's own for an environment that it knows as it stands: with other arguments it is another one."""
    env = config.get("env") or {}
    if env.get("kwargs") or env.get("max_episode_steps") is not None or config.get("wrapper"):
        return None
    try:
        return gymnasium.spec(env["id"]).reward_threshold
    except (gymnasium.error.Error, KeyError, ImportError):
        return None
