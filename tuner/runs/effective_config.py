"""The values that built objects really hold, by config path.

A parameter that was dropped on the way (a misspelt argument swallowed by **kwargs, a value overwritten later) is found
by comparing these with what was asked for. So they are read from the objects wherever these keep them; only what an
object does not show is taken from the arguments it was called with.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from note_rl.environments import EnvFactory
from tuner.config.composition import RunConfig
from tuner.config.network_section import CRITIC, Networks
from tuner.trial.messages import JsonDict

_OPTIMIZER_NAMES = {  # ours -> PyTorch's, Keras's
    "learning_rate": ("lr", "learning_rate"),
    "beta1": ("betas", "beta_1"),
    "beta2": ("betas", "beta_2"),
    "epsilon": ("eps", "epsilon"),
    "rho": ("alpha", "rho"),
    "momentum": ("momentum", "momentum"),
    "weight_decay": ("weight_decay", "weight_decay"),
}


def used_config(config: RunConfig, environment: EnvFactory, agent: Any, optimizer: Any) -> JsonDict:
    """The part of the config that went into objects, with the values found there."""
    settings = agent.settings
    return {
        "seed": settings.seed,
        "backend": {**asdict(config.backend), **_matmul(agent, config)},
        "env": {
            "id": environment.id,
            "num_envs": settings.num_envs,
            "kwargs": dict(environment.kwargs),
            "max_episode_steps": environment.max_episode_steps,
            **({} if config.env.game is None else {"game": _game(environment.id, config.env.game)}),
        },
        "agent": _read(agent, config.agent),
        "network": _networks(agent, config.network),
        "optimizer": _optimizer(optimizer, config.optimizer),
        "buffer": _read(settings.experience, config.buffer),
        "policy": _read(settings.policy, config.policy),
        "noise": _read(getattr(settings.policy, "noise", None), config.noise),
        "collector": _read(settings.workers, config.collector),
        "schedule": {name: _read(settings.schedules[name], node) for name, node in config.schedule.items()},
        "adaptive": _read(settings.adaptive, config.adaptive),
        "plateau": _read(settings.plateau, config.plateau),
        "strategy": _arguments(config.strategy),
        "wrapper": {name: _arguments(node) for name, node in config.wrapper.items()},
        "wrapper_training": {name: _arguments(node) for name, node in config.wrapper_training.items()},
        "training": {
            **asdict(config.training),
            "max_grad_norm": settings.max_grad_norm,
            "normalise_obs": settings.normalise_obs,
            "normalise_reward": settings.normalise_reward,
            "multi_agent": settings.multi_agent,
            **({"target_reward": settings.criterion} if config.training.target_by == "episodes" else {}),
            "reward_window": settings.trial_count,
            "frame_stack": settings.experience.frame_stack,
        },
        "evaluation": asdict(config.evaluation),
        "checkpoint": asdict(config.checkpoint),
    }


def _matmul(agent: Any, config: RunConfig) -> JsonDict:
    """The implementation of large matrix products that is in effect; empty where there is no choice."""
    return {"matmul": agent.learner.matmul} if config.backend.name == "torch" else {}


def _game(env_id: str, asked: str) -> str | None:
    """The id is made of it; one that was changed in a resolved config, as a search would, has changed nothing."""
    return asked if asked in env_id else None


def _arguments(node: Mapping[str, Any]) -> JsonDict:
    return {key: value for key, value in node.items() if not (key.startswith("_") and key.endswith("_"))}


def _read(target: object, node: Mapping[str, Any]) -> JsonDict:
    """The attributes of an object that have the names of its arguments."""
    return {key: _same(getattr(target, key, value), value) for key, value in _arguments(node).items()}


def _same(found: Any, asked: Any) -> Any:
    """The value in effect, as JSON. Frameworks keep single precision: 0.0010000000475 is the 0.001 of the config."""
    if isinstance(asked, dict) and "_target_" in asked:
        return _read(found, asked)  # a part of the part, as priorities of a buffer
    if isinstance(asked, bool) or asked is None or isinstance(asked, str | dict):
        return found if isinstance(found, bool | str | int | float | dict | None) else asked
    if isinstance(asked, list):
        return list(found) if isinstance(found, list | tuple) else asked
    try:
        number = float(found)
    except (TypeError, ValueError):
        return asked
    return asked if math.isclose(number, asked, rel_tol=1e-6, abs_tol=1e-38) else number


def _optimizer(optimizer: Any, node: Mapping[str, Any]) -> JsonDict:
    found = {}
    groups = getattr(optimizer, "param_groups", None)
    for name, asked in _arguments(node).items():
        torch_name, keras_name = _OPTIMIZER_NAMES.get(name, (name, name))
        value = groups[0].get(torch_name, asked) if groups else getattr(optimizer, keras_name, asked)
        if isinstance(value, tuple):
            value = value[int(name == "beta2")]
        found[name] = _same(0.0 if value is None else value, asked)  # Keras writes no decay as None
    return found


def _networks(agent: Any, section: Mapping[str, Any]) -> JsonDict:
    networks = Networks.from_section(section)
    critic = {} if networks.critic is None else {CRITIC: _arguments(networks.critic)}
    return {**_arguments(networks.network), **_network(agent, networks.network), **critic}


def _network(agent: Any, node: Mapping[str, Any]) -> JsonDict:
    """Widths and activation of an agent's dense layers, where it shows them and they are not listed one by one."""
    show = getattr(agent, "acting_layers", None)
    layers = show() if show is not None and "layers" not in node else None
    if not layers:
        return {}
    num_hidden = len(layers) - agent.num_output_layers
    shown = {"hidden_sizes": [len(bias) for _, bias, _ in layers[:num_hidden]], "activation": layers[0][2]}
    return {key: value for key, value in shown.items() if key in node}
