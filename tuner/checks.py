"""What can be told to be wrong with a composed configuration before anything runs, without importing a framework."""

import importlib.util
from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import (
    InterpolationKeyError,
    InterpolationResolutionError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from note_rl.environments import bounded_actions, flat_observations, num_discrete_actions
from note_rl.policy import Policy
from note_rl.settings import RolloutSettings, Settings
from tuner.build import build_environment, build_policy, build_settings
from tuner.config import BUILT, BUILT_MAPPINGS, HYDRA_KEYS, SECTIONS, BackendConfig, RunConfig, to_json
from tuner.errors import UserError
from tuner.functions import check_function, is_function
from tuner.names import did_you_mean
from tuner.pixels import check_network
from tuner.ranges import check_ranges
from tuner.signatures import Signature, attributes_read, constructor_calls, signature_of
from tuner.trial.messages import JsonDict

_FILLED_IN = {
    "agent": ("env", "network", "device", "state_dim", "action_dim"),
    "network": ("input_shape", "num_outputs"),
    "optimizer": ("parameters",),
    "policy": ("noise",),
}
_ON_POLICY = "log_prob_old"  # an agent that reads this learns from rollouts of its own current policy
_ASK_FOR_DISCRETE_ACTIONS = frozenset({"discrete_spaces", "num_discrete_actions"})  # functions of note_rl
_ASK_FOR_CONTINUOUS_ACTIONS = frozenset({"continuous_spaces"})
_FRAMEWORK_FREE = ("note_rl.settings.", "note_rl.policy.", "note_rl.noise.", "note_rl.schedules.")


def check_config(config: DictConfig, known_keys: frozenset[str]) -> JsonDict:
    """Checks a composed config; whole numbers written as 1e5 become integers in it where integers are asked for.

    Args:
        config: As composed, interpolations unresolved; its `hydra` part is left aside.
        known_keys: The top-level keys that the command knows.

    Returns:
        The resolved config.

    Raises:
        UserError: The first thing found wrong.
    """
    for key in map(str, config):
        if key not in (*known_keys, "hydra", "study"):  # an experiment may say how it is searched, too
            raise UserError(f"unknown key {key}{did_you_mean(key, known_keys) or '; --cfg job shows all there are'}")
    resolved = resolve(config)
    for path, value in [*_check_sections(resolved), *_check_nodes(resolved)]:
        OmegaConf.update(config, path, value)
    return resolve(config)


def check_run(resolved: JsonDict) -> None:
    """Checks the part of a resolved config that makes one training run, the environment included.

    Raises:
        UserError: A value out of range, a framework that is not installed, an environment that cannot be made.
        note_rl.errors.NoteRLError: What the training core refuses.
    """
    if is_function(resolved):
        check_function(resolved)
        return
    run = RunConfig.from_json(resolved)
    check_framework(run.backend)
    _check_shape(resolved)
    check_ranges(resolved)
    _check_schedules(resolved)
    _check_settings(run)
    _check_environment(run)


def resolve(config: DictConfig) -> JsonDict:
    """The config as a plain dictionary; what cannot be resolved is a UserError."""
    try:
        return to_json(config)
    except MissingMandatoryValue as error:
        raise UserError(f"{error.full_key} is missing: add {error.full_key}=...") from error
    except (InterpolationKeyError, InterpolationResolutionError) as error:
        raise UserError(f"{error.full_key} refers to something that is not there: {_first_line(error)}") from error
    except OmegaConfBaseException as error:
        raise UserError(f"{error.full_key}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def check_framework(backend: BackendConfig) -> None:
    """Refuses a backend whose framework is not installed, naming the extra that brings it."""
    wanted = [backend.module, "keras"] if backend.name == "keras" else [backend.module]
    missing = [module for module in wanted if importlib.util.find_spec(module) is None]
    if missing:
        raise UserError(
            f"backend={backend.name} needs {' and '.join(missing)}, which is not installed: "
            f"pip install 'note-rl[{backend.name}]', or take the other backend"
        )


def _check_sections(resolved: JsonDict) -> Iterator[tuple[str, int]]:
    for name, section in SECTIONS.items():
        if name in resolved:
            signature = signature_of(f"{section.__module__}.{section.__qualname__}")
            assert signature is not None
            yield from _check_arguments(name, resolved[name], signature, name)
    if "seed" in resolved and (isinstance(resolved["seed"], bool) or not isinstance(resolved["seed"], int)):
        raise UserError(f"seed={resolved['seed']} must be a whole number")


def _check_nodes(resolved: JsonDict) -> Iterator[tuple[str, int]]:
    for path, node in _targets("", resolved):
        target = node["_target_"]
        if not isinstance(target, str):
            raise UserError(f"{path}._target_={target} must be the dotted path of a class or function")
        try:
            signature = signature_of(target)
        except UserError as error:
            raise UserError(f"{path}._target_: {error}") from error
        if signature is not None:
            yield from _check_arguments(path, node, signature, target)


def _targets(path: str, node: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every mapping with a `_target_`, with its path."""
    if isinstance(node, Mapping):
        if "_target_" in node:
            yield path, node
        for key, value in node.items():
            yield from _targets(f"{path}.{key}" if path else str(key), value)
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _targets(f"{path}.{index}", value)


def _check_arguments(path: str, node: Mapping[str, Any], signature: Signature, what: str) -> Iterator[tuple[str, int]]:
    """Refuses arguments that the target does not take; yields whole numbers to be written as integers."""
    if not isinstance(node, Mapping):
        raise UserError(f"{path}={node} must be a group of settings")
    names = signature.parameters
    for key, value in node.items():
        if key in HYDRA_KEYS:
            continue
        if key not in names:
            if signature.is_open:
                continue
            offered = [f"{path}.{name}" for name in names]
            owner = f"{what} takes no {key}" if what != path else f"{path} has no {key}"
            raise UserError(f"unknown key {path}.{key}: {owner}{did_you_mean(f'{path}.{key}', offered)}")
        whole = _check_type(f"{path}.{key}", value, names[key].annotation)
        if whole is not None:
            yield f"{path}.{key}", whole


_PLAIN: dict[str, tuple[str, tuple[type, ...]]] = {
    "int": ("a whole number", (int,)),
    "float": ("a number", (int, float)),
    "bool": ("true or false", (bool,)),
    "str": ("a word", (str,)),
    "None": ("null", (type(None),)),
}
_LISTS = {
    "Sequence[int]": ("a list of whole numbers such as [64, 64]", (int,)),
    "Sequence[float]": ("a list of numbers such as [0.9, 0.99]", (int, float)),
}


def _check_type(path: str, value: object, annotation: str | None) -> int | None:
    """Checks a value against an annotation made of the types above only; any other lets all pass.

    Returns:
        The integer to use in place of a whole float such as 1e5, where an integer is asked for.
    """
    kinds = [part.strip() for part in (annotation or "").split("|")]
    known = {**_PLAIN, **_LISTS}
    if not all(kind in known for kind in kinds) or any(_is_of(value, kind) for kind in kinds):
        return None
    if "int" in kinds and isinstance(value, float) and value.is_integer():
        return int(value)
    written = "null" if value is None else value if value != "" else "''"
    raise UserError(f"{path}={written} must be {' or '.join(known[kind][0] for kind in kinds)}")


def _is_of(value: object, kind: str) -> bool:
    if kind in _LISTS:
        return isinstance(value, list) and all(isinstance(item, _LISTS[kind][1]) for item in value)
    is_bool_for_number = isinstance(value, bool) and kind in ("int", "float")
    return isinstance(value, _PLAIN[kind][1]) and not is_bool_for_number


def _check_shape(resolved: JsonDict) -> None:
    """Every part that is built must say of what, and leave to `tuner` what only that knows."""
    for name in BUILT:
        node = resolved.get(name) or {}
        if "_target_" not in node:
            raise UserError(f"{name} has no _target_: it says which class or function to build it with")
        for key in _FILLED_IN.get(name, ()):
            if key in node:
                raise UserError(f"{name}.{key} is filled in when the run is built: leave it out")
    if resolved.get("collector") and "_target_" not in resolved["collector"]:
        raise UserError(
            "collector has no _target_: use collector=pool, or collector=in_process for no worker processes"
        )
    for group in BUILT_MAPPINGS:
        for name, node in (resolved.get(group) or {}).items():
            if not isinstance(node, Mapping) or "_target_" not in node:
                raise UserError(
                    f"{group}.{name} has no _target_: an entry of {group} is "
                    f"'+{group}.{name}={{_target_: package.Class, ...arguments}}'"
                )


def _check_schedules(resolved: JsonDict) -> None:
    """A schedule must be of something there is: the learning rate, or a number of the policy or the agent."""
    known = {"learning_rate"}
    for owner in ("policy", "agent", *(["noise"] if resolved.get("noise") else [])):
        signature = signature_of(resolved[owner]["_target_"])
        if signature is None or signature.is_open:
            return
        known |= {name for name in signature.parameters if name in resolved[owner]}
    for name in resolved.get("schedule") or {}:
        if name not in known:
            raise UserError(
                f"schedule.{name}: neither the policy nor the agent has a {name}{did_you_mean(name, known)}"
            )


def _check_settings(run: RunConfig) -> None:
    """Lets the training core refuse contradictions, where that imports no framework."""
    _check_noise(run)
    nodes = [
        run.buffer,
        run.policy,
        *([run.noise] if run.noise else []),
        *run.schedule.values(),
        *([run.adaptive] if run.adaptive else []),
    ]
    if all(str(node["_target_"]).startswith(_FRAMEWORK_FREE) for node in nodes):
        settings = build_settings(run)
        if _ON_POLICY in attributes_read(str(run.agent["_target_"])):
            _check_on_policy(str(run.agent["_target_"]).rpartition(".")[2], settings)


def _check_noise(run: RunConfig) -> None:
    """Noise needs a policy that adds it."""
    if not run.noise:
        return
    if "_target_" not in run.noise:
        raise UserError("noise has no _target_: it says which class to build it with; noise=none is none at all")
    signature = signature_of(str(run.policy["_target_"]))
    if signature is not None and not signature.is_open and "noise" not in signature.parameters:
        name = str(run.policy["_target_"]).rpartition(".")[2]
        raise UserError(
            f"{name} takes no noise: use noise=none, or policy=noisy for an agent whose actions are numbers"
        )


def _check_on_policy(agent: str, settings: Settings) -> None:
    """An on-policy agent needs rollouts, and a policy that knows how likely its actions were."""
    if not isinstance(settings.experience, RolloutSettings):
        raise UserError(f"{agent} learns from rollouts of its current policy: use buffer=rollout")
    if type(settings.policy).log_prob is Policy.log_prob:
        name = type(settings.policy).__name__
        raise UserError(
            f"{agent} must know how likely its actions were, and {name} cannot say: use policy=softmax, or "
            "policy=gaussian where actions are numbers"
        )


def _check_environment(run: RunConfig) -> None:
    """Makes the environment once, and compares its actions with what the agent's constructor and the policy ask for."""
    environment = build_environment(run)()
    target = str(run.agent["_target_"])
    agent, calls = target.rpartition(".")[2], constructor_calls(target)
    try:
        if calls & _ASK_FOR_DISCRETE_ACTIONS:
            num_discrete_actions(environment, agent)
        if calls & _ASK_FOR_CONTINUOUS_ACTIONS:
            bounded_actions(environment, agent)
        if str(run.policy["_target_"]).startswith(_FRAMEWORK_FREE):
            build_policy(run).use_space(environment.action_space)
        if not run.training.multi_agent:
            check_network(run, flat_observations(environment).observation_space)
    finally:
        environment.close()
