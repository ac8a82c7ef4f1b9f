"""From a run's configuration to its objects. The only caller of `hydra.utils.instantiate`."""

import copy
import functools
import importlib
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium
import numpy as np
from hydra.errors import InstantiationException
from hydra.utils import instantiate

from note_rl.collect.evaluation import ActingIn, Greedy
from note_rl.environments import EnvFactory, flat_observations, for_evaluation
from note_rl.environments.goals import goal_layout
from note_rl.environments.normalise import ObservationNormaliser
from note_rl.errors import EnvironmentMismatchError, NoteRLError, say_once
from note_rl.learners.base import Learner
from note_rl.learners.policy_function import ExportedPolicy, ExportFormat
from note_rl.policy import Policy
from note_rl.replay.hindsight import goal_functions, require_goals
from note_rl.seeding import seed_everything
from note_rl.settings import Distributed, Settings
from note_rl.training.film import FilmFile
from note_rl.types import Evaluation, TrainResult
from tuner.config.composition import BackendConfig, RunConfig
from tuner.config.network_section import Networks
from tuner.config.paths import targets_in
from tuner.config.sources import OURS
from tuner.config.vocabulary import about_part, speaking_of_settings
from tuner.errors import UserError
from tuner.runs.devices import check_backend, device_of
from tuner.runs.effective_config import used_config
from tuner.runs.environment_probe import first_observation, in_short
from tuner.runs.quiet import quiet_import
from tuner.trial.messages import JsonDict

_log = logging.getLogger(__name__)


class TrainableAgent(Protocol):
    """Interface of an agent for `tuner`; `note_rl.RL` and `note_rl.RL_pytorch` offer it."""

    settings: Settings
    obs_normaliser: ObservationNormaliser
    param: Any
    num_env_steps: int
    num_gradient_steps: int
    stop_training: bool
    on_policy: bool | None
    learner: Learner

    @property
    def decisions(self) -> list[Any]:
        """See `note_rl.training.adjust_methods.Adjustable`."""

    @property
    def adapted_schedule(self) -> Mapping[str, list[list[float]]]:
        """See `note_rl.training.adjust_methods.Adjustable`."""

    def train(
        self, *, optimizer: Any, total_steps: int, callbacks: Any, jit_compile: bool | str, p: int
    ) -> TrainResult:
        """See `note_rl.RL.train`."""

    def how_steps_are_taken(self) -> object:
        """See `note_rl.training.trainable.Trainable`."""

    def distributed_training(self, *, strategy: Any, **arguments: Any) -> TrainResult:
        """See `note_rl.RL_pytorch.distributed_training` and that of `note_rl.RL`."""

    def evaluate(self, num_episodes: int, *, seed: int, acting_in: ActingIn | None = None) -> Evaluation:
        """See `note_rl.RL.evaluate`."""

    def animate_agent(
        self, max_steps: int, path: Sequence[FilmFile] | None, *, seed: int, acting_in: ActingIn | None = None
    ) -> float:
        """See `note_rl.RL.animate_agent`."""

    def greedy_in(self, action_space: Any) -> Greedy:
        """See `note_rl.RL.greedy_in`."""

    def save(self, path: str | os.PathLike[str], save_data: bool) -> None:
        """See `note_rl.RL.save`."""

    def restore(self, path: str | os.PathLike[str], reseed: int | None = None) -> None:
        """See `note_rl.RL.restore`."""

    def save_param(self, path: str | os.PathLike[str], about: JsonDict | None = None) -> None:
        """See `note_rl.RL.save_param`."""

    def restore_param(self, path: str | os.PathLike[str]) -> None:
        """See `note_rl.RL.restore_param`."""

    def export(
        self, path: str | os.PathLike[str], format: ExportFormat, about: Mapping[str, str] | None = None
    ) -> ExportedPolicy:
        """See `note_rl.RL.export`."""

    def note_evaluation(self, mean_return: float, at: int | None = None) -> None:
        """See `note_rl.RL.note_evaluation`."""

    def note_waiting(self, seconds: float) -> None:
        """See `note_rl.RL.note_waiting`."""


@dataclass(frozen=True)
class BuiltRun:
    """The objects of one training run.

    Attributes:
        config: The configuration they were built from.
        environment: Makes the environment of training; see `note_rl.environments.for_evaluation`.
        agent: With its settings assigned.
        optimizer: Of the agent's parameters.
        used: The values found in these objects, by config path.
        sharing: How gradient steps are shared: arguments of distributed_training(); none: they are not shared.
    """

    config: RunConfig
    environment: EnvFactory
    agent: TrainableAgent
    optimizer: Any
    used: JsonDict
    sharing: Mapping[str, Any]

    @speaking_of_settings()
    def try_out(self) -> None:
        """Takes one step in the environment, and lets the agent act once.

        Raises:
            UserError: Its network does not take what the environment shows.
            note_rl.errors.NoteRLError: Its answer is not what the policy takes, or the environment does not give what
                Gymnasium and its spaces say.
        """
        env = flat_observations(for_evaluation(self.environment)())
        if getattr(self.agent.settings.experience, "hindsight", None) is not None:
            require_goals(goal_functions(self.agent, goal_layout(env)))
        obs = first_observation(env)
        refusals: tuple[type[Exception], ...] = (ValueError, TypeError, RuntimeError)
        if self.config.backend.name == "keras":  # TensorFlow's errors about shapes are of no usual kind
            refusals += (importlib.import_module("tensorflow").errors.OpError,)
        question = f"does its network ({self.config.network.get('_target_')}) take them?"
        try:
            self.agent.greedy_in(env.action_space)(obs, np.ones(1, np.bool_))
        except EnvironmentMismatchError as error:
            raise UserError(f"{error}; {question}") from error
        except NoteRLError:
            raise
        except refusals as error:
            shape = list(obs[0].shape)
            raise UserError(
                f"the agent cannot act upon observations of the shape {shape}; {question} {in_short(error)}"
            ) from error


@dataclass(frozen=True)
class Sharing:
    """How a run shares its gradient steps with devices or processes; see `tuner.runs.run_strategy`.

    Attributes:
        arguments: Of distributed_training(); none: it is train() that is called.
        scope: Makes a context in which agent and optimizer are made.
    """

    arguments: Mapping[str, Any]
    scope: Callable[[], AbstractContextManager[Any]]


@speaking_of_settings()
def build_run(config: RunConfig, sharing: Sharing | None = None) -> BuiltRun:
    """Imports the framework, seeds everything, and builds environment, agent and optimizer.

    Args:
        config: The run.
        sharing: How it shares gradient steps; None: it does not, or does not train at all.

    Raises:
        UserError: The framework or the device is missing, or a part cannot be built from its settings.
        note_rl.errors.NoteRLError: The training core refuses a setting.
    """
    import_framework(config.backend)
    device = device_of(config.backend)
    seed_everything(config.seed)
    environment = build_environment(config)
    _say_what_scores_are(config, environment)
    settings = build_settings(config)
    sharing = sharing or Sharing({}, nullcontext)
    with sharing.scope():
        agent = _partial("agent", config.agent)(env=environment, device=device, **_networks(config))
        agent.settings = settings
        try:
            optimizer = _partial("optimizer", config.optimizer)(agent.param)
        except ValueError as error:  # what the framework finds out of range
            raise UserError(f"optimizer: {error}") from error
    used = used_config(config, environment, agent, optimizer)
    return BuiltRun(config, environment, agent, optimizer, used, sharing.arguments)


def _networks(config: RunConfig) -> dict[str, Callable[..., Any]]:
    """The makers of networks by the agent's names of them."""
    networks = Networks.from_section(config.network)
    made = {"network": _partial("network", networks.network)}
    if networks.critic is not None:
        made["critic_network"] = _partial("network.critic", networks.critic)
    return made


def import_framework(backend: BackendConfig) -> None:
    """Imports what the backend needs, quietly.

    Raises:
        UserError: It is not installed.
    """
    modules = [backend.module, "keras"] if backend.name == "keras" else [backend.module]
    try:
        quiet_import(*modules)
    except ModuleNotFoundError as error:
        if error.name not in modules:
            raise
        raise UserError(
            f"backend={backend.name} needs {error.name}, which is not installed: pip install 'note-rl[{backend.name}]'"
        ) from error


def build_environment(config: RunConfig) -> EnvFactory:
    """The factory of a run's environment, wrappers included, those for training only as such."""
    wrappers = build_wrappers({"wrapper": config.wrapper})
    training_wrappers = build_wrappers({"wrapper_training": config.wrapper_training})
    return EnvFactory(config.env.id, config.env.kwargs, wrappers, config.env.max_episode_steps, training_wrappers)


def build_wrappers(groups: Mapping[str, Mapping[str, JsonDict]]) -> tuple[Callable[..., Any], ...]:
    """The wrappers of groups, from inside to outside.

    Args:
        groups: By the name of the group, its wrappers by their names.
    """
    return tuple(_build(f"{group}.{name}", node) for group, nodes in groups.items() for name, node in nodes.items())


def _say_what_scores_are(config: RunConfig, environment: EnvFactory) -> None:
    """Evaluation counts the rewards of wrappers that are not for training only."""
    for name, kind in reward_wrappers(config.wrapper, environment.wrappers).items():
        say_once(
            _log,
            f"wrapper.{name} ({kind.__name__}) changes the rewards of evaluations and scores as well; to have it "
            f"in training only, write wrapper_training.{name} in place of wrapper.{name}",
        )


def reward_wrappers(names: Iterable[str], made: Iterable[Callable[..., Any]]) -> dict[str, type[Any]]:
    """The classes of those wrappers that change rewards, by their names."""
    kinds = {name: getattr(one, "func", one) for name, one in zip(names, made, strict=True)}
    changing = (gymnasium.RewardWrapper, gymnasium.wrappers.NormalizeReward)
    return {name: kind for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, changing)}


@speaking_of_settings()
def build_settings(config: RunConfig) -> Settings:
    """How the agent explores and what it trains from. Imports no framework unless a part of the user's own does.

    Raises:
        UserError, note_rl.errors.NoteRLError: A value out of range or a contradiction.
    """
    return Settings(
        experience=_build("buffer", config.buffer),
        policy=build_policy(config),
        num_envs=config.env.num_envs,
        max_grad_norm=config.training.max_grad_norm,
        matmul=config.training.matmul,
        normalise_obs=config.training.normalise_obs,
        normalise_reward=config.training.normalise_reward,
        multi_agent=config.training.multi_agent,
        seed=config.seed,
        workers=_build("collector", config.collector) if config.collector else None,
        adaptive=_build("adaptive", config.adaptive) if config.adaptive else None,
        plateau=_build("plateau", config.plateau) if config.plateau else None,
        trial_count=config.training.reward_window,
        criterion=config.training.target_reward if config.training.target_by == "episodes" else None,
        schedules={name: _build(f"schedule.{name}", node) for name, node in config.schedule.items()},
    )


def build_distributed(config: RunConfig) -> Distributed | None:
    """The processes that take gradient steps together; None: one alone.

    Raises:
        UserError, note_rl.errors.NoteRLError: A value out of range, or what the backend cannot do.
    """
    if not config.strategy:
        return None
    made: Distributed = _build("strategy", config.strategy)
    check_backend(made, config.backend)
    return made


def build_policy(config: RunConfig) -> Policy:
    """How the agent explores, with its noise if it has one.

    Raises:
        UserError, note_rl.errors.NoteRLError: A value out of range.
    """
    made = {"noise": _build("noise", config.noise)} if config.noise else {}
    policy: Policy = _build("policy", config.policy, **made)
    return policy


def build_trackers(config: Mapping[str, JsonDict] | None) -> dict[str, Any]:
    """The trackers named in a `tracker` section; None: there is no such section."""
    return {name: _build(f"tracker.{name}", node) for name, node in (config or {}).items()}


def check_trackers(config: Mapping[str, JsonDict] | None) -> None:
    """Makes the trackers that come with the package and closes them again: that starts nothing.

    Raises:
        UserError: One of them refuses its settings.
    """
    ours = {name: node for name, node in (config or {}).items() if _comes_with_us(node)}
    for tracker in build_trackers(ours).values():
        tracker.close()


def _comes_with_us(node: Mapping[str, Any]) -> bool:
    return str(node["_target_"]).startswith("tuner.trackers.")


def build_node(path: str, node: Mapping[str, Any]) -> Any:
    """Any other object that a configuration describes by `_target_` (samplers, storages, metrics...).

    Args:
        path: Where it stands in the configuration, for messages.
        node: Resolved.

    Raises:
        UserError: It cannot be built from these settings.
    """
    return _build(path, node)


def find_function(node: Mapping[str, Any]) -> functools.partial[object]:
    """The function, or class, that stands in the place of an agent, with its arguments, which are not looked at yet.

    Raises:
        UserError: There is no such thing.
    """
    found: functools.partial[object] = _build("agent", {**node, "_partial_": True})
    return found


def build_function(node: Mapping[str, Any]) -> Callable[..., object]:
    """The function that stands in the place of an agent, its arguments filled in.

    A function is called with them when the run begins; of a class, an object is made with them, and that is called.

    Raises:
        UserError: There is no such thing, or it cannot be called.
        note_rl.errors.EnvironmentMismatchError: It makes an environment, and there is none of that name.
    """
    function = find_function(node)
    try:
        made: Callable[..., object] = _build("agent", node) if isinstance(function.func, type) else function
    except EnvironmentMismatchError as error:  # what is wrong is the environment, which is typed as env=
        raise EnvironmentMismatchError(str(error).removeprefix("agent: ")) from error
    if not callable(made):
        raise UserError(f"agent._target_={node['_target_']}: its objects cannot be called; name a function")
    return made


def _build(path: str, node: Mapping[str, Any], **made: Any) -> Any:
    """Builds a part of the configuration; further arguments are there already."""
    try:
        return _instantiated(node, made)
    except InstantiationException as error:
        cause = error.__cause__
        if isinstance(cause, NoteRLError | UserError):
            raise type(cause)(about_part(path, node, cause)) from error
        if isinstance(cause, ImportError):
            raise _unimported(path, node, cause) from error
        if isinstance(cause, TypeError | ValueError):
            raise UserError(f"{path} ({node.get('_target_')}) cannot be built: {cause}") from error
        raise


def _instantiated(node: Mapping[str, Any], made: Mapping[str, Any]) -> Any:
    """As `hydra.utils.instantiate` has it, which takes 5 ms for each: one of ours that has no parts is just called."""
    own = _of_ours(node)
    if own is None:
        return instantiate(dict(node), _convert_="all", **made)
    arguments = {name: copy.deepcopy(value) for name, value in node.items() if name not in ("_target_", "_partial_")}
    arguments |= made
    if node.get("_partial_", False):
        return functools.partial(own, **arguments)
    try:
        return own(**arguments)
    except Exception as error:
        raise InstantiationException(f"Error in call to target '{node['_target_']}':\n{error!r}") from error


def _of_ours(node: Mapping[str, Any]) -> Callable[..., Any] | None:
    """The class or function that a node names, if this project has it and it takes values alone; else None."""
    name, *inside = [part.get("_target_") for _, part in targets_in(node)] or [None]
    if (
        type(node) is not dict
        or not isinstance(name, str)
        or inside
        or {key for key in node if key.startswith("_")} - {"_target_", "_partial_"}
    ):
        return None
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute) if name.startswith(OURS) else None
    except Exception:  # noqa: BLE001 - Hydra says what is wrong
        return None
    return found if callable(found) and f"{found.__module__}.".startswith(OURS) else None


def _unimported(path: str, node: Mapping[str, Any], error: BaseException) -> BaseException:
    """The error for a part whose module cannot be imported: the module's own error, if it ends in one."""
    while error.__cause__ is not None:
        error = error.__cause__
    if not isinstance(error, ImportError | AttributeError):
        return error
    return UserError(f"{path}._target_={node.get('_target_')} cannot be imported: {error}")


def _partial(path: str, node: Mapping[str, Any]) -> Callable[..., Any]:
    made = _build(path, {**node, "_partial_": True})
    assert isinstance(made, functools.partial)
    return made
