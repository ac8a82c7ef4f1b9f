"""Whether a network is one for what is seen, and for its agent: images need convolutions, and layers must fit."""

import math
from collections.abc import Collection, Mapping
from typing import Any

from note_rl.agents.resampled_noise import check_arguments, has_noise
from note_rl.agents.shared.architecture import Architecture
from note_rl.agents.shared.encoders import encoded_plan
from note_rl.agents.shared.memories import MemorySettings
from note_rl.agents.shared.spaces import image_shape, looks_like_an_image
from note_rl.environments.frames import stacked_shape
from note_rl.environments.observation_packing import observed_shape
from note_rl.errors import SettingsError
from note_rl.learners.declarations import Declared
from note_rl.types import STATE_BEFORE
from tuner.config.composition import HYDRA_KEYS, RunConfig
from tuner.config.network_section import Networks
from tuner.config.signatures import signature_of
from tuner.config.vocabulary import about_part
from tuner.errors import UserError

_NETWORKS = "note_rl.agents."
_ENCODED = ".encoded_network"
_RECURRENT = ".recurrent_network"
_OF_THE_VALUE = ("shared", "value_head")


def check_network(run: RunConfig, kind: type[Declared], env: Any) -> None:
    """Refuses networks that cannot be what is meant; networks of the user's own know what they take.

    Args:
        run: Of one agent.
        kind: Declaration of the agent's class.
        env: Of the run, with observations as one array.

    Raises:
        UserError: It is an MLP for images, which would train on single pixels without a notion of what is near what;
            its layers do not fit each other or what is seen; the agent has no such critic or value, or draws no noise
            for its layers.
        note_rl.errors.EnvironmentMismatchError: It is for images, and they are none, or too small.
    """
    networks = Networks.from_section(run.network)
    for node in (networks.network, networks.critic or {}):
        _check_memory(node, kind, alone=networks.critic is None)
    _check_noise(networks.network, "network", kind)
    _check_noise(networks.critic or {}, "network.critic", kind)
    _check_exploration(run, networks.network, kind)
    _check_network(run, networks.network, "network", env)
    for name in _OF_THE_VALUE:
        if networks.network.get(name) and not kind.has_value_network:
            raise UserError(
                f"network.{name}={networks.network[name]} is for agents whose value is a network of observations "
                f"alone, such as ppo and a2c, and {kind.__name__} is none: leave it out"
            )
    if networks.critic is not None:
        _check_network(run, networks.critic, "network.critic", env)
        _check_critic(run, networks.network, kind)


def has_memory(node: Mapping[str, Any]) -> bool:
    """Whether a node makes a network with a memory."""
    return str(node.get("_target_")).endswith(_RECURRENT)


def refuse_memory(name: str, node: Mapping[str, Any], reads: Collection[str]) -> None:
    """Refuses a network with a memory for an agent that has no place for its state.

    Args:
        name: Of the agent's class.
        node: The network.
        reads: The `batch_attributes` of the agent.

    Raises:
        UserError: The agent reads no states.
    """
    if STATE_BEFORE not in reads:
        raise UserError(
            f"network={node.get('cell', 'lstm')} is a network with a memory, and {name} has no place for its state: "
            "choose another network, or an agent that learns from sequences (agent=ppo, agent=a2c, agent=r2d2)"
        )


def _check_memory(node: Mapping[str, Any], kind: type[Declared], alone: bool) -> None:
    """A memory needs an agent that learns from sequences, and serves policy and value."""
    if not has_memory(node):
        if kind.needs_memory and str(node.get("_target_")).startswith(_NETWORKS):
            raise UserError(
                f"{kind.__name__} learns from what its network remembers, and this network has no memory: "
                "use network=lstm or gru"
            )
        return
    refuse_memory(kind.__name__, node, kind.batch_attributes)
    if not alone:
        choice = f"network={node.get('cell', 'lstm')}"
        raise UserError(f"{choice} gives the value a memory, too, and network.critic another network: leave it out")


def _check_noise(node: Mapping[str, Any], path: str, kind: type[Declared]) -> None:
    """Layers with noise need an agent that draws it."""
    if kind.resamples_noise or not str(node.get("_target_")).startswith(_NETWORKS):
        return
    try:
        check_arguments(kind.__name__, node)
    except SettingsError as error:
        raise UserError(about_part(path, node, error)) from error


def _check_exploration(run: RunConfig, node: Mapping[str, Any], kind: type[Declared]) -> None:
    """Greedy actions need noise in the Q-network; without, the agent sees little but what it does at first."""
    if not kind.resamples_noise or not str(node.get("_target_")).startswith(_NETWORKS):
        return
    if str(run.policy["_target_"]).endswith(".GreedyQPolicy") and not has_noise(node):
        raise UserError(
            f"policy=greedy never explores with {kind.__name__}, whose network has no noise: choose policy=eps_greedy, "
            "or give its layers noise (network.noisy_std=0.5)"
        )


def _check_critic(run: RunConfig, network: Mapping[str, Any], kind: type[Declared]) -> None:
    signature = signature_of(str(run.agent["_target_"]))
    if signature is not None and not signature.is_open and "critic_network" not in signature.parameters:
        raise UserError(f"network.critic: {kind.__name__} has no critic with a network of its own: leave it out")
    if network.get("shared"):
        raise UserError("network.shared=true gives the value the policy's trunk, and network.critic another network: "
                        "leave one of them out")  # fmt: skip


def _check_network(run: RunConfig, node: Mapping[str, Any], path: str, env: Any) -> None:
    target = str(node["_target_"])
    shape = stacked_shape(observed_shape(env), int(run.agent.get("frame_stack", 1)))
    if not target.startswith(_NETWORKS):
        return
    if target.endswith(".layered_network"):
        _check_layers(node, path, shape)
    elif target.endswith(_RECURRENT):
        _check_cell(node, path, shape)
        if not node.get("layers"):
            _check_pixels(run, str(node.get("cell", "lstm")), "convolutions (network.layers=[{conv: ...}])", env)
    elif target.endswith(_ENCODED):
        _check_encoders(node, path, shape)
    elif target.endswith(".CNN"):
        image_shape(shape)
    elif target.endswith(".MLP"):
        _check_pixels(run, "mlp", "network=cnn", env)


def _check_pixels(run: RunConfig, name: str, remedy: str, env: Any) -> None:
    """Refuses images for dense layers alone."""
    space = env.observation_space
    if looks_like_an_image(tuple(space.shape), space.dtype):
        shape = list(stacked_shape(observed_shape(env), int(run.agent.get("frame_stack", 1))))
        raise UserError(
            f"{run.env.id} shows images {shape}, of which network={name} would take every pixel for an input of its "
            f"own, {math.prod(shape):,} in all, without regard to neighbours: use {remedy}; for dense layers all the "
            "same, flatten them: '+wrapper.flat={_target_: gymnasium.wrappers.FlattenObservation, _partial_: true}'"
        )


def _check_encoders(node: Mapping[str, Any], path: str, shape: tuple[int, ...]) -> None:
    arguments = {key: value for key, value in node.items() if key not in (*HYDRA_KEYS, "encoders")}
    try:
        encoded_plan(shape, 1, node.get("encoders"), Architecture((), **arguments))
    except SettingsError as error:
        raise UserError(about_part(path, node, error)) from error


def _check_cell(node: Mapping[str, Any], path: str, shape: tuple[int, ...]) -> None:
    arguments = {key: value for key, value in node.items() if key not in HYDRA_KEYS}
    try:
        MemorySettings(**arguments).plan(shape, 1)
    except SettingsError as error:
        raise UserError(about_part(path, node, error)) from error


def _check_layers(node: Mapping[str, Any], path: str, shape: tuple[int, ...]) -> None:
    arguments = {key: value for key, value in node.items() if key not in (*HYDRA_KEYS, "file")}
    try:
        Architecture(**arguments).plan(shape, 1).of_value()
    except SettingsError as error:
        raise UserError(about_part(path, node, error)) from error
