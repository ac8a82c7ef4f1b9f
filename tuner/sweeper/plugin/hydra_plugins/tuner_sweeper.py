"""What Hydra finds of `tuner`: the sweeper `hydra/sweeper=optuna`, its samplers and its pruners.

Every Hydra application imports this file, whatever it is about, so it loads nothing but Hydra: all else is imported
when a sweep begins. The build puts the file into the top-level namespace package `hydra_plugins`, where Hydra looks.

A setting that is null is not set: Optuna's default, or ours in `tuner.sweeper.settings`, holds.
"""

from collections.abc import Iterable
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class OptunaSweeper(Sweeper):
    """Runs the jobs of a sweep as trials of an Optuna study.

    Args:
        settings: The node `hydra.sweeper`, see `tuner.sweeper.settings`.
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
        from tuner.sweeper.job import HydraApp
        from tuner.sweeper.run import run_sweep

        assert self.hydra_context is not None
        assert self.config is not None
        return run_sweep(HydraApp(self.hydra_context, self.task_function, self.config), self._settings, arguments)


_SAMPLERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "tpe": ("TPESampler", ("n_startup_trials", "n_ei_candidates", "multivariate", "group", "constant_liar")),
    "motpe": ("TPESampler", ("n_startup_trials", "n_ei_candidates")),  # TPE has several objectives of its own by now
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
    "study_name": None,  # the same name continues the same study
    "storage": "sqlite:///studies.db",  # null: nothing is kept
    "max_failure_rate": None,
    # those of `tuner tune`
    "num_trials": None,
    "parallel": None,
    "name": None,
    "retries": None,  # how often a job that crashed is started again
    "max_failures": None,  # so many failures in a row end the sweep
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
