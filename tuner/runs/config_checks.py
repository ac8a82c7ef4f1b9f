"""Checks of a composed configuration before anything runs, without importing a framework."""

import importlib.util
import re
from collections.abc import Collection, Iterator

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import (
    InterpolationKeyError,
    InterpolationResolutionError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from note_rl import policy as policies
from note_rl.collect.datasets import check_dataset
from note_rl.distributed.limits import check_can_be_served, check_can_be_shared
from note_rl.environments import flat_observations
from note_rl.environments.step_checks import check_spaces
from note_rl.errors import NoteRLError
from note_rl.learners.declarations import Declared, check_actions, check_settings
from note_rl.policy import GSDEPolicy, SquashedGSDEPolicy
from note_rl.policy.discrete import DiscretePolicy
from note_rl.settings import Plateau, RolloutSettings, Settings
from note_rl.settings.state_dependent_noise import check_explores_alike
from note_rl.support.near_names import nearest
from note_rl.tree_search import simulator_of
from tuner.checking.hydra_messages import paths_of
from tuner.checking.other_libraries import called_here
from tuner.checking.schema import Schema
from tuner.checking.schemas import schema_of
from tuner.checking.sections import Choices, check_parts, check_ranges_of, check_sections, left_out, refuse_missing
from tuner.config.composition import HYDRA_KEYS, BackendConfig, RunConfig, to_json
from tuner.config.paths import set_path
from tuner.config.setting_declarations import check_declared, declared_in
from tuner.config.signatures import class_constants, class_methods, signature_of
from tuner.config.vocabulary import speaking_of_settings
from tuner.errors import UserError
from tuner.runs.build import build_distributed, build_environment, build_node, build_policy, build_settings
from tuner.runs.functions import check_function, is_function
from tuner.runs.pixels import check_network, has_memory, refuse_memory
from tuner.runs.run_strategy import size_of
from tuner.support.names import did_you_mean
from tuner.trial.messages import JsonDict

_UNSET = re.compile(r"Environment variable '([^']+)' not found")
_NOT_FOUND = re.compile(r"Interpolation key '([^']+)' not found")
_DECLARED = frozenset(Declared.__annotations__)
_LEARNS_BY = frozenset({"__call__", "update"})  # the one or the other
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
    own = _schema_of(config, command).sections
    for key in map(str, config):
        if key not in (*known_keys, *own, "hydra", "study"):  # an experiment may say how it is searched, too
            if choices(key):
                raise UserError(f"{key} holds choices, no settings: its file must begin with # @package _global_")
            here = called_here(key, paths_of(config))
            hint = f": here it is {here}" if here else did_you_mean(key, known_keys)
            raise UserError(f"unknown key {key}{hint or '; --cfg job shows all there are'}")
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
    _check_experience(resolved)
    _check_kind_of_policy(resolved)
    for path, value in [*check_sections(resolved, schema), *check_parts(resolved, schema, choices)]:
        OmegaConf.update(config, path, value)
    for path, value in left_out(resolved, schema):
        OmegaConf.update(config, path, value, force_add=True)
    return resolve(config)


def _check_experience(resolved: JsonDict) -> None:
    """Says what an agent learns from, and whether it can have a memory, before keys are compared.

    The wrong buffer and the wrong agent have other keys, whose names would say less.
    """
    agent, buffer = resolved.get("agent"), resolved.get("buffer")
    if not isinstance(agent, dict) or not isinstance(buffer, dict) or not isinstance(agent.get("_target_"), str):
        return
    constants = class_constants(agent["_target_"])
    on_policy = constants.get("on_policy")
    wrong = _OTHER_EXPERIENCE.get(on_policy) if isinstance(on_policy, bool) else None
    name = agent["_target_"].rpartition(".")[2]
    if wrong is not None and buffer.get("_target_") == wrong[0]:
        own = "recurrent" if constants.get("needs_memory") else wrong[2]
        raise UserError(f"{name} {wrong[1]}: use buffer={own}")
    reads = constants.get("batch_attributes")
    if buffer.get("_target_") == _SEQUENCES and not (isinstance(reads, tuple) and "ended" in reads):
        _refuse_steps_of_replay(name, buffer)
    network = resolved.get("network")
    if isinstance(network, dict) and has_memory(network) and isinstance(reads, tuple):
        refuse_memory(name, network, reads)
    if not agent["_target_"].startswith("note_rl."):
        _refuse_settings_of_another(agent, buffer)


def _refuse_settings_of_another(agent: JsonDict, buffer: JsonDict) -> None:
    """Names all at once that are set for another agent where a class of the user's own stands in its place."""
    words = [f"~{part}.{key}" for part, node in (("agent", agent), ("buffer", buffer)) for key in _strange_in(node)]
    if len(words) > 1:
        raise UserError(
            f"settings of another agent are there, which {agent['_target_']} or its buffer does not take: write a file "
            f"for it (tuner guide agents), or leave out what you have typed of these and type {' '.join(words)}"
        )


def _strange_in(node: JsonDict) -> Iterator[str]:
    """The settings that a target does not take, without those that seem misspelt."""
    try:
        signature = signature_of(str(node.get("_target_")))
    except UserError:  # said where parts are checked
        return
    if signature is not None and not signature.is_open:
        known = (*signature.parameters, *HYDRA_KEYS)
        yield from (key for key in node if key not in known and not nearest(key, signature.parameters))


def _refuse_steps_of_replay(agent: str, buffer: JsonDict) -> None:
    """Refuses keys that an agent sets for its own buffer, where nobody has typed them."""
    sequences, replay = signature_of(_SEQUENCES), signature_of(_REPLAY)
    assert sequences is not None
    assert replay is not None
    for key in buffer:
        if key in replay.parameters and key not in sequences.parameters:
            raise UserError(
                f"buffer=sequences has no {key}, which is set for {agent}: use buffer=replay, or type ~buffer.{key} "
                "for an agent of your own that learns from sequences"
            )


def _check_kind_of_policy(resolved: JsonDict) -> None:
    """Says so before keys are compared where a policy is made for another agent.

    It may choose among actions, and the agent give numbers, or explore by the state, and the agent not.
    """
    targets = [node.get("_target_") for name in ("agent", "policy") if isinstance(node := resolved.get(name), dict)]
    if len(targets) < 2 or not all(isinstance(target, str) for target in targets):
        return
    agent, chosen = map(str, targets)
    constants, name, policy = class_constants(agent), agent.rpartition(".")[2], chosen.rpartition(".")[2]
    kinds = constants.get("action_kinds")
    chooses = getattr(policies, chosen.removeprefix("note_rl.policy."), None)
    if not isinstance(chooses, type):
        return
    if isinstance(kinds, tuple) and "discrete" not in kinds and issubclass(chooses, DiscretePolicy):
        raise UserError(
            f"{name} gives actions that are numbers, and {policy} chooses one of several: leave policy= out, or use "
            "policy=noisy"
        )
    if issubclass(chooses, GSDEPolicy | SquashedGSDEPolicy):
        _check_state_dependent(agent, constants.get("on_policy"), name, policy)


def _check_state_dependent(agent: str, on_policy: object, name: str, policy: str) -> None:
    """Refuses a policy whose noise depends on the state where the agent has no gSDE, or has the other one."""
    signature = signature_of(agent)
    if signature is None or signature.is_open:
        return
    if "gsde" not in signature.parameters:
        raise UserError(
            f"{name} has no state-dependent exploration, and {policy} is made for it: leave policy= out, or use "
            "agent=ppo_continuous, a2c_continuous, trpo_continuous, sac or tqc"
        )
    own, choice = ("GSDEPolicy", "gsde") if on_policy else ("SquashedGSDEPolicy", "squashed_gsde")
    if isinstance(on_policy, bool) and policy != own:
        raise UserError(f"{name} explores by the state with another policy than {policy}: use policy={choice}")


_SEQUENCES = "note_rl.settings.SequenceSettings"
_REPLAY = "note_rl.settings.ReplaySettings"
_OTHER_EXPERIENCE = {
    True: (_REPLAY, "learns from rollouts of its current policy", "rollout"),
    False: (
        "note_rl.settings.RolloutSettings",
        "learns from old transitions again and again, and rollouts are forgotten",
        "replay",
    ),
}


def _schema_of(config: DictConfig, command: str) -> Schema:
    nodes = config.items_ex(resolve=False)
    return schema_of(command, [str(key) for key, node in nodes if _holds_any(node) or node not in (None, {}, [])])


def _holds_any(node: object) -> bool:
    """Whether it is a mapping or list with anything in it; comparing it with an empty one would copy it."""
    return isinstance(node, DictConfig | ListConfig) and len(node) > 0


def checked_run(resolved: JsonDict) -> None:
    """Checks a run's configuration that was read from a file, with all that is asked of one that was typed.

    Args:
        resolved: Values such as 1e5 are replaced in it by what they mean.

    Raises:
        UserError, note_rl.errors.NoteRLError: The first thing found wrong.
    """
    check_kinds(resolved)
    check_ranges_of(resolved, _schema_of_run(resolved))
    check_run(resolved)


def check_kinds(resolved: JsonDict) -> None:
    """The part of `checked_run` that looks at each value by itself: missing, unknown and of another kind.

    Raises:
        UserError: The first one.
    """
    schema = _schema_of_run(resolved)
    refuse_missing(resolved, schema, "a run", _no_choices)
    for path, value in [*check_sections(resolved, schema), *check_parts(resolved, schema, _no_choices)]:
        set_path(resolved, path, value)


def _schema_of_run(resolved: JsonDict) -> Schema:
    return schema_of("train", [name for name, value in resolved.items() if value])


@speaking_of_settings()
def check_run(resolved: JsonDict) -> None:
    """Checks the part of a resolved config that makes one training run, the environment included.

    Raises:
        UserError: A value out of range, a framework that is not installed, an environment that cannot be made.
        note_rl.errors.NoteRLError: The training core refuses a setting.
    """
    if is_function(resolved):
        check_function(resolved)
        return
    run = RunConfig.from_json(resolved)
    check_framework(run.backend)
    _check_written_for(run)
    _check_constructor(run)
    check_declared(resolved)
    _check_schedules(resolved)
    _check_settings(run)
    _check_plateau(run)
    _check_environment(run)
    _check_dataset(run)


def resolve(config: DictConfig, parts: Collection[str] = ()) -> JsonDict:
    """The config, or these parts of it, as a plain dictionary; what cannot be resolved is a UserError."""
    try:
        return to_json(config, parts)
    except MissingMandatoryValue as error:
        raise UserError(f"{error.full_key} is missing: add {error.full_key}=...") from error
    except (InterpolationKeyError, InterpolationResolutionError) as error:
        for cause in _causes(error):
            if isinstance(cause, NoteRLError | UserError):
                raise UserError(f"{error.full_key}: {cause}") from error
        missing = _UNSET.search(str(error))
        if missing:
            raise UserError(
                f"{error.full_key} is taken from the environment variable {missing[1]}, which is not set: "
                f"export {missing[1]}=..."
            ) from error
        raise UserError(f"{error.full_key} refers to something that is not there: {_not_there(error)}") from error
    except OmegaConfBaseException as error:
        raise UserError(f"{error.full_key}: {_first_line(error)}") from error


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Causes of an error, the nearest first: OmegaConf keeps the error of a resolver as a context alone."""
    cause = error.__cause__ or error.__context__
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def _not_there(error: OmegaConfBaseException) -> str:
    """The aim of a reference, and words to type instead."""
    key, wanted = str(error.full_key), _NOT_FOUND.search(str(error))
    if not wanted:
        return _first_line(error)
    section = ".".join(key.split(".")[:2])
    return f"{wanted[1]}; type " + (f"{key}=VALUE" if section == key else f"~{section} to leave {section} out")


def check_framework(backend: BackendConfig) -> None:
    """Refuses a backend whose framework is not installed, naming the extra that brings it."""
    wanted = [backend.module, "keras"] if backend.name == "keras" else [backend.module]
    missing = [module for module in wanted if importlib.util.find_spec(module) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise UserError(
            f"backend={backend.name} needs {' and '.join(missing)}, which {are} not installed: "
            f"pip install 'note-rl[{backend.name}]', or take the other backend"
        )


def _check_written_for(run: RunConfig) -> None:
    """An agent of the user's own is written for one framework; those of `note_rl` are there for both."""
    kind = declared(run)
    if kind.framework not in ("none", run.backend.name):
        language = {"torch": "PyTorch", "keras": "Keras"}[kind.framework]
        raise UserError(f"{kind.__name__} is written in {language}: use backend={kind.framework}")
    if run.training.matmul != "auto" and run.backend.name != "torch":
        raise UserError(f"training.matmul={run.training.matmul} is about PyTorch: leave it out, or use backend=torch")


def _check_constructor(run: RunConfig) -> None:
    """An agent is made with three arguments besides its settings; one of the user's own may not take them."""
    target = str(run.agent["_target_"])
    for name, place in _OF_NETWORKS.items():
        if name in run.agent and target.startswith("note_rl."):
            raise UserError(f"agent.{name} has no effect beside a chosen network: type {place}=[64,64], or such widths")
    signature = signature_of(target)
    if signature is None or signature.is_open or run.agent.get("_args_"):
        return
    for name in _ARGUMENTS:
        if name not in signature.parameters:
            raise UserError(
                f"{target} takes no {name}: an agent is made with env=, network= and device=, and with the keys beside "
                "its _target_; let its __init__ take all of them"
            )


_ARGUMENTS = ("env", "network", "device")
_OF_NETWORKS = {"hidden_size": "network.hidden_sizes", "critic_hidden_size": "network.critic.hidden_sizes"}
"""Arguments of agents that say how wide networks are where none is chosen."""


def _check_schedules(resolved: JsonDict) -> None:
    """A schedule must be of something there is: the learning rate, or a number of the policy or the agent."""
    known = {"learning_rate"}
    for owner in ("policy", "agent", *(["noise"] if resolved.get("noise") else [])):
        signature = signature_of(resolved[owner]["_target_"])
        if signature is None or signature.is_open:
            return
        known |= {name for name in signature.parameters if name in resolved[owner]}
    declared = declared_in(resolved["agent"]["_target_"])
    for name in resolved.get("schedule") or {}:
        if name not in known:
            raise UserError(
                f"schedule.{name}: neither the policy nor the agent has a {name}{did_you_mean(name, known)}"
            )
        if name in declared and name not in resolved["policy"] and declared[name].why_fixed:
            raise UserError(
                f"schedule.{name}: agent.{name} cannot change while the agent is trained, as "
                f"{declared[name].why_fixed}: leave the schedule out"
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
        *([run.plateau] if run.plateau else []),
    ]
    if all(str(node["_target_"]).startswith(_FRAMEWORK_FREE) for node in nodes):
        settings, together = build_settings(run), build_distributed(run)
        kind, has_gsde = declared(run), run.agent.get("gsde") is not None
        check_explores_alike(kind.__name__, kind.on_policy, has_gsde, settings.policy)
        check_settings(kind, settings)
        _check_sequences(run, settings)
        if together is not None and has_memory(run.network):
            raise UserError(
                f"network={run.network.get('cell', 'lstm')} is a network with a memory, which one process trains: "
                f"leave strategy={together.strategy} out, or choose another network"
            )
        if together is not None and together.strategy == "parameter_server":
            check_can_be_served(kind, settings)
        elif together is not None:
            check_can_be_shared(kind, settings, size_of(together))


def _check_sequences(run: RunConfig, settings: Settings) -> None:
    """Sequences are for agents with a memory, which learn from nothing else."""
    built_in = all(str(node["_target_"]).startswith("note_rl.") for node in (run.agent, run.network))
    num_envs, remembers = settings.num_envs, has_memory(run.network)
    adaptive = settings.adaptive
    signals = () if adaptive is None or adaptive.mode == "off" else adaptive.all_signals()
    if remembers and any(getattr(signal, "reads_gradients", False) for signal in signals):
        raise UserError(
            "adaptive: its signals measure gradients of single transitions, and an agent with a memory "
            f"(network={run.network.get('cell', 'lstm')}) learns from whole sequences: choose other signals, or "
            "another network"
        )
    if not built_in or not isinstance(settings.experience, RolloutSettings):
        return
    if isinstance(num_envs, int) or not remembers:  # what is measured when training begins is checked then
        settings.experience.check_memory(remembers, num_envs if isinstance(num_envs, int) else 1)


def _check_plateau(run: RunConfig) -> None:
    """As many evaluations without an improvement as it takes must be there behind the first one."""
    patience, num_points = run.plateau.get("patience", Plateau.patience), run.evaluation.num_points
    if run.plateau.get("by") == "evaluations" and patience >= num_points:
        raise UserError(
            f"plateau.patience={patience} is never reached: evaluation.num_points={num_points} leaves {num_points - 1} "
            f"evaluations behind the first one; set evaluation.num_points={10 * patience} or so, or plateau=episodes"
        )


def _check_dataset(run: RunConfig) -> None:
    """The recorded steps that a pool begins with must be there, and from such an environment."""
    if run.buffer.get("dataset") is None or not str(run.buffer["_target_"]).startswith(_FRAMEWORK_FREE):
        return
    dataset = build_node("buffer", run.buffer).dataset
    check_dataset(dataset, build_environment(run))


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


def declared(run: RunConfig) -> type[Declared]:
    """A class of the agent's name that declares what the agent's own does: that one would import its framework.

    What stands there as a plain value, that is; what is worked out is checked when training begins.
    """
    target = str(run.agent["_target_"])
    constants = class_constants(target)
    said = {name: constants[name] for name in _DECLARED & set(constants)}
    there = dict.fromkeys(_LEARNS_BY & class_methods(target), _stands_for_a_method)
    return type(target.rpartition(".")[2], (Declared,), {**said, **there})


def _stands_for_a_method(*arguments: object) -> None:
    """That there is one is all that is asked."""


def _check_environment(run: RunConfig) -> None:
    """Makes the environment once, and compares its actions with those that the agent and the policy give."""
    environment = build_environment(run)()
    try:
        if not run.training.multi_agent:
            check_spaces(environment)
        check_actions(declared(run), environment)
        if declared(run).searches_ahead and run.agent.get("simulator") is None:
            simulator_of(flat_observations(environment), None, declared(run).__name__)
        if str(run.policy["_target_"]).startswith(_FRAMEWORK_FREE):
            build_policy(run).use_space(environment.action_space)
        if not run.training.multi_agent:
            check_network(run, declared(run), flat_observations(environment))
    finally:
        environment.close()
