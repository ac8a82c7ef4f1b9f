"""How environments are made, copied and checked."""

import importlib
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import AtariPreprocessing

from note_rl.environments.base import AnyVectorEnv, Env
from note_rl.environments.env_pool import PREFIX, single_pool
from note_rl.environments.goals import GoalObservation, goal_spaces
from note_rl.environments.in_process import difference
from note_rl.environments.memory_estimate import several
from note_rl.environments.observations import FlatObservation, has_fixed_size, id_of
from note_rl.environments.single_environments import copied, first_of, single_factory
from note_rl.environments.step_checks import check_spaces
from note_rl.environments.training_only import RewardAsItIs
from note_rl.environments.wrappers import wrapper_of
from note_rl.errors import EnvironmentMismatchError
from note_rl.errors.wording import Part, Sentence, SettingName, choice
from note_rl.settings.switch_names import MARL, NUM_ENVS
from note_rl.support.precision import OTHER_BOUNDS, are_finite

_EXTRAS = {"gymnasium_robotics": "robotics", "mpe2": "marl", "ale_py": "atari", "cv2": "atari", "minatar": "minatar"}
"""Of this project, which bring packages of environments."""

_EXTRAS_OF_GYMNASIUM = {"gymnasium.envs.box2d": "box2d", "gymnasium.envs.mujoco": "mujoco"}
"""By the package of Gymnasium that an environment is in."""

MakeEnv = Callable[[], Env]
EnvLike = Env | str | MakeEnv | Sequence[Env | str | MakeEnv] | AnyVectorEnv | Callable[[], AnyVectorEnv]


@dataclass(frozen=True)
class EnvFactory:
    """Makes the same environment again and again: an id, its arguments, wrappers from inside to outside.

    Attributes:
        id: A registered Gymnasium id; `module:Name-v0` imports the module first, `envpool:Name-v0` is one of EnvPool's.
        kwargs: Arguments of the environment.
        wrappers: Each takes an environment and returns one.
        training_wrappers: Further ones, outside of those, that evaluation does without: what clips or scales rewards.
            What the agent sees and does must stay the same. Returns of training episodes count rewards without them.
        max_episode_steps: Time limit in steps of the environment itself, inside all wrappers: where one repeats each
            action four times, the agent takes a quarter. None leaves the registered one.
    """

    id: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    wrappers: Sequence[Callable[[Env], Env]] = ()
    max_episode_steps: int | None = None
    training_wrappers: Sequence[Callable[[Env], Env]] = ()

    def __call__(self) -> Env:
        """A new environment, as it is trained in.

        Raises:
            EnvironmentMismatchError: No such id or module, arguments the environment does not take, or a training
                wrapper that changes what the agent sees or does.
        """
        if self.id.startswith(PREFIX):
            return single_pool(self)
        self._import_module()
        try:
            env: Env = gymnasium.make(
                self.id, max_episode_steps=self.max_episode_steps, disable_env_checker=True, **self.kwargs
            )
        except gymnasium.error.UnregisteredEnv as error:
            said = f"there is no environment {self.id!r}: {str(error).rstrip('.')}"
            if ":" not in self.id:
                said += " One" if said.endswith("?") else "; one"
                said += f" of your own is written module:{self.id}, after the module it is in"
                said += ", and so is one of another package"
            raise EnvironmentMismatchError(said) from error
        except gymnasium.error.DependencyNotInstalled as error:
            entry = str(getattr(self.registered(), "entry_point", ""))
            extra = next((name for package, name in _EXTRAS_OF_GYMNASIUM.items() if entry.startswith(package)), None)
            remedy = _told(error) if extra is None else f"its packages are missing: pip install 'note-rl[{extra}]'"
            raise EnvironmentMismatchError(f"cannot make environment {self.id!r}: {remedy}") from error
        except (gymnasium.error.Error, TypeError, ImportError) as error:
            if isinstance(error, ImportError) and not _is_of_gymnasium(error):
                raise  # of the environment's own code
            raise EnvironmentMismatchError(f"cannot make environment {self.id!r}: {_told(error)}") from error
        for wrapper in self.wrappers:
            env = _wrapped(env, wrapper)
        if self.training_wrappers:
            env = RewardAsItIs(env)
        for wrapper in self.training_wrappers:
            env = _wrapped_for_training(env, wrapper)
        return env

    def registered(self) -> Any:
        """Gymnasium's registration of it (EnvSpec); None: there is none."""
        self._import_module()
        return gymnasium.registry.get(self.id.rpartition(":")[2])

    def _import_module(self) -> None:
        module = self.id.partition(":")[0] if ":" in self.id else None
        if module is None:
            return
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            extra = _EXTRAS.get(str(error.name))
            if error.name is None or not (extra or f"{module}.".startswith(f"{error.name}.")):
                raise  # the module exists, but something it needs does not
            remedy = (
                f"pip install 'note-rl[{extra}]'" if extra else "start from the folder that holds it, or install it"
            )
            raise EnvironmentMismatchError(
                f"cannot make environment {self.id!r}: no module named {error.name!r} on the Python path; {remedy}"
            ) from error


def _told(error: Exception) -> str:
    """The error text of Gymnasium or the environment, without the words on where it was raised."""
    said = str(error).partition(" was raised from the environment creator")[0]
    said = re.sub(r"\b\w+\.__init__\(\) missing ", "it needs ", said)
    return re.sub(r"\b\w+\.__init__\(\) ", "it ", said)


def _is_of_gymnasium(error: Exception) -> bool:
    """Whether a module of Gymnasium's has raised it."""
    *_, (last, _) = traceback.walk_tb(error.__traceback__)
    return str(last.f_globals.get("__name__")).startswith("gymnasium.")


def _wrapped(env: Env, wrapper: Callable[[Env], Env]) -> Env:
    """Wraps an environment; an error of Gymnasium's becomes one line, other errors of a wrapper stay as they are."""
    try:
        wrapped = wrapper(env)
    except (ValueError, TypeError, AssertionError, gymnasium.error.Error) as error:
        if not _is_of_gymnasium(error):
            raise
        *_, (last, _) = traceback.walk_tb(error.__traceback__)
        wanted = getattr(last.f_locals.get("self"), "__class__", type(env)).__name__
        raise EnvironmentMismatchError(f"the wrapper {wanted} cannot be put around the environment: {error}") from error
    if isinstance(wrapped, AtariPreprocessing) and wrapper_of(wrapped.env, AtariPreprocessing) is not None:
        raise EnvironmentMismatchError(
            "the environment shows its frames through AtariPreprocessing already, and a second one would skip frames "
            "twice: leave that wrapper out"
        )
    return wrapped


def _wrapped_for_training(env: Env, wrapper: Callable[[Env], Env]) -> Env:
    wrapped = _wrapped(env, wrapper)
    unlike = difference(env, wrapped)
    if unlike is not None:
        raise EnvironmentMismatchError(
            f"{type(wrapped).__name__} is a wrapper for training only, and the agent would meet something else in "
            f"evaluation, without and with it: {unlike}; put it among the wrappers of both"
        )
    return wrapped


def for_evaluation(env: Any) -> Any:
    """The same without wrappers that are for training only."""
    if isinstance(env, EnvFactory):
        return replace(env, training_wrappers=())
    return [for_evaluation(one) for one in env] if isinstance(env, list | tuple) else env


def check_same_spaces(env: EnvLike, evaluation_env: EnvLike) -> None:
    """Refuses to evaluate an agent where it sees or does something else than in training (EnvironmentMismatchError)."""
    one, other = (flat_observations(as_factory(given)()) for given in (env, evaluation_env))
    unlike = difference(one, other)
    for made in (one, other):
        made.close()
    if unlike is not None:
        raise EnvironmentMismatchError(f"evaluation_env is unlike env: {unlike}; bring them together by wrappers")


def flat_observations(env: Env) -> Env:
    """The environment with observations as one array.

    Of goal observations (observation, achieved_goal, desired_goal), the first and the last are put together; what else
    is no Box already is flattened (one-hot if discrete), and so is a single number.

    Raises:
        EnvironmentMismatchError: It is of several agents, which act in a `JointEnvironment` only, or has no space,
            or its observations have no fixed size or are empty.
    """
    if hasattr(env, "possible_agents") or isinstance(getattr(env, "action_space", None), list | tuple):
        raise EnvironmentMismatchError("{} is for several agents: {}", type(env).__name__, MARL.add())
    if not isinstance(env, gymnasium.Env):
        raise EnvironmentMismatchError(
            "{} is no environment: its class does not derive from gymnasium.Env; {}", type(env).__name__, _OF_SEVERAL
        )
    check_spaces(env)
    space = env.observation_space
    if has_fixed_size(space) and _num_numbers(space) == 0:
        raise EnvironmentMismatchError(
            f"{_name_of(env)} has the observation space {space}, which holds no number, and an agent acts by what it "
            "sees: where nothing is to be seen, show a constant, such as Box(0.0, 1.0, (1,))"
        )
    if isinstance(space, spaces.Box) and space.shape:
        return env
    if goal_spaces(space) is not None:
        return GoalObservation(env)
    return FlatObservation(env)


def _num_numbers(space: spaces.Space[Any]) -> int:
    """How many a flat observation of it has."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        return sum(map(_num_numbers, parts))
    return spaces.flatdim(space)


def as_factory(env: EnvLike) -> MakeEnv:
    """A factory of fresh single environments like the given one, or like those of the given vector environment.

    Raises:
        EnvironmentMismatchError: An environment object that can be neither made again nor copied.
    """
    if isinstance(env, str):
        return EnvFactory(env)
    if isinstance(env, gymnasium.vector.VectorEnv):
        return single_factory(env)
    if isinstance(env, gymnasium.Env):
        template = env
        return lambda: _like(template)
    if isinstance(env, Sequence):
        if not env:
            raise EnvironmentMismatchError("env is an empty list; give at least one environment")
        return as_factory(env[0])
    if isinstance(env, EnvFactory):
        return env
    if callable(env):
        return lambda: _single(env())
    raise EnvironmentMismatchError(
        "env must be an environment, an id, a list or a factory, got {}{}{}",
        type(env).__name__,
        Sentence(": give its method make, as {}", SettingName("env").at("spec.make"))
        if isinstance(env, EnvSpec)
        else "",
        Sentence(", whose class does not derive from gymnasium.Env; {}", _OF_SEVERAL) if hasattr(env, "step") else "",
    )


_OF_SEVERAL = Sentence("if several agents act in it, {}", MARL.add())


def _like(env: Env) -> Env:
    """A copy, with what was changed since the environment was made and what its wrappers have measured.

    What cannot be copied is made again where Gymnasium knows how (EnvironmentMismatchError: it does not).
    """
    try:
        return copied(env, COPY_ADVICE)
    except EnvironmentMismatchError:
        if not can_be_made_again(env):
            raise
    spec = env.spec
    assert spec is not None
    return gymnasium.make(spec)


COPY_ADVICE = "give env as a function that makes a new one"


def can_be_made_again(env: Any) -> bool:
    """Whether Gymnasium knows how an environment was made; of a user's wrapper it knows no arguments."""
    spec = getattr(env, "spec", None)
    return isinstance(spec, EnvSpec) and all(wrapper.kwargs is not None for wrapper in spec.additional_wrappers)


def is_environment(given: Any) -> bool:
    """Whether this is an environment itself, of Gymnasium's kind or another, rather than an id or what makes one."""
    return hasattr(given, "step") and not isinstance(given, type)


def holds_environments(env: Any) -> bool:
    """Whether an agent was given environments themselves, which are the user's, rather than how to make them."""
    return any(is_environment(one) for one in (env if isinstance(env, list | tuple) else [env]))


def check_listed(envs: Sequence[Any]) -> None:
    """Refuses a list that holds nothing, or the same environment twice (EnvironmentMismatchError)."""
    if not envs:
        raise EnvironmentMismatchError("env is an empty list; give at least one environment")
    objects = [getattr(one, "unwrapped", one) for one in envs if is_environment(one)]
    if len({id(one) for one in objects}) < len(objects):
        raise EnvironmentMismatchError(
            "the list env holds the same environment more than once, and several episodes cannot run in one: make one "
            "for each, or give the one environment, its id or its factory with num_envs"
        )


def _single(made: Env | AnyVectorEnv) -> Env:
    return first_of(made) if isinstance(made, gymnasium.vector.VectorEnv) else made


def make_environments(env: EnvLike, num_envs: int | None) -> list[Env]:
    """The environments to train in: the given objects themselves where there are as many, else fresh ones.

    Raises:
        EnvironmentMismatchError: They cannot be made, the same one is given twice, or `num_envs` is not how many.
    """
    if isinstance(env, Sequence) and not isinstance(env, str):
        check_listed(env)
        if num_envs not in (None, len(env)):
            raise EnvironmentMismatchError(
                "{}, but env is a list of {}; {}", NUM_ENVS.at(num_envs), len(env), NUM_ENVS.leave_out()
            )
        return [flat_observations(one if isinstance(one, gymnasium.Env) else as_factory(one)()) for one in env]
    if isinstance(env, gymnasium.Env) and num_envs in (None, 1):
        return [flat_observations(env)]
    factory = as_factory(env)
    return [flat_observations(one) for one in several(factory, num_envs or 1)]


def num_discrete_actions(env: Env, agent: str) -> int:
    """The number of actions, for agents that choose one of several.

    Raises:
        EnvironmentMismatchError: The action space is not discrete.
    """
    if isinstance(env.action_space, spaces.Discrete):
        return int(env.action_space.n)
    instead: Part = choice("an environment with discrete actions")
    if isinstance(env.action_space, spaces.MultiDiscrete | spaces.MultiBinary):
        instead = Sentence("{}, which choose several at once", choice("PPO, A2C or TRPO"))
    raise EnvironmentMismatchError(
        "{} chooses one of several actions, but {} has the action space {}; take {}",
        *(agent, _name_of(env), env.action_space, instead),
    )


def bounded_actions(env: Env, agent: str) -> spaces.Box:
    """The action space, for agents that choose numbers within bounds.

    Raises:
        EnvironmentMismatchError: Actions are no numbers, or have no finite bounds.
    """
    if not isinstance(env.action_space, spaces.Box):
        instead = "an environment with continuous actions"
        if isinstance(env.action_space, spaces.Discrete):
            instead = f"DQN or PPO, or {instead}"
        raise EnvironmentMismatchError(
            "{} chooses vectors of numbers, but {} has the action space {}; take {}",
            *(agent, _name_of(env), env.action_space, choice(instead)),
        )
    if not are_finite(env.action_space.low, env.action_space.high):
        raise EnvironmentMismatchError(
            "{} needs actions with finite bounds, but {} has {}: {}",
            *(agent, _name_of(env), env.action_space, OTHER_BOUNDS),
        )
    return env.action_space


def _name_of(env: Env) -> str:
    return id_of(env) or type(env.unwrapped).__name__
