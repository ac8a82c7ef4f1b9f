"""Whether what the checks accept can really be used: the run, the study, its sampler, its pruner, its executor."""

from contextlib import closing
from unittest import mock

import optuna
from omegaconf import DictConfig

from tests.fuzzing.lines import Line
from tuner.commands import play
from tuner.commands.study_from_config import define, run_config_of, search_parts
from tuner.config.composition import RunConfig
from tuner.runs.adaptation_comparison import runs_of
from tuner.runs.build import build_function, build_node, build_run
from tuner.runs.config_checks import resolve
from tuner.runs.functions import is_function
from tuner.study import StudyDefinition, StudyStore, quiet_optuna
from tuner.study.optuna_internals import suggest
from tuner.study.sampling.sampler_factory import make_sampler, num_distinct
from tuner.trial.forkclient import ForkServer
from tuner.trial.messages import JsonDict

NUM_TRIALS = 3
"""That sampler and pruner are asked for."""


def use(line: Line, config: DictConfig) -> None:
    """Makes everything that the command would make before it begins, and asks sampler and pruner a few times."""
    resolved = resolve(config)
    if line.command == "play":
        play.load_run(play.Path(resolved["run"]))
    if "agent" in resolved:
        _build(run_config_of(resolved))
    if line.command == "tune":
        _search(define(config, line.overrides), resolved)
    if line.command == "compare":
        assert all(RunConfig.from_json(told) for *_, told in runs_of(resolved, resolved["num_seeds"]))
    if "executor" in resolved:
        with mock.patch.object(ForkServer, "start"), closing(build_node("executor", resolved["executor"])) as executor:
            assert executor.free_slots >= 1
    if "storage" in resolved and resolved["storage"]["url"].startswith(("sqlite:", "journal:", "memory")):
        with StudyStore(resolved["storage"]["url"]) as store:
            store.names()


def _build(config: JsonDict) -> None:
    if is_function(config):
        build_function(config["agent"])
    else:
        build_run(RunConfig.from_json(config))


def _search(definition: StudyDefinition, resolved: JsonDict) -> None:
    factory, pruner = search_parts(resolved)
    sampler = make_sampler(factory, definition.seed, 0, definition.space)
    with quiet_optuna():
        study = optuna.create_study(sampler=sampler, pruner=pruner, directions=definition.directions)
    for _ in range(min(NUM_TRIALS, num_distinct(sampler, definition.space) or NUM_TRIALS)):
        trial = study.ask()
        drawn = definition.space.draw(suggest(trial))
        definition.run_config(definition.space.values(drawn, definition.config), seed=1)
        for point in range(1, 4) if len(definition.directions) == 1 else ():
            trial.report(float(point), point)
            trial.should_prune()
        study.tell(trial, [1.0] * len(definition.directions))
