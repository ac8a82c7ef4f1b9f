"""The files of RL Baselines3 Zoo: settings of an algorithm of Stable-Baselines3 for each environment, as YAML.

They are data: what is a line of Python in them is read as values (`policy_kwargs: "dict(net_arch=[64, 64])"`), and
nothing of them is run.
"""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import yaml

from tuner.config.composition import plain_choice
from tuner.errors import UserError
from tuner.support.names import did_you_mean
from tuner.trial.messages import JsonDict

ALGORITHMS: Final = ("a2c", "ars", "crossq", "ddpg", "dqn", "ppo", "ppo_lstm", "qrdqn", "sac", "td3", "tqc", "trpo")
LIBRARY: Final = "sb3"
"""Typed for the agent: the algorithm of Stable-Baselines3 itself."""

_PACKAGE: Final = "rl_zoo3"
_ATARI: Final = "atari"
_DEFAULT: Final = "default"
_GAME: Final = re.compile(r"(?:ALE/)?(\w+?)(?:NoFrameskip-v\d+|-v5)")
_OF_ATARI: Final = re.compile(r"\w+NoFrameskip-v\d+|ALE/\w+-v5")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SCHEDULE: Final = re.compile(r"lin_([0-9.eE+-]+)")
_TEXTS_OF_PYTHON: Final = ("policy_kwargs", "normalize", "replay_buffer_kwargs", "replay_buffer_class", "env_kwargs")


class Symbol(str):
    """A name in a line of Python, such as `nn.ReLU`."""

    @property
    def last(self) -> str:
        """Behind the last dot."""
        return self.rpartition(".")[2]


@dataclass(frozen=True)
class Falling:
    """A number that falls to 0 in a straight line.

    Attributes:
        start: At the start of training.
    """

    start: float


@dataclass(frozen=True)
class ZooEntry:
    """The settings of an algorithm for an environment.

    Attributes:
        algorithm: As the Zoo calls it.
        env: Id of the environment.
        key: Under which they stand in the file: that id, atari, or default.
        file: Where they stand.
        given: Settings in the file.
        beneath: Defaults of Stable-Baselines3, where the file has no setting.
    """

    algorithm: str
    env: str
    key: str
    file: Path
    given: JsonDict
    beneath: JsonDict = field(default_factory=dict)

    @property
    def settings(self) -> JsonDict:
        """All settings; those of the file take precedence over the defaults of Stable-Baselines3."""
        return {**self.beneath, **self.given}

    @property
    def game(self) -> str | None:
        """The Atari game that it is of, as we call it; None: it is of none."""
        found = _GAME.fullmatch(self.env) if is_of_atari(self.env) else None
        return None if found is None else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", found[1]).lower()

    @property
    def num_envs(self) -> int:
        """Environments that are stepped together."""
        return int(self.given.get("n_envs", 1))

    @property
    def policy_arguments(self) -> JsonDict:
        """Arguments of the policy."""
        return dict(self.given.get("policy_kwargs") or {})


def is_of_atari(env: str) -> bool:
    """Whether an id is one of an Atari game."""
    return _OF_ATARI.fullmatch(env) is not None


def library_agent(algorithm: str) -> str:
    """The name of the file of an algorithm of Stable-Baselines3 among the agents."""
    return f"{LIBRARY}_{'recurrentppo' if algorithm == 'ppo_lstm' else algorithm}"


def zoo_entry(algorithm: str, env: str, file: str | None = None) -> ZooEntry:
    """The settings of an algorithm for an environment.

    Args:
        algorithm: As the Zoo calls it.
        env: Id of the environment.
        file: Of the algorithm; None: that of the installed package.

    Raises:
        UserError: There are no such settings, or the file cannot be read.
    """
    if algorithm not in ALGORITHMS:
        raise UserError(f"zoo: there is no algorithm {algorithm}{did_you_mean(algorithm, ALGORITHMS)}")
    path = Path(file) if file is not None else _installed(algorithm)
    entries = _read(path)
    key = env if env in entries else _ATARI if is_of_atari(env) and _ATARI in entries else _DEFAULT
    if key not in entries:
        raise UserError(f"{path} has no entry {env}{did_you_mean(env, entries)}")
    if not isinstance(entries[key], Mapping):
        raise UserError(f"{path}: {key} holds no settings, but {entries[key]}")
    given = {str(name): _value(str(name), value, path, key) for name, value in entries[key].items()}
    beneath = plain_choice("agent", library_agent(algorithm))["agent"]
    own = {name: value for name, value in beneath.items() if name not in ("algorithm", "action_noise")}
    return ZooEntry(algorithm, env, key, path, given, own)


def entries_of(path: Path) -> tuple[str, ...]:
    """The environments that a file has settings for."""
    return tuple(_read(path))


def _installed(algorithm: str) -> Path:
    """The file in the installed package, found without importing it."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise UserError(
            f"the package {_PACKAGE} is not installed here: pip install {_PACKAGE}, or name a file of the Zoo, "
            f"file=hyperparams/{algorithm}.yml"
        )
    package = Path(spec.origin).parent
    places = [folder / "hyperparams" / f"{algorithm}.yml" for folder in (package, package.parent)]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise UserError(f"the installed {_PACKAGE} has no hyperparams/{algorithm}.yml: name the file, file=PATH")
    return found


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found = yaml.safe_load(path.read_text())
    except OSError as error:
        raise UserError(f"file={path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise UserError(f"file={path} is no YAML: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(found, Mapping):
        raise UserError(f"file={path} holds no entries: a file of the Zoo has settings by environment")
    return {str(key): value for key, value in found.items()}


def _value(name: str, value: Any, path: Path, key: str) -> Any:
    """A setting, with what is written as text in its own form."""
    if not isinstance(value, str):
        return value
    if name in _TEXTS_OF_PYTHON and value.strip():
        return values_of(value, f"{path}: {key}.{name}")
    if _NUMBER.fullmatch(value):
        return float(value)  # YAML takes 3e-4 for a text, as it has no dot
    found = _SCHEDULE.fullmatch(value)
    if found and _NUMBER.fullmatch(found[1]):
        return Falling(float(found[1]))
    return value


def values_of(text: str, where: str = "") -> Any:
    """A line of Python as values: numbers, texts, lists, `dict(...)`, and names as `Symbol`.

    Args:
        text: The line.
        where: It stands, for messages.

    Raises:
        UserError: It is anything else, such as a call.
    """
    try:
        return _evaluated(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(
            f"{where} is {' '.join(text.split())!r}, which is not read: values, lists, names and dict(...) are"
        ) from error


def _evaluated(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List | ast.Tuple):
        return [_evaluated(one) for one in node.elts]
    if isinstance(node, ast.Dict):
        if None in node.keys:
            raise ValueError("an unpacked mapping")
        return {_evaluated(key): _evaluated(one) for key, one in zip(node.keys, node.values, strict=True) if key}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args:
        if any(one.arg is None for one in node.keywords):
            raise ValueError("an unpacked mapping")
        return {str(one.arg): _evaluated(one.value) for one in node.keywords}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -node.operand.value  # type: ignore[operator]
    if isinstance(node, ast.Name | ast.Attribute):
        return Symbol(ast.unparse(node))
    raise ValueError(ast.unparse(node))
