"""Parameters that may change while an agent trains, and the schedule that a line of members has followed.

A run of a population and the replay of its history are made from the same settings, and do the same.
"""

import math
from collections.abc import Sequence
from typing import Final

from tuner.config.paths import get_path
from tuner.config.setting_declarations import declared_in
from tuner.errors import UserError
from tuner.features.population.evolution import Evolution
from tuner.results.number_format import join_words
from tuner.runs.pixels import has_memory
from tuner.study.schedule_text import Schedule, is_function
from tuner.study.space.coordinates import Bounds
from tuner.study.space.space import Parameter, Space
from tuner.trial.messages import JsonDict

_NAMES: Final = {
    **{f"optimizer.{name}": name for name in ("learning_rate", "weight_decay", "beta1", "beta2")},
    "policy.eps": "eps",
    "buffer.batch_size": "batch_size",
    "buffer.gradient_steps": "num_updates",
    "buffer.num_epochs": "num_updates",
    "buffer.target_update_interval": "update_interval",
    "buffer.priority.alpha": "alpha",
}
"""Config path -> name in `note_rl.settings.Adaptive.schedule`; fractions of the agent evolve under their own names."""


def knobs(space: Space, config: JsonDict) -> dict[str, Parameter]:
    """The parameters of a space that may change while training goes on, by their names in a schedule."""
    of_schedules = config.get("schedule", {})
    return {name: one for name, one in _changeable(space, config).items() if name not in of_schedules}


def scheduled(space: Space, config: JsonDict) -> dict[str, Parameter]:
    """Those that could, but follow a schedule of the configuration, by the names of these."""
    of_schedules = config.get("schedule", {})
    return {name: one for name, one in _changeable(space, config).items() if name in of_schedules}


def _changeable(space: Space, config: JsonDict) -> dict[str, Parameter]:
    of_function = is_function(config)
    if of_function and not _takes_schedule(config):
        return {}
    names = ((_name_of(parameter, config, of_function), parameter) for parameter in space.parameters)
    return {name: parameter for name, parameter in names if name is not None}


def _name_of(parameter: Parameter, config: JsonDict, of_function: bool) -> str | None:
    """None: it is fixed when training begins."""
    path = parameter.path
    if not isinstance(parameter.coordinate.domain, Bounds):
        return None
    if path == "buffer.batch_size" and has_memory(config.get("network") or {}):
        return None  # sequences of the length that the founder had would fill it, or leave a rest
    if not of_function and path in _NAMES:
        return _NAMES[path]
    section, _, name = path.partition(".")
    is_fraction = isinstance(get_path(config, path), float) and not parameter.coordinate.domain.integer
    if section != "agent" or "." in name or not is_fraction or parameter.of:
        return None
    if of_function:
        return name
    if name in _NAMES.values():
        return None  # in a schedule this is the name of another setting
    declared = declared_in(str(config["agent"].get("_target_"))).get(name)
    return None if declared is not None and declared.why_fixed else name


def check_evolution(evolution: Evolution, space: Space, config: JsonDict) -> None:
    """Refuses a population in which nothing can evolve, or which has no room to.

    Raises:
        UserError: Says what is wrong, and what would do.
    """
    if not knobs(space, config):
        searched = join_words(space.paths)
        if is_function(config) and not _takes_schedule(config):
            raise UserError(
                "study=pbt: a function evolves if it takes an argument `schedule` and goes on from what it has "
                "reported; this one does not, so use study=quick"
            )
        if of_schedules := scheduled(space, config):
            name, parameter = next(iter(of_schedules.items()))
            raise UserError(
                f"study=pbt: {parameter.path} follows a schedule, so nothing of this space evolves: type "
                f"~schedule.{name}, or use study=quick"
            )
        raise UserError(
            f"study=pbt: nothing of this space can change while an agent trains ({searched}); search numbers such as "
            "optimizer.learning_rate or agent.entropy_coef, without a schedule of their own, or use study=quick"
        )
    if config.get("adaptive"):
        raise UserError("study=pbt writes schedules into adaptive, which must be off: leave adaptive=... out")
    _check_pool(config)
    num_points = int(config["evaluation"]["num_points"])
    if num_points % evolution.generations:
        best = max(1, round(num_points / evolution.generations)) * evolution.generations
        raise UserError(
            f"evaluation.num_points={num_points} must be a multiple of study.evolution.generations="
            f"{evolution.generations}, so that each generation ends with an evaluation: {best} is"
        )
    total_steps, needed = int(config["training"]["total_steps"]), _steps_of_a_phase(config)
    if total_steps < needed * evolution.generations:
        raise UserError(
            f"training.total_steps={total_steps} is too small for study.evolution.generations={evolution.generations}: "
            f"a training phase takes {needed} environment steps, so at least {needed * evolution.generations} are "
            "needed"
        )


def _check_pool(config: JsonDict) -> None:
    if "capacity" in (config.get("buffer") or {}) and config.get("checkpoint", {}).get("save_replay") is False:
        raise UserError(
            "study=pbt: a member goes on from its checkpoint in each generation, and with checkpoint.save_replay=false "
            "it would begin with an empty replay buffer: type checkpoint.save_replay=true"
        )


def schedule_of(history: Sequence[JsonDict], space: Space, config: JsonDict, generations: int) -> Schedule:
    """The schedule that a line of descent has followed.

    Args:
        history: Values by config path, of each of its generations from the first on.
        space: The search space.
        config: The default configuration.
        generations: In all.
    """
    total_steps = int(config["training"]["total_steps"])
    schedule: dict[str, list[list[float]]] = {}
    for name, parameter in knobs(space, config).items():
        values = [float(values[parameter.path]) for values in history if parameter.path in values]
        steps = [
            [float(math.ceil(number * total_steps / generations)), value]
            for number, value in enumerate(values)
            if number and value != values[number - 1]
        ]
        if steps:
            schedule[name] = steps
    return schedule


def _takes_schedule(config: JsonDict) -> bool:
    return "schedule" in config.get("agent", {})


def _steps_of_a_phase(config: JsonDict) -> int:
    """Environment steps between two moments at which something may change; those before learning begins, too."""
    buffer = config.get("buffer", {})
    num_envs = config.get("env", {}).get("num_envs", 1)
    steps = int(buffer.get("num_steps", 1)) * (num_envs if isinstance(num_envs, int) else 1)
    is_rollout = "num_epochs" in buffer
    return max(1, steps if is_rollout else int(buffer.get("train_freq", 1)), int(buffer.get("learning_starts") or 0))
