"""An entry of the Zoo as settings of the algorithm of Stable-Baselines3 itself."""

from typing import Any, Final

from tuner.config.overrides import to_hydra
from tuner.errors import UserError
from tuner.features.imports.written_settings import (
    Written,
    add_environment,
    layers_of,
    normalised,
    number,
    whole,
    wrappers_of,
)
from tuner.features.imports.zoo_files import Falling, Symbol, ZooEntry, library_agent

_ACTIVATIONS: Final = ("ReLU", "Tanh", "ELU", "LeakyReLU", "GELU", "SiLU")
_NOISES: Final = {"normal": "normal", "ornstein-uhlenbeck": "ornstein_uhlenbeck"}
_ELSEWHERE: Final = (
    *("n_envs", "n_timesteps", "policy", "policy_kwargs", "normalize", "env_wrapper", "env_kwargs", "frame_stack"),
    *("noise_type", "noise_std", "optimize_memory_usage"),
)
_USUAL_POLICIES: Final = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")


def library_settings(entry: ZooEntry) -> Written:
    """The settings of the algorithm, with a line for each that has no place."""
    agent = library_agent(entry.algorithm)
    written = Written(choices={"agent": agent})
    add_environment(written, entry)
    written.values["training.total_steps"] = whole(entry, "n_timesteps")
    falling = []
    for name, value in entry.given.items():
        if name in _ELSEWHERE:
            continue
        if name not in entry.beneath:
            written.remark(name, value)
        elif isinstance(value, Falling):
            falling.append(name)
            written.values[f"agent.{name}"] = value.start
        else:
            written.values[f"agent.{name}"] = _number_of(entry.beneath[name], value)
    written.values["agent.linear"] = falling
    _add_around(written, entry)
    _add_policy(written, entry)
    if entry.algorithm in ("td3", "ddpg"):
        _add_noise(written, entry)
    return written


def _number_of(default: object, value: Any) -> Any:
    """A whole number where one is by default."""
    is_whole = isinstance(default, int) and not isinstance(default, bool) and isinstance(value, float)
    return int(value) if is_whole and value == int(value) else value


def _add_around(written: Written, entry: ZooEntry) -> None:
    obs, reward, rest = normalised(entry)
    written.values["agent.normalize_obs"] = obs
    written.values["agent.normalize_reward"] = reward
    for name, value in rest.items():
        written.remark(f"normalize.{name}", value)
    for wrapper in wrappers_of(entry):
        if not (entry.game is not None and wrapper.endswith(".AtariWrapper")):
            written.remark("env_wrapper", wrapper)
    if entry.given.get("frame_stack"):
        written.remark("frame_stack", entry.given["frame_stack"])


def _add_policy(written: Written, entry: ZooEntry) -> None:
    policy = str(entry.given.get("policy", "MlpPolicy"))
    if policy not in _USUAL_POLICIES:  # these are found by the observations
        written.values["agent.policy"] = policy
    for name, value in entry.policy_arguments.items():
        if name == "net_arch":
            written.values["agent.net_arch"] = layers_of(entry)
        elif name == "activation_fn" and isinstance(value, Symbol) and value.last in _ACTIVATIONS:
            written.values["agent.activation_fn"] = value.last
        elif _is_plain(value):
            written.added.append(f"+agent.policy_kwargs.{name}={to_hydra(value)}")
        else:
            written.remark(f"policy_kwargs.{name}", value)


def _is_plain(value: object) -> bool:
    """Whether a configuration can hold it."""
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return not isinstance(value, Symbol) and isinstance(value, bool | int | float | str | None)


def _add_noise(written: Written, entry: ZooEntry) -> None:
    typed = entry.given.get("noise_type")
    if typed is None:
        written.values["agent.action_noise"] = None
        return
    found = next((one for one in _NOISES if one in str(typed)), None)
    if found is None:
        raise UserError(f"{entry.file}: noise_type of {entry.key} must be normal or ornstein-uhlenbeck, not {typed}")
    written.values["agent.action_noise"] = _NOISES[found]
    written.values["agent.action_noise_std"] = float(number(entry, "noise_std"))
