"""The study that a composed config describes, and the checks that refuse one before anything is written."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from note_rl.errors import NoteRLError
from tuner.checking.features import InChecking
from tuner.checking.hydra_messages import parse_overrides
from tuner.checking.section_types import StudyConfig
from tuner.commands.baselines import KnownConfigs
from tuner.commands.features import InCommands
from tuner.commands.first_trials import first_names, with_first_trials
from tuner.commands.space_check import check_space
from tuner.config.composition import BUILT_MAPPINGS, RUN_PARTS, run_config_of, with_section_defaults
from tuner.config.paths import flatten, targets_in
from tuner.config.trust import admit_changes, trusted_modules
from tuner.config.typed_command import typed_line
from tuner.errors import UserError
from tuner.executors.executor_factory import check_executor
from tuner.features import parts
from tuner.results.number_format import describe_part
from tuner.results.records import EARLIER_STUDY
from tuner.runs.build import build_node, check_trackers
from tuner.runs.config_checks import checked_run, resolve
from tuner.runs.functions import ENTRY as FUNCTION_ENTRY
from tuner.runs.functions import PROBE as FUNCTION_PROBE
from tuner.runs.functions import function_name, has_random_policy, is_function
from tuner.study import StudyDefinition, StudyStore, quiet_optuna
from tuner.study.budget import check_budget
from tuner.study.features import check_definition
from tuner.study.sampling.sampler_factory import (
    SamplerFactory,
    make_sampler,
    require_objectives,
    require_packages,
    require_pruner,
)
from tuner.study.space.space import Space
from tuner.study.storage.open_storage import check_url, has_studies
from tuner.study.storage.store import BY_CHANCE, DEFINITION
from tuner.trial.messages import JsonDict

_DOWNLOADED = "tuner.hub"
_WALKS = ("grid", "GridSampler", "BruteForceSampler")
"""Names of the samplers that try each point of a list once."""
_MOST_RESOLVED = 64


def check_study(config: DictConfig, overrides: Sequence[str], config_dir: str | Path | None = None) -> StudyDefinition:
    """Refuses a search that cannot be; returns the study.

    Raises:
        UserError: Says what is wrong with it.
    """
    definition, resolved = define(config, overrides, config_dir), resolve(config)
    check_workplace(resolved)
    for part in parts(InChecking):
        part.typed(StudyConfig(**resolved["study"]), overrides)
    check_budget(definition)
    _check_search(definition, resolved)
    for one in definition.part_names or ("",):
        check_space(definition.within(one))
    _check_baselines(definition)
    return definition


def check_workplace(resolved: JsonDict) -> None:
    """Refuses a storage, an executor or a tracker that cannot be. Opens and starts nothing.

    Raises:
        UserError: Says what is wrong with it.
    """
    check_url(resolved["storage"]["url"])
    check_executor(resolved["executor"])
    check_trackers(resolved.get("tracker"))


def search_parts(resolved: JsonDict) -> tuple[SamplerFactory, Any]:
    """The sampler's factory, and the pruner.

    Raises:
        UserError: One of them cannot be built, or needs a package that is not installed.
    """
    for part in ("sampler", "pruner"):
        require_packages(str(resolved[part]["_target_"]).rpartition(".")[2])
    with quiet_optuna():
        sampler: SamplerFactory = build_node("sampler", {**resolved["sampler"], "_partial_": True})
        pruner = require_pruner(build_node("pruner", resolved["pruner"]))
    return sampler, pruner


def _check_search(definition: StudyDefinition, resolved: JsonDict) -> None:
    """Makes sampler and pruner once, unless their code would have to be downloaded for that."""
    if _DOWNLOADED not in (resolved["sampler"]["_target_"], resolved["pruner"]["_target_"]):
        sampler, _ = search_parts(resolved)
        require_objectives(sampler, len(definition.directions))
        make_sampler(sampler, definition.seed, 0, definition.space)


def _check_baselines(definition: StudyDefinition) -> None:
    for name, config in definition.known.items():
        try:
            checked_run({**config, "seed": 0})
        except (UserError, NoteRLError) as error:
            raise UserError(f"study.baselines={name}: no run can have its settings here: {error}") from error


def define(config: DictConfig, overrides: Sequence[str] = (), config_dir: str | Path | None = None) -> StudyDefinition:
    """The study that a composed config describes.

    Raises:
        UserError: Its search or its sizes make no sense.
    """
    found = _define(config, overrides, config_dir)
    if not config.study.as_begun:
        return found
    resolved = resolve(config)
    begun, before = config.copy(), _begun(str(resolved["storage"]["url"]), found.name)
    if before is None:
        raise UserError(f"study.as_begun=true, and no study {found.name} was begun: leave it out, or name one that was")
    begun.study.as_begun = False
    typed = {override.key_or_group for override in parse_overrides(overrides)}
    added = found.space.added_to(before["space"])
    if own := [f"space.{path}" for path in added if f"space.{path}" in typed]:
        raise UserError(
            f"study.as_begun=true: {found.name} goes on with the space that it was begun with, and {own[0]} is typed: "
            f"leave {own[0]} out, or begin another study with study.name={found.name}-2 and without study.as_begun"
        )
    settings, trust = _settings_of_before(found, before, typed), trusted_modules(resolved.get("trust"))
    admit_changes(found.config, settings, f"the storage of study {found.name}", trust)
    for path, value in settings.items():
        OmegaConf.update(begun, path, value, merge=False)
    _leave_out(begun, [*(f"space.{path}" for path in added), *_entries_of_since(found, before, typed)])
    return _define(begun, overrides, config_dir)


def _leave_out(config: DictConfig, paths: Sequence[str]) -> None:
    """Removes what is at these config paths."""
    OmegaConf.set_struct(config, False)
    for path in paths:
        section, _, name = path.rpartition(".")
        del OmegaConf.select(config, section)[name]
    OmegaConf.set_struct(config, True)


def _entries_of_since(now: StudyDefinition, before: JsonDict, typed: Collection[str]) -> list[str]:
    """Schedules and wrappers that a study was begun without and that are there now, by config path, but typed ones."""
    return [
        path
        for section in BUILT_MAPPINGS
        for name in now.config.get(section) or {}
        if name not in (before["config"].get(section) or {})
        and not {section, path := f"{section}.{name}"}.intersection(typed)
    ]


def _settings_of_before(now: StudyDefinition, before: JsonDict, typed: Collection[str]) -> JsonDict:
    """Settings that a study was begun with and that have another value now, by config path, except typed ones."""
    then, after = (flatten(with_section_defaults(one)) for one in (before["config"], now.config))
    return {path: value for path, value in then.items() if after.get(path, value) != value and path not in typed}


def _define(config: DictConfig, overrides: Sequence[str], config_dir: str | Path | None) -> StudyDefinition:
    known = (part.defined(config, overrides, config_dir) for part in parts(InCommands))
    if (of_a_feature := next(filter(None, known), None)) is not None:
        return of_a_feature
    resolved = resolve(config)
    study = resolved["study"]
    run_config = run_config_of(resolved)

    template = config.copy()
    resolved_before: dict[str, JsonDict] = {}  # a candidate has the same values on each seed, and in what is said of it

    def configure(values: JsonDict) -> JsonDict:
        key = repr(values)
        if key not in resolved_before:
            if len(resolved_before) >= _MOST_RESOLVED:
                resolved_before.clear()
            with _holding(template, values):
                resolved_before[key] = run_config_of(resolve(template, RUN_PARTS))
        return resolved_before[key]

    agent = function_name(run_config).lower()
    settings = StudyConfig(**study)
    search = settings.search
    configs = KnownConfigs(run_config, config_dir)
    name = study["name"] or _default_name(agent, run_config, study["size"], resolved["seed"])
    begun = cache(partial(_begun, str(resolved["storage"]["url"]), name))
    space = Space.from_config(resolved["space"], run_config, _fixed(overrides))
    is_plain = search is None and settings.num_trials > 1
    tries_default = is_plain and _may_try(resolved["sampler"], space, run_config)
    starts = first_names(resolved["warm_start"], tries_default, begun)
    baselines = configs.baselines(settings.baselines)
    described = {part: describe_part(resolved[part]) for part in ("sampler", "pruner")}
    found = StudyDefinition(
        name=name,
        config=run_config,
        space=space,
        settings=replace(settings, baselines=tuple(baselines)),
        search=search,
        decision=settings.decider(begun),
        seed=resolved["seed"],
        agent=agent,
        folder=Path(study["folder"]),
        configure=configure,
        warm_start=configs.starts([name for name in starts if not name.startswith(EARLIER_STUDY)]),
        known=baselines,
        features=_of_features(resolved),
        facts={
            "command": typed_line("tune", overrides, config_dir),
            **(described if search is None else {"sampler": search.name, "pruner": ""}),
            **({} if _in_fixed_order(resolved["executor"]) else {BY_CHANCE: "as trials end"}),
        },
    )
    found = with_first_trials(found, resolved["warm_start"], str(resolved["storage"]["url"]), begun)
    check_definition(found)
    if not is_function(run_config):
        return found
    return replace(found, entry=FUNCTION_ENTRY, probe=FUNCTION_PROBE if has_random_policy(run_config) else None)


def _may_try(sampler: JsonDict, space: Space, run_config: JsonDict) -> bool:
    """Whether a search may begin with the default configuration: it is in the space, and no list of points is tried.

    Priors do not take its place: without it, the regret was higher by 30 to 84 (`tests/benchmarks/search.md`). One
    that is the configuration of all priors is tried once.
    """
    names = {str(node["_target_"]).rpartition(".")[2] for _, node in targets_in(sampler)}  # one may be in another
    if names & {*_WALKS}:
        return False
    try:
        point = space.drawn(run_config)
    except (UserError, ArithmeticError, TypeError):
        return False
    expected = [(one.name, one.prior) for one in space.parameters if one.has_prior]
    return not expected or any(point.get(name) != prior for name, prior in expected)


def _begun(url: str, name: str) -> JsonDict | None:
    """The definition of a study as a storage has it; None: there is no such study."""
    check_url(url)
    if not has_studies(url):
        return None
    with StudyStore(url) as store:
        study = store.find(name)
        return None if study is None else study.user_attrs.get(DEFINITION)  # of one that died at its birth: nothing


def _of_features(resolved: JsonDict) -> dict[str, JsonDict]:
    """The settings of features, by their group."""
    return {name: resolved[name] for part in parts(InChecking) for name in part.sections if resolved.get(name)}


@contextmanager
def _holding(config: DictConfig, values: JsonDict) -> Iterator[None]:
    """Gives a config these values within the block: copying it for them takes several times as long."""
    before = {path: _as_written(config, path) for path in values}
    try:
        for path, value in values.items():
            OmegaConf.update(config, path, value, merge=False)
        yield
    finally:
        for path, value in before.items():
            OmegaConf.update(config, path, value, merge=False)


def _as_written(config: DictConfig, path: str) -> Any:
    """Returns the value at a path, a reference as what refers."""
    parent, _, key = path.rpartition(".")
    node: Any = OmegaConf.to_container(OmegaConf.select(config, parent) if parent else config, resolve=False)
    return node[int(key)] if isinstance(node, list) else node[key]


def _in_fixed_order(executor: JsonDict) -> bool:
    """Whether the same study is the same to the last digit when it is run again."""
    return executor.get("parallel", 1) == 1 or str(executor["_target_"]).endswith(".InlineExecutor")


def _default_name(agent: str, config: JsonDict, size: str, seed: int) -> str:
    world = [config["env"]["id"]] if config.get("env") else []
    world += [] if is_function(config) else [config["backend"]["name"]]
    return joined(agent, *world, size, seed)


def joined(*words: str | int) -> str:
    """The name of a study that nobody has given one; a seed of 0 is not in it."""
    *parts, seed = words
    parts += [f"seed{seed}"] if seed else []
    return re.sub(r"[^\w.=-]+", "-", "-".join(map(str, parts)))


def _fixed(overrides: Sequence[str]) -> set[str]:
    """The settings that were typed; choices of groups are among them and do no harm."""
    parsed = OverridesParser.create().parse_overrides(list(overrides))
    # what is added, by + or ++, is the default of a setting that may then be searched
    kept = [one for one in parsed if not (one.is_delete() or one.is_add() or one.is_force_add())]
    return {str(override.key_or_group) for override in kept}
