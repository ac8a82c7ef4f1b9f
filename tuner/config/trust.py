"""Which code a configuration found in a run folder may name: what comes with `tuner`, what was run here, what is named.

A folder may come from anybody, and its config says what is imported and called. So a config that is read from a folder
builds only the parts listed here. Anything else is the user's own code: it is refused until its module is named
(`trust=my_rl`). What runs of this machine have used is remembered (`tuner.config.modules_used`): the same target of the
same module with the same arguments is known again.
"""

import copy
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from tuner.config.annotations import shortened
from tuner.config.modules_used import COMMANDS, mark_of, note, remembered
from tuner.config.paths import set_path, targets_in
from tuner.config.signatures import home_of
from tuner.errors import UserError

_AGENTS = (
    *(
        "A2C",
        "ACER",
        "AlphaZero",
        "BC",
        "CrossQ",
        "DDPG",
        "DQN",
        "DoubleDQN",
        "DuelingDQN",
        "GAIL",
        "MADDPG",
        "PPO",
        "R2D2",
        "SAC",
    ),
    *("SACDiscrete", "TD3", "TQC", "TRPO"),
)
_PARTS: Mapping[str, tuple[str, ...]] = {
    **{f"note_rl.agents.{package}": _AGENTS for package in ("keras", "pytorch")},
    **{f"note_rl.agents.{package}.networks": ("CNN", "MLP") for package in ("keras", "pytorch")},
    **{f"note_rl.agents.{package}.encoded": ("encoded_network",) for package in ("keras", "pytorch")},
    **{f"note_rl.agents.{package}.layered": ("layered_network",) for package in ("keras", "pytorch")},
    **{f"note_rl.agents.{package}.recurrent": ("recurrent_network",) for package in ("keras", "pytorch")},
    **{f"note_rl.optimizers.{package}": ("adam", "adamw", "rmsprop", "sgd") for package in ("keras", "pytorch")},
    "note_rl.settings": (
        *("Adaptive", "Distributed", "GSDE", "Hindsight", "Plateau", "Priority", "ReplaySettings", "RolloutPriority"),
        *("RolloutSettings", "SequenceSettings", "Window", "WorkerSettings"),
    ),
    "note_rl.policy": (
        *("AdaptiveEpsGreedyPolicy", "BoltzmannGumbelQPolicy", "BoltzmannQPolicy", "EpsGreedyQPolicy"),
        *("GaussianPolicy", "GreedyQPolicy", "GumbelSoftmaxPolicy", "MaxBoltzmannQPolicy", "NoisyPolicy"),
        *("GSDEPolicy", "SoftmaxPolicy", "SquashedGSDEPolicy", "SquashedGaussianPolicy"),
    ),
    "note_rl.noise": ("GaussianWhiteNoiseProcess", "OrnsteinUhlenbeckProcess"),
    "note_rl.schedules": ("Constant", "Exponential", "Linear"),
    "note_rl.environments.training_only": ("LifeLoss", "SignOfReward"),
    "note_rl.examples.experts": ("cartpole_expert", "cartpole_recording"),
    "gymnasium.wrappers": (
        *("AtariPreprocessing", "ClipAction", "ClipReward", "FlattenObservation", "FrameStackObservation"),
        *("GrayscaleObservation", "MaxAndSkipObservation", "NormalizeObservation", "NormalizeReward"),
        *("RescaleAction", "RescaleObservation", "ResizeObservation", "StickyAction", "TimeAwareObservation"),
    ),
    "tuner.features.sb3.sb3_trainer": ("Sb3",),
    "tuner.features.sb3.sbx_trainer": ("Sbx",),
    "tuner.runs.drift_simulator": ("Drifting",),
    "tuner.runs.progress_bar": ("BarProgress", "LineProgress", "QuietProgress", "bar_or_lines"),
    "tuner.simulator": ("Synthetic",),
    "tuner.trackers.mlflow": ("MlflowTracker",),
    "tuner.trackers.tensorboard": ("TensorBoardTracker",),
    "tuner.trackers.wandb": ("WandbTracker",),
}
TARGETS: Final = frozenset(f"{module}.{name}" for module, names in _PARTS.items() for name in names)
"""Parts that a folder's config may have built: one by one, as `note_rl.noise.np.load` begins with note_rl, too."""

_LONGEST_NAME = 200  # in messages
_SENDS_OR_WRITES = frozenset({"tuner.trackers.mlflow.MlflowTracker", "tuner.trackers.wandb.WandbTracker"})

ENV_MODULES: Final = frozenset(
    {f"note_rl.examples.{name}" for name in ("catch", "coordination", "environments", "memory_tasks", "simple_spread")}
    | {"note_rl.environments.atari", "note_rl.environments.minatar", "gymnasium_robotics", "ale_py"}
)
"""Modules before the colon of an environment's id."""

_FRAMEWORKS = ("torch", "tensorflow")
_ENVPOOL = re.compile(r"envpool:[\w.-]+")
_MAKES_OTHERS = re.compile(r"GymV2[16]Environment(-v\d+)?")  # of Gymnasium: imports what its arguments name
_NAME = re.compile(r"[A-Za-z_][\w.:/-]*")
_REFERENCE = "${"
_LOOKS_UP = "hydra.utils.get_"
_PLAIN_REFERENCE = re.compile(r"\$\{\.*\w+(\.\w+)*\}")
_OURS = ("note_rl", "tuner")


@dataclass(frozen=True)
class Foreign:
    """A place of a config that names code which does not come with `tuner`.

    Attributes:
        path: Of the setting.
        name: The class, function, module or environment.
        node: The setting with all its arguments.
        is_module: Whether it is imported only; else it is a name in a module.
        setting: The argument that makes the difference, as it is typed; "": it is the name.
    """

    path: str
    name: str
    node: Mapping[str, Any]
    is_module: bool = False
    setting: str = ""

    def __str__(self) -> str:
        return self.setting or f"{self.path}={self.name}"

    @cached_property
    def mark(self) -> str:
        """By which it is known again; asked for when the module can be found (`admit_code`)."""
        return mark_of(self.node, self.name)

    def is_within(self, trusted: Iterable[str]) -> bool:
        """Whether it comes from one of these modules, and does not only pass through it (`my_rl.agents.os.system`)."""
        for module in trusted:
            if self.name == module:
                return True
            if _within(self.name, module):
                home = self.name if self.is_module else home_of(self.name)
                return home is not None and _within(home, module)
        return False

    def asked_for(self, trusted: Iterable[str]) -> str:
        """The name to trust for this target: its package, or, where that is not enough, the target itself.

        That is never enough of `tuner` and `note_rl`: with them would come all that they import.
        """
        return (
            self.name
            if any(_within(self.name, module) for module in (*_OURS, *trusted))
            else self.name.partition(".")[0]
        )


def trusted_modules(given: object) -> tuple[str, ...]:
    """The modules that a setting `trust` names.

    Raises:
        UserError: It names none.
    """
    listed = given if isinstance(given, list | tuple) else [] if given is None else [given]
    for name in listed:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UserError(f"trust={name} must name a module, or several: trust=my_rl or trust=[my_rl,other]")
    return tuple(listed)


def admit(config: Mapping[str, Any], source: Path | str, trust: Iterable[str] = ()) -> None:
    """Refuses a config from a folder that names code nobody has vouched for; imports nothing.

    Args:
        config: As read, nothing resolved.
        source: Where it was read, for messages.
        trust: Modules that the user has named. What is used of them is remembered.

    Raises:
        UserError: Names the code, and what to type if it is to be run.
    """
    _refuse_references(config, source)
    admit_code(list(foreign_code(config)), source, trust)


def admit_changes(
    typed: Mapping[str, Any], changes: Mapping[str, Any], source: Path | str, trust: Iterable[str] = ()
) -> None:
    """Refuses settings from a storage that name code nobody has vouched for, or refer to something else.

    Args:
        typed: The config that they change, as the user has it: its code is trusted.
        changes: Their values, by config path.
        source: Where they are stored, for messages.
        trust: Modules that the user has named.

    Raises:
        UserError: Names the code, and what to type if it is to be run.
    """
    _refuse_references(changes, source)
    changed: Any = copy.deepcopy(dict(typed))
    for path, value in changes.items():
        set_path(changed, path, value)
    named = {_what_runs(code) for code in foreign_code(typed)}
    admit_code([code for code in foreign_code(changed) if _what_runs(code) not in named], source, trust)


def _what_runs(code: Foreign) -> tuple[str, ...]:
    return (code.path, code.name, *(str(code.node.get(word)) for word in COMMANDS))


def admit_code(found: Sequence[Foreign], source: Path | str, trust: Iterable[str] = ()) -> None:
    """Refuses such code unless it was used here before, or its module is named; then it is remembered.

    Raises:
        UserError: Names the code, and what to type if it is to be run.
    """
    if not found:
        return
    trust = tuple(trust)
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # where the user's modules lie; behind what is installed, which it cannot replace
    known = remembered()
    unknown = [code for code in found if code.mark not in known and not code.is_within(trust)]
    if unknown:
        names = list(dict.fromkeys([*trust, *(code.asked_for(trust) for code in unknown)]))
        typed = shortened(names[0] if len(names) == 1 else f"[{','.join(names)}]", _LONGEST_NAME)
        listed = ", ".join(shortened(str(code), _LONGEST_NAME) for code in unknown[:3])
        raise UserError(
            f"{source} asks for code that tuner does not build by itself and that was not used here before, "
            f"or has changed since: {listed}.\n"
            f"It would run with all your rights. If you know it and who made that folder, add trust={typed}"
        )
    note(code.mark for code in found)


def remember(config: Mapping[str, Any]) -> None:
    """Notes the code of the user's own that a run made here names, so that its folder is continued without a question.

    Where there is no place for notes (a read-only home), the question is asked.
    """
    note(code.mark for code in foreign_code(config))


def foreign_code(config: Mapping[str, Any]) -> Iterator[Foreign]:
    """All places of a config that name code which does not come with `tuner`.

    Raises:
        UserError: A `_target_` that is no name.
    """
    for path, node in targets_in(config):
        target = node["_target_"]
        if not isinstance(target, str):
            raise UserError(f"{path}._target_={target} must be the dotted path of a class or function")
        if target not in TARGETS:
            looked_up = node.get("path") if target.startswith(_LOOKS_UP) else None
            if isinstance(looked_up, str):  # what hydra.utils.get_class and its like look up is what would run
                yield Foreign(f"{path}.path", looked_up, node)
            else:
                yield Foreign(f"{path}._target_", target, node)
        for setting in _places_named(node) if target in _SENDS_OR_WRITES else ():
            yield Foreign(f"{path}.{setting}", target, node, setting=f"{path}.{setting}={node[setting]}")
    env, backend, agent = config.get("env"), config.get("backend"), config.get("agent")
    of_agent = agent.get("env") if isinstance(agent, Mapping) else None  # a function may be given its environment
    is_shared = isinstance(env, Mapping) and isinstance(of_agent, Mapping) and of_agent.items() <= env.items()
    for one in (env, *([] if is_shared else [of_agent])):
        if isinstance(one, Mapping) and isinstance(one.get("id"), str):
            yield from _of_environment(one)
    if isinstance(backend, Mapping) and backend.get("module", "torch") not in _FRAMEWORKS:
        yield Foreign("backend.module", str(backend["module"]), backend, is_module=True)


def _places_named(node: Mapping[str, Any]) -> list[str]:
    """Arguments that let a tracker write outside of the run or to another account; without them both are the user's."""
    return [name for name in ("directory", "entity", "uri", "_args_") if node.get(name)]


def _of_environment(env: Mapping[str, Any]) -> Iterator[Foreign]:
    name = env["id"]
    module, colon, rest = name.partition(":")
    if _REFERENCE in name:
        yield Foreign("env.id", name, env, is_module=True)
    elif colon and not _ENVPOOL.fullmatch(name) and (module not in ENV_MODULES or ":" in rest):
        yield Foreign("env.id", module if ":" not in rest else name, env, is_module=True)
    elif _MAKES_OTHERS.fullmatch(rest if colon else name):
        yield Foreign("env.id", name, env, is_module=True)


def _refuse_references(node: object, source: Path | str, path: str = "") -> None:
    """The config of a run is written resolved; what refers to an environment variable came in later."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            _refuse_references(str(key), source, path)
            _refuse_references(value, source, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list):
        for value in node:
            _refuse_references(value, source, path)
    elif isinstance(node, str) and _REFERENCE in node:
        raise UserError(
            f"{source} refers to something else in {path or 'a key'} ({node}), and tuner writes configs without "
            "references: somebody has edited it. Put the value there"
        )


def refuse_lookups(words: Iterable[str], source: str) -> None:
    """Refuses overrides that a storage holds, and that look something up on this machine.

    Raises:
        UserError: Names the first one.
    """
    for word in words:
        if asks_for_more(word):
            raise UserError(
                f"{source} asks for {word}, and what this machine has in its environment or files is not looked up "
                "for a storage: it may be somebody else's. Run the study with the value itself"
            )


def asks_for_more(text: str, beyond: Collection[str] = ()) -> bool:
    """Whether a text refers to anything but settings: to an environment variable, a file, or what a resolver works out.

    Args:
        text: As written. The name of a resolver may itself be a reference: `${oc.${name}:...}`.
        beyond: Keys that it must not refer to either.
    """
    rest = _PLAIN_REFERENCE.sub("", text)
    named = {key for one in _PLAIN_REFERENCE.finditer(text) for key in one[0].strip("${}").split(".")}
    return _REFERENCE in rest or not named.isdisjoint(beyond)


def _within(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")
