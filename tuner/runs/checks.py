"""What can be told to be wrong with a composed configuration before anything runs, without importing a framework."""

import importlib.util

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
from tuner.checking.schema import Schema, schema_of
from tuner.checking.sections import Choices, check_parts, check_ranges_of, check_sections, left_out, refuse_missing
from tuner.config.composing import BackendConfig, RunConfig, to_json
from tuner.config.paths import set_path
from tuner.config.ranges import check_ranges
from tuner.config.signatures import attributes_read, constructor_calls, signature_of
from tuner.errors import UserError
from tuner.runs.build import build_environment, build_policy, build_settings
from tuner.runs.functions import check_function, is_function
from tuner.runs.pixels import check_network
from tuner.text.names import did_you_mean
from tuner.trial.messages import JsonDict

_ON_POLICY = "log_prob_old"  # an agent that reads this learns from rollouts of its own current policy
_ASK_FOR_DISCRETE_ACTIONS = frozenset({"discrete_spaces", "num_discrete_actions"})  # functions of note_rl
_ASK_FOR_CONTINUOUS_ACTIONS = frozenset({"continuous_spaces"})
_FRAMEWORK_FREE = ("note_rl.settings.", "note_rl.policy.", "note_rl.noise.", "note_rl.schedules.")


def _no_choices(group: str) -> tuple[str, ...]:
    del group
    return ()


def check_config(
    config: DictConfig,
    known_keys: frozenset[str],
    command: str = "train",
    choices: Choices = _no_choices,
) -> JsonDict:
    """Checks a composed config; whole numbers written as 1e5 become integers in it where integers are asked for.

    Args:
        config: As composed, interpolations unresolved; its `hydra` part is left aside.
        known_keys: The top-level keys that the command knows.
        command: Whose schema the config must meet.
        choices: Gives the choices there are of a group.

    Returns:
        The resolved config.

    Raises:
        UserError: The first thing found wrong.
    """
    for key in map(str, config):
        if key not in (*known_keys, "hydra", "study"):  # an experiment may say how it is searched, too
            raise UserError(f"unknown key {key}{did_you_mean(key, known_keys) or '; --cfg job shows all there are'}")
    resolved = as_meant(config, command, choices)
    check_ranges_of(resolved, _schema_of(config, command))
    return resolved


def as_meant(config: DictConfig, command: str, choices: Choices = _no_choices) -> JsonDict:
    """Puts in place what was meant: 100000 for 1e5, and what was taken away as it is by default.

    Hydra composes once more for the job itself, which has to be done to that, too.

    Args:
        config: As composed; changed.
        command: Whose schema the config must meet.
        choices: Gives the choices there are of a group.

    Returns:
        The resolved config.

    Raises:
        UserError: Something is missing, unknown or of another kind.
    """
    schema = _schema_of(config, command)
    refuse_missing(list(map(str, config)), schema, command, choices)
    resolved = resolve(config)
    for path, value in [*check_sections(resolved, schema), *check_parts(resolved, schema, choices)]:
        OmegaConf.update(config, path, value)
    for path, value in left_out(resolved, schema):
        OmegaConf.update(config, path, value, force_add=True)
    return resolve(config)


def _schema_of(config: DictConfig, command: str) -> Schema:
    return schema_of(command, [str(key) for key, node in config.items_ex(resolve=False) if node not in (None, {}, [])])


def checked_run(resolved: JsonDict) -> None:
    """Checks a run's configuration that was read from a file, with all that is asked of one that was typed.

    Args:
        resolved: Values such as 1e5 are replaced in it by what they mean.

    Raises:
        UserError, note_rl.errors.NoteRLError: The first thing found wrong.
    """
    schema = schema_of("train", [name for name, value in resolved.items() if value])
    refuse_missing(resolved, schema, "a run", _no_choices)
    for path, value in [*check_sections(resolved, schema), *check_parts(resolved, schema, _no_choices)]:
        set_path(resolved, path, value)
    check_ranges_of(resolved, schema)
    check_run(resolved)


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
