"""Hydra's plugin of `tuner`: the sweeper `hydra/sweeper=optuna`, its samplers, pruners and executors.

Every Hydra application imports this file, whatever it is about, so it loads nothing but Hydra: all else is imported
when a sweep begins. The build puts the file into the top-level namespace package `hydra_plugins`, where Hydra looks.

A setting that is null is not set: Optuna's default, or ours in `tuner.sweeper.sweeper_settings`, holds.
"""

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

_EXECUTOR = "executor"


class OptunaSweeper(Sweeper):
    """Runs the jobs of a sweep as trials of an Optuna study.

    Args:
        settings: The node `hydra.sweeper`, see `tuner.sweeper.sweeper_settings`.
    """

    def __init__(self, **settings: Any) -> None:
        self._settings = settings

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Takes what Hydra has; the launcher is not made, as jobs are started by the sweeper itself."""
        self.hydra_context = hydra_context
        self.task_function = task_function
        self.config = config

    def sweep(self, arguments: list[str]) -> Any:
        """Runs the sweep, or what is left of it; returns what optimization_results.yaml says."""
        from tuner.sweeper.hydra_job import HydraApp
        from tuner.sweeper.run import run_sweep

        assert self.hydra_context is not None
        assert self.config is not None
        return run_sweep(HydraApp(self.hydra_context, self.task_function, self.config), self._settings, arguments)


class OptunaSweeperOfOldConfigs(OptunaSweeper):
    """The same under the path that configurations for hydra-optuna-sweeper name as their `_target_`.

    Hydra knows a plugin by its module and name, and makes it by its module and qualified name.
    """


if importlib.util.find_spec("hydra_plugins.hydra_optuna_sweeper") is None:  # or that one is meant
    OptunaSweeperOfOldConfigs.__module__ = "hydra_plugins"
    OptunaSweeperOfOldConfigs.__name__ = "hydra_optuna_sweeper.optuna_sweeper.OptunaSweeper"
    OptunaSweeperOfOldConfigs.__qualname__ = f"tuner_sweeper.{OptunaSweeper.__name__}"


class ExecutorSource(ConfigSource):
    """The group `executor` of `tuner`, for `+executor@hydra.sweeper.executor=NAME` in other applications.

    It stands last in the search path, so an application's own files come first, and is in no list of groups.
    """

    @staticmethod
    def scheme() -> str:
        """Of its path."""
        return "tuner"

    def available(self) -> bool:
        """Always."""
        return True

    def is_group(self, config_path: str) -> bool:
        """There is one only."""
        return config_path.strip("/") == _EXECUTOR

    def is_config(self, config_path: str) -> bool:
        """Whether there is such a choice."""
        group, _, _ = config_path.rpartition("/")
        return self.is_group(group) and self._file(config_path) is not None

    def load_config(self, config_path: str) -> ConfigResult:
        """The choice, without what refers to a configuration of ours."""
        file = self._file(config_path)
        if file is None:
            raise ConfigLoadError(f"Config not found : {config_path}")
        config = OmegaConf.load(file)
        if isinstance(config, DictConfig) and "backend" in config:
            config["backend"] = "none"
        return ConfigResult(provider=self.provider, path=self.full_path(), config=config, header={"package": None})

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """The choices."""
        if not self.is_group(config_path) or results_filter == ObjectType.GROUP:
            return []
        return sorted({file.stem for folder in self._folders() for file in folder.glob("*.yaml")})

    def _file(self, config_path: str) -> Path | None:
        found = (folder / _file_name(config_path) for folder in self._folders())
        return next((file for file in found if file.is_file()), None)

    def _folders(self) -> Iterable[Path]:
        """Ours, and those that installed packages bring."""
        from tuner.config.composition import conf_folder
        from tuner.config.installed_groups import installed_folders

        return [folder / _EXECUTOR for folder in (conf_folder(), *installed_folders(conf_folder()))]


def _file_name(config_path: str) -> str:
    """The file of a choice, which may be named with or without its ending."""
    return f"{config_path.rpartition('/')[2].removesuffix('.yaml')}.yaml"


class ExecutorSearchPath(SearchPathPlugin):
    """Puts the group `executor` behind all that an application has itself."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Called by Hydra."""
        search_path.append(provider="tuner", path=f"{ExecutorSource.scheme()}://{_EXECUTOR}")


_SAMPLERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "tpe": ("TPESampler", ("n_startup_trials", "n_ei_candidates", "multivariate", "group", "constant_liar")),
    "motpe": ("TPESampler", ("n_startup_trials", "n_ei_candidates")),  # TPE takes more than one objective itself
    "random": ("RandomSampler", ()),
    "gp": ("GPSampler", ("n_startup_trials", "deterministic_objective")),
    "cmaes": ("CmaEsSampler", ("x0", "sigma0", "n_startup_trials", "warn_independent_sampling", "popsize")),
    "qmc": ("QMCSampler", ("qmc_type", "scramble", "warn_asynchronous_seeding", "warn_independent_sampling")),
    "nsgaii": ("NSGAIISampler", ("population_size", "mutation_prob", "crossover_prob", "swapping_prob")),
    "nsgaiii": ("NSGAIIISampler", ("population_size", "mutation_prob", "crossover_prob", "swapping_prob")),
    "grid": ("GridSampler", ()),
    "brute_force": ("BruteForceSampler", ("avoid_premature_stop",)),
}
_PRUNERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "none": ("NopPruner", ()),
    "median": ("MedianPruner", ("n_startup_trials", "n_warmup_steps", "interval_steps", "n_min_trials")),
    "percentile": ("PercentilePruner", ("percentile", "n_startup_trials", "n_warmup_steps", "interval_steps")),
    "asha": ("SuccessiveHalvingPruner", ("min_resource", "reduction_factor", "min_early_stopping_rate")),
    "hyperband": ("HyperbandPruner", ("min_resource", "max_resource", "reduction_factor")),
    "threshold": ("ThresholdPruner", ("lower", "upper", "n_warmup_steps", "interval_steps")),
}
_SETTINGS = {
    # those of hydra-optuna-sweeper
    "direction": None,  # minimize, maximize, or a list of them: required
    "n_trials": None,  # jobs in all, those of earlier sessions included
    "n_jobs": None,  # jobs at a time
    "params": None,  # what is searched, in Hydra's sweep grammar; the command line is added to it
    "search_space": None,  # an older form of params
    "custom_search_space": None,  # MODULE.FUNCTION, called with config and trial: adds parameters to a job
    "study_name": None,  # the same name continues the same study
    "storage": "sqlite:///studies.db",  # null: nothing is kept
    "max_failure_rate": None,
    # those of this sweeper
    "report": True,  # false: no page is written at the end
    # those of `tuner tune`
    "num_trials": None,
    "parallel": None,
    "name": None,
    "retries": None,  # how often a job that crashed is started again
    "max_failures": None,  # failures in a row that end the sweep
    "threads": None,  # of each job
    "isolation": None,
    "gpus": "auto",  # dealt out, one to each job; null: every job sees all that there are
    "wall_s": None,
    "memory_mb": None,
    "silence_s": None,
    "grace_s": None,
    # in place of processes of this machine, and of these settings but parallel: +executor@hydra.sweeper.executor=NAME
    "executor": None,
}


def _store(group: str, name: str, node: dict[str, Any]) -> None:
    ConfigStore.instance().store(group=group, name=name, node=node, provider="tuner")


def _node(module: str, kind: str, options: Iterable[str]) -> dict[str, Any]:
    return {"_target_": f"optuna.{module}.{kind}", **dict.fromkeys(options)}


for _name, (_kind, _options) in _SAMPLERS.items():
    _store("hydra/sweeper/sampler", _name, _node("samplers", _kind, ("seed", *_options)))
for _name, (_kind, _options) in _PRUNERS.items():
    _store("hydra/sweeper/pruner", _name, _node("pruners", _kind, _options))
_store(
    "hydra/sweeper",
    "optuna",
    {
        "defaults": ["_self_", {"sampler": "tpe"}, {"pruner": None}],  # behind what stands here, or its null would win
        "_target_": f"{OptunaSweeper.__module__}.{OptunaSweeper.__name__}",
        "_recursive_": False,  # samplers and pruners are made when the sweep begins
        "_convert_": "all",
        "pruner": None,  # every job runs to its end
        **_SETTINGS,
    },
)
