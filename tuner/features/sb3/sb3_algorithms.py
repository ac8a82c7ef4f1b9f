"""The algorithms, and what each takes, read from the source of its class: nothing of these libraries is imported."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from tuner.config.signatures import Argument, signature_of
from tuner.errors import UserError
from tuner.features.sb3.sb3_values import check_value
from tuner.support.names import did_you_mean

SB3: Final = ("PPO", "A2C", "DQN", "DDPG", "SAC", "TD3")
CONTRIB: Final = ("RecurrentPPO", "QRDQN", "TQC", "CrossQ", "TRPO", "ARS", "MaskablePPO")
KNOWN: Final = (*SB3, *CONTRIB)
SBX: Final = ("PPO", "DQN", "DDPG", "SAC", "TD3", "TQC", "CrossQ")
LIBRARIES: Final[Mapping[str, tuple[str, ...]]] = {"sb3": KNOWN, "sbx": SBX}
"""The algorithms of a library by its name, as typed: `agent.library=sbx`. sb3-contrib belongs to the first."""
ACTIVATIONS: Final = ("ReLU", "Tanh", "ELU", "LeakyReLU", "GELU", "SiLU", "Mish", "SELU", "CELU", "Softplus", "Sigmoid")

_SPACES: Final = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")
_ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("DQN", "QRDQN"), ("Discrete",)),
    **dict.fromkeys(("DDPG", "SAC", "TD3", "TQC", "CrossQ"), ("Box",)),
    "ARS": ("Box", "Discrete"),
    "MaskablePPO": ("Discrete", "MultiDiscrete", "MultiBinary"),
}
"""Spaces of actions by algorithm; the others take all of `_SPACES`."""
_POLICIES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("sb3", "RecurrentPPO"): ("MlpLstmPolicy", "CnnLstmPolicy", "MultiInputLstmPolicy"),
    ("sb3", "CrossQ"): ("MlpPolicy",),
    ("sb3", "ARS"): ("MlpPolicy", "LinearPolicy"),
    **dict.fromkeys((("sbx", "PPO"), ("sbx", "DQN")), ("MlpPolicy", "CnnPolicy")),
    ("sbx", "DDPG"): ("MlpPolicy",),
    ("sbx", "TD3"): ("MlpPolicy", "MultiInputPolicy"),
    **dict.fromkeys(
        (("sbx", "SAC"), ("sbx", "TQC"), ("sbx", "CrossQ")), ("MlpPolicy", "SimbaPolicy", "MultiInputPolicy")
    ),
}
"""Policies by library and algorithm, where they are not those of `_USUAL`."""
_USUAL: Final = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")
_FIXED_RATE: Final = ("DQN", "DDPG", "TD3", "CrossQ")
"""Algorithms of SBX that read a schedule of the learning rate once, at their beginning."""
_UNUSED: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("sbx", "PPO"): ("clip_range_vf", "use_sde", "sde_sample_freq"),
}
"""Arguments that a class takes, but has not implemented."""
_OURS: Final = frozenset(
    {"self", "env", "seed", "policy_kwargs", "action_noise", "verbose", "tensorboard_log", "_init_setup_model"}
    | {"stats_window_size", "replay_buffer_class", "replay_buffer_kwargs", "rollout_buffer_class"}
    | {"rollout_buffer_kwargs", "policy", "device", "optimize_memory_usage"}
)
"""Arguments of the classes that the run itself gives, or that take objects of Python."""
_INSTEAD: Final[Mapping[str, str]] = {
    "verbose": "leave it out, a run prints its own progress",
    "tensorboard_log": "type tracker=tensorboard",
    "stats_window_size": "leave it out, a run counts its episodes itself",
    "optimize_memory_usage": "leave it out, it changes nothing of what is learned",
}
"""In place of an argument that people often give."""
_INSTEAD_OF_A_POOL: Final[Mapping[str, str]] = {
    "replay_buffer_class": "for HerReplayBuffer, type agent.hindsight=future",
    "replay_buffer_kwargs": "for HerReplayBuffer, type agent.hindsight=future and agent.num_hindsight_goals=4",
}
"""The same for classes that take replayed goals."""


@dataclass(frozen=True)
class Algorithm:
    """A class of one of the libraries.

    Attributes:
        name: Of the class.
        package: Where it is.
        parameters: Those of its arguments that a configuration may hold.
        takes_noise: Whether it takes an action noise.
        takes_hindsight: Whether its replay pool may be one with hindsight.
        policies: The names of its policies.
        schedules: The settings that may change with progress.
        unused: Arguments that have no effect.
    """

    name: str
    package: str
    parameters: Mapping[str, Argument]
    takes_noise: bool
    takes_hindsight: bool
    policies: tuple[str, ...]
    schedules: tuple[str, ...]
    unused: tuple[str, ...]

    @property
    def is_on_policy(self) -> bool:
        """Whether it learns from rollouts."""
        return "n_steps" in self.parameters and "buffer_size" not in self.parameters

    def checked(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings as the class takes them; see `check_value`.

        Raises:
            UserError: It does not take one of them; names the nearest settings, the kind, or the range.
        """
        instead = {**_INSTEAD, **(_INSTEAD_OF_A_POOL if self.takes_hindsight else {})}
        for name in settings:
            if name in self.unused:
                raise UserError(
                    f"agent.{name} has no effect: {self.name} of {self.package} does not use it; leave it out"
                )
            if name not in self.parameters and name in instead:
                raise UserError(f"agent.{name} cannot be set: {instead[name]}")
            if name not in self.parameters:
                near = did_you_mean(name, self.parameters)
                raise UserError(f"agent.{name}: {self.name} of {self.package} has no such setting{near}")
        return {
            name: check_value(f"agent.{name}", value, self.parameters[name].annotation, self.schedules)
            for name, value in settings.items()
        }

    def check_policy(self, name: str, typed: str) -> None:
        """Refuses a policy that the class does not have.

        Args:
            name: Of the policy.
            typed: What it follows from, for the message.

        Raises:
            UserError: Names those that it has.
        """
        if name not in self.policies:
            known = f"{', '.join(self.policies)}{did_you_mean(name, self.policies)}"
            raise UserError(f"{typed}: {self.name} of {self.package} has no {name}, it has {known}")

    def check_actions(self, kind: str, environment: str) -> None:
        """Refuses actions that the algorithm cannot take.

        Args:
            kind: Name of the class of the action space.
            environment: For the message.

        Raises:
            UserError: Names an algorithm that can.
        """
        if kind not in _ACTIONS.get(self.name, _SPACES):
            others = {"Box": "take SAC or PPO, or ", "Discrete": "take DQN or PPO, or "}.get(kind, "take PPO, or ")
            raise UserError(
                f"agent.algorithm={self.name} takes no {kind} actions, which {environment} has: "
                f"{others if kind in _SPACES else 'take '}another environment"
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
    spec = find_spec(package)
    if spec is None or spec.origin is None:  # a folder of that name is no package
        typed = f"agent.algorithm={name}{' agent.library=sbx' if library == 'sbx' else ''}"
        needed = "pip install 'note-rl[sb3]'" if library == "sb3" else "pip install sbx-rl"
        raise UserError(f"{typed} needs {package}, which is not installed: {needed}")
    signature = signature_of(f"{package}.{name}")
    if signature is None:
        raise UserError(f"agent.algorithm={name}: {package} is installed, but has no source to read its settings from")
    found, unused = signature.parameters, _UNUSED.get((library, name), ())
    parameters = {key: one for key, one in found.items() if key not in (*_OURS, *unused)}
    fixed = ("learning_rate",) if library == "sbx" and name in _FIXED_RATE else ()
    changing = (key for key, one in parameters.items() if re.search("Schedule|Callable", one.annotation or ""))
    return Algorithm(
        name,
        package,
        parameters,
        takes_noise="action_noise" in found,
        takes_hindsight="replay_buffer_class" in found,
        policies=_POLICIES.get((library, name), _USUAL),
        schedules=tuple(sorted(key for key in changing if key not in fixed)),
        unused=unused,
    )


def file_of(name: str, library: str = "sb3") -> str:
    """The name of the files of an algorithm, which have its settings and what is searched of them."""
    return f"{library}{_BETWEEN[library]}{name.lower()}"


def algorithm_in(file: str) -> tuple[str, str] | None:
    """The algorithm that a file is of, and its library; None: it is of none."""
    return next(
        ((one, name) for name, several in LIBRARIES.items() for one in several if file_of(one, name) == file), None
    )


_BETWEEN: Final[Mapping[str, str]] = {"sb3": "_", "sbx": "/"}
