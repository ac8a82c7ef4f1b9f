"""The algorithms, and what each takes, read from the source of its class: nothing of these libraries is imported."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from tuner.config.signatures import Argument, signature_of
from tuner.errors import UserError
from tuner.support.names import did_you_mean

SB3: Final = ("PPO", "A2C", "DQN", "DDPG", "SAC", "TD3")
CONTRIB: Final = ("RecurrentPPO", "QRDQN", "TQC", "CrossQ", "TRPO", "ARS", "MaskablePPO")
KNOWN: Final = (*SB3, *CONTRIB)
SBX: Final = ("PPO", "DQN", "DDPG", "SAC", "TD3", "TQC", "CrossQ")
LIBRARIES: Final[Mapping[str, tuple[str, ...]]] = {"sb3": KNOWN, "sbx": SBX}
"""The algorithms of a library by its name, as typed: `agent.library=sbx`. sb3-contrib belongs to the first."""
ACTIVATIONS: Final = ("ReLU", "Tanh", "ELU", "LeakyReLU", "GELU", "SiLU")

_DISCRETE_ONLY: Final = ("DQN", "QRDQN")
_BOX_ONLY: Final = ("DDPG", "SAC", "TD3", "TQC", "CrossQ")
_OURS: Final = frozenset(
    {"self", "env", "seed", "policy_kwargs", "action_noise", "verbose", "tensorboard_log", "_init_setup_model"}
    | {"stats_window_size", "replay_buffer_class", "replay_buffer_kwargs", "rollout_buffer_class"}
    | {"rollout_buffer_kwargs", "policy", "device", "optimize_memory_usage"}
)
"""Arguments of the classes that the run itself gives, or that take objects of Python."""


@dataclass(frozen=True)
class Algorithm:
    """A class of one of the libraries.

    Attributes:
        name: Of the class.
        package: Where it is.
        parameters: Those of its arguments that a configuration may hold.
        takes_noise: Whether it takes an action noise.
        takes_hindsight: Whether its replay pool may be one with hindsight.
    """

    name: str
    package: str
    parameters: Mapping[str, Argument]
    takes_noise: bool
    takes_hindsight: bool

    @property
    def is_on_policy(self) -> bool:
        """Whether it learns from rollouts."""
        return "n_steps" in self.parameters and "buffer_size" not in self.parameters

    @property
    def schedules(self) -> list[str]:
        """The settings that may change with progress."""
        found = {name: one.annotation or "" for name, one in self.parameters.items()}
        return sorted(name for name, kind in found.items() if "Schedule" in kind or "Callable" in kind)

    def check(self, settings: Mapping[str, Any]) -> None:
        """Refuses what the class does not take.

        Raises:
            UserError: Names the nearest settings, or the kind.
        """
        for name, value in settings.items():
            if name not in self.parameters:
                near = did_you_mean(name, self.parameters)
                raise UserError(f"agent.{name}: {self.name} of {self.package} has no such setting{near}")
            kind = self.parameters[name].annotation
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if (kind == "int" and not (is_number and float(value).is_integer())) or (kind == "float" and not is_number):
                wanted = "a whole number" if kind == "int" else "a number"
                raise UserError(f"agent.{name}={value} must be {wanted}")
            if kind == "bool" and not isinstance(value, bool):
                raise UserError(f"agent.{name}={value} must be true or false")

    def check_actions(self, kind: str, environment: str) -> None:
        """Refuses actions that the algorithm cannot take.

        Args:
            kind: Name of the class of the action space.
            environment: For the message.

        Raises:
            UserError: Names an algorithm that can.
        """
        wanted, others = ("Discrete", "DQN or PPO") if self.name in _BOX_ONLY else ("Box", "SAC or PPO")
        cannot = (self.name in _DISCRETE_ONLY and kind != "Discrete") or (self.name in _BOX_ONLY and kind != "Box")
        if cannot:
            raise UserError(
                f"agent.algorithm={self.name} takes no {kind} actions, which {environment} has: "
                f"take {others if kind == wanted else 'PPO'}, or another environment"
            )


def spelled(name: str, library: str = "sb3") -> str:
    """The name of an algorithm as its class has it, given in letters of any size.

    Raises:
        UserError: The library has no such algorithm, or there is no such library.
    """
    if library not in LIBRARIES:
        raise UserError(f"agent.library={library} must be {' or '.join(LIBRARIES)}")
    found = next((one for one in LIBRARIES[library] if one.lower() == name.lower()), None)
    if found is not None:
        return found
    if library == "sb3" or name.lower() not in map(str.lower, KNOWN):
        known = LIBRARIES[library]
        raise UserError(f"agent.algorithm={name}: there is no such algorithm{did_you_mean(name, known)}")
    raise UserError(
        f"agent.algorithm={name} agent.library={library}: this library has {', '.join(LIBRARIES[library])} only; "
        "leave agent.library out"
    )


def find(name: str, library: str = "sb3") -> Algorithm:
    """An algorithm by its name.

    Args:
        name: Of the class.
        library: See `LIBRARIES`.

    Raises:
        UserError: There is none, or its package is not installed.
    """
    if spelled(name, library) != name:
        raise UserError(f"agent.algorithm={name}: there is no such algorithm{did_you_mean(name, LIBRARIES[library])}")
    package = "sbx" if library == "sbx" else "stable_baselines3" if name in SB3 else "sb3_contrib"
    if find_spec(package) is None:
        typed = f"agent.algorithm={name}{' agent.library=sbx' if library == 'sbx' else ''}"
        needed = "pip install 'note-rl[sb3]'" if library == "sb3" else "pip install sbx-rl"
        raise UserError(f"{typed} needs {package}, which is not installed: {needed}")
    signature = signature_of(f"{package}.{name}")
    found = {} if signature is None else signature.parameters
    parameters = {key: one for key, one in found.items() if key not in _OURS}
    return Algorithm(name, package, parameters, "action_noise" in found, "replay_buffer_class" in found)


def file_of(name: str, library: str = "sb3") -> str:
    """The name of the files of an algorithm, which have its settings and what is searched of them."""
    return f"{library}{_BETWEEN[library]}{name.lower()}"


def algorithm_in(file: str) -> tuple[str, str] | None:
    """The algorithm that a file is of, and its library; None: it is of none."""
    return next(
        ((one, name) for name, several in LIBRARIES.items() for one in several if file_of(one, name) == file), None
    )


_BETWEEN: Final[Mapping[str, str]] = {"sb3": "_", "sbx": "/"}
