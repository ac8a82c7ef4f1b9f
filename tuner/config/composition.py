"""The schema of a run's configuration, and where configurations come from.

Configurations travel as plain JSON-able dictionaries between the parts of `tuner`; `RunConfig` is what one training
run makes of its own. `compose` is the one way to Hydra's composition and leaves Hydra's global state alone, so it also
works inside other Hydra applications.
"""

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self

from hydra import version as hydra_version
from hydra.core.config_loader import ConfigLoader as AnyLoader
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.utils import setup_globals
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import MULTIPLIED_BY, SHARE, Count, Number, OneOf, count_or_auto, flag_or_auto
from tuner.config.cached_loader import ConfigLoader
from tuner.config.hydra_internals import search_path_of
from tuner.config.installed_groups import installed_groups
from tuner.config.section_base import Section
from tuner.config.signatures import signature_of
from tuner.errors import UserError, require
from tuner.trial.messages import JsonDict

HYDRA_KEYS = frozenset({"_target_", "_partial_", "_recursive_", "_convert_", "_args_"})
REFERENCE = "reference"
"""Beside what an environment is made of: the returns by which it is compared with others; no part of a run."""
BUILT_MAPPINGS = ("wrapper", "wrapper_training", "schedule", "tracker")
"""Parts that describe any number of objects by name."""
VERSION_BASE = "1.3"  # of Hydra's behaviour


@dataclass(frozen=True)
class BackendConfig(Section, path="backend"):
    """Which framework trains, and where.

    Attributes:
        name: The user's name for it: torch or keras.
        package: The package of that name in note_rl.agents and note_rl.optimizers.
        module: The module that must be importable for it.
        device: cpu, cuda, or auto.
    """

    name: Literal["torch", "keras"]
    package: Literal["pytorch", "keras"]
    module: Literal["torch", "tensorflow"]
    device: str = setting("cpu", OneOf(("cpu", "cuda", "auto")))

    def __post_init__(self) -> None:
        """Refuses names that do not belong together."""
        super().__post_init__()
        package, module = _BACKENDS[self.name]
        require(self.package == package, "backend.package", self.package, f"{package} with backend.name={self.name}")
        require(self.module == module, "backend.module", self.module, f"{module} with backend.name={self.name}")


_BACKENDS = {"torch": ("pytorch", "torch"), "keras": ("keras", "tensorflow")}


@dataclass(frozen=True)
class EnvConfig(Section, path="env"):
    """The environment, see conf/env/.

    Attributes:
        max_episode_steps: In steps of the environment itself, inside wrappers.
        game: Name of the game in its id, where there are many alike.
    """

    id: str
    num_envs: int | str = setting(1, count_or_auto)
    kwargs: dict[str, Any] = field(default_factory=dict)
    max_episode_steps: int | None = setting(None, Count(hint=", or null"))
    game: str | None = None


@dataclass(frozen=True)
class TrainingConfig(Section, path="training"):
    """How long and how.

    Attributes:
        target_reward: A run ends when its return reaches it; None: never.
        target_by: Which return that is: "episodes", the mean of the last `reward_window` training episodes, or
            "evaluations", that of an evaluation.
        reward_window: Episodes; also those that `plateau=episodes` goes by.
        frame_stack: Newest observations that the agent is shown together.
    """

    total_steps: int = setting(kind=Count())
    max_grad_norm: float | None = setting(None, Number(0.0, above=True, hint=", or null for no limit"))
    normalise_obs: bool = False
    normalise_reward: bool = False
    multi_agent: bool = False
    jit_compile: bool | str = setting("auto", flag_or_auto)
    matmul: str = setting("auto", MULTIPLIED_BY)
    target_reward: float | None = None
    reward_window: int = setting(100, Count())
    target_by: Literal["episodes", "evaluations"] = "episodes"
    frame_stack: int = setting(1, Count())


@dataclass(frozen=True)
class EvaluationConfig(Section, path="evaluation"):
    """Evaluations on an even grid over the training budget; how the agent acts: `tuner.runs.evaluation_policy`."""

    num_points: int = setting(kind=Count())
    num_episodes: int = setting(kind=Count())
    policy: Literal["greedy", "sampled", "eps"] = "greedy"
    eps: float = setting(0.05, SHARE)


@dataclass(frozen=True)
class CheckpointConfig(Section, path="checkpoint"):
    """Checkpoints kept of a run, see conf/checkpoint/."""

    save_replay: bool = True
    keep: int = setting(1, Count())
    best: bool = True


@dataclass(frozen=True, kw_only=True)
class RunConfig(Section):
    """All that one training run needs. Parts that are built by `_target_` stay dictionaries until build.py.

    Attributes:
        init: Run folder or checkpoint file whose weights it starts from; None: from new ones.
    """

    seed: int = setting(kind=Count(0))
    backend: BackendConfig
    env: EnvConfig
    network: JsonDict
    optimizer: JsonDict
    buffer: JsonDict
    policy: JsonDict
    agent: JsonDict
    training: TrainingConfig
    evaluation: EvaluationConfig
    noise: JsonDict = field(default_factory=dict)
    collector: JsonDict = field(default_factory=dict)
    wrapper: dict[str, JsonDict] = field(default_factory=dict)
    wrapper_training: dict[str, JsonDict] = field(default_factory=dict)
    schedule: dict[str, JsonDict] = field(default_factory=dict)
    adaptive: JsonDict = field(default_factory=dict)
    plateau: JsonDict = field(default_factory=dict)
    strategy: JsonDict = field(default_factory=dict)
    tracker: dict[str, JsonDict] = field(default_factory=dict)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    init: str | None = None

    @classmethod
    def from_json(cls, config: Mapping[str, Any]) -> Self:
        """From a resolved config; keys that are no part of a run (study, storage...) are left aside.

        Raises:
            UserError: A section is missing or has a value out of range. Unknown keys and wrong types are found by
                `tuner.runs.config_checks`.
        """
        values = {part.name: config[part.name] for part in fields(cls) if part.name in config}
        values = {
            name: {} if value == [] or (value is None and name != "init") else value for name, value in values.items()
        }
        missing = [part.name for part in fields(cls) if part.name not in values and part.name in _REQUIRED]
        if missing:
            raise UserError(f"the config of this run has no {missing[0]}; it should hold {', '.join(_REQUIRED)}")
        for name, section in SECTIONS.items():
            if name in values:
                values[name] = section(**values[name])
        return cls(**{**values, **_stacking(values)})


def _stacking(values: Mapping[str, Any]) -> JsonDict:
    """Agent and buffer with the number of frames shown together; each may still name it itself, as it once had to."""
    frames = values["training"].frame_stack
    if frames <= 1:
        return {}  # reading what the agent takes would make every trial a quarter slower to start
    parts = {name: values[name] for name in ("agent", "buffer")}
    for name, node in parts.items():
        named = node.get(_FRAMES, frames)
        if named != frames:
            raise UserError(f"{name}.{_FRAMES}={named}, but training.{_FRAMES}={frames}: leave the former out")
    signature = signature_of(str(parts["agent"].get("_target_")))
    takes_it = signature is not None and (signature.is_open or _FRAMES in signature.parameters)
    return {name: {**node, _FRAMES: frames} if takes_it or name == "buffer" else node for name, node in parts.items()}


RUN_PARTS = tuple(part.name for part in fields(RunConfig) if part.name != "tracker")
"""Parts that one run is made from; trackers belong to the controller."""

_FRAMES = "frame_stack"

SECTIONS = {
    "backend": BackendConfig,
    "env": EnvConfig,
    "training": TrainingConfig,
    "evaluation": EvaluationConfig,
    "checkpoint": CheckpointConfig,
}


def with_section_defaults(config: Mapping[str, Any]) -> JsonDict:
    """A run's config with what its sections have gained since it was written, to be compared with one of now."""
    filled = dict(config)
    for name, section in SECTIONS.items():
        if isinstance(config.get(name), Mapping):
            defaults = {one.name: one.default for one in fields(section) if one.default is not MISSING}
            filled[name] = {**defaults, **config[name]}
    return filled


_REQUIRED = ("seed", "backend", "env", "network", "optimizer", "buffer", "policy", "agent", "training", "evaluation")


def conf_folder() -> Path:
    """Where the configuration groups lie: inside the installed package, or beside it in a checkout."""
    inside = Path(__file__).resolve().parents[1] / "conf"
    return inside if inside.is_dir() else inside.parents[1] / "conf"


def prepare_hydra() -> None:
    """Fixes the version of Hydra's behaviour, and makes `${now:...}` and our own resolvers known to OmegaConf.

    `${slug:TEXT}` is the text as it may stand in a path; `${either:A,B}` is A unless that is null, else B;
    `${cfg_file:FILE,KEY}` is what a file of layers says of an argument of `layered_network`.
    """
    _offer_plugins()
    hydra_version.setbase(VERSION_BASE)
    setup_globals()
    OmegaConf.register_new_resolver("either", lambda first, second: second if first is None else first, replace=True)
    OmegaConf.register_new_resolver("cfg_file", _said_by_file, replace=True)
    OmegaConf.register_new_resolver("slug", lambda text: re.sub(r"[^\w.-]+", "-", str(text)).strip("-"), replace=True)


def _said_by_file(file: str | None, key: str) -> object:
    if file is None:
        raise UserError("network=cfg reads its layers from a file: add network.file=model.cfg")
    from note_rl.agents.shared.cfg_files import read_cfg  # which imports Gymnasium, for which nobody waits without need

    return read_cfg(str(file))[key]


def _offer_plugins() -> None:
    """Lets Hydra find the sweeper in a checkout that was not installed; an installation has it in `hydra_plugins`."""
    plugins = Path(__file__).resolve().parents[1] / "sweeper" / "plugin"
    if plugins.is_dir() and str(plugins) not in sys.path:
        sys.path.append(str(plugins))


def config_loader(config_dir: str | Path | None = None) -> ConfigLoader:
    """Hydra's loader over a user's own folder of groups, if given, conf/, and what installed packages bring.

    Raises:
        UserError: No such folder.
    """
    prepare_hydra()
    search_path = search_path_of(conf_folder())
    behind_all = SearchPathQuery(provider="schema")  # which has to be the last one
    if config_dir is not None:
        folder = Path(config_dir).resolve()
        if not folder.is_dir():
            raise UserError(f"--config-dir {config_dir}: there is no such folder")
        search_path.prepend("command-line", f"file://{folder}", behind_all)
    for installed in installed_groups(conf_folder()):
        search_path.prepend(installed.package, f"file://{installed.folder}", behind_all)
    return ConfigLoader(search_path)


def compose(loader: AnyLoader, config_name: str, overrides: Sequence[str]) -> DictConfig:
    """The composed configuration, with Hydra's own part under `hydra`. Hydra's exceptions pass through."""
    return loader.load_configuration(config_name, list(overrides), run_mode=RunMode.RUN, from_shell=False)


def run_config_of(resolved: JsonDict) -> JsonDict:
    """The part of a config that one run is made from."""
    return {name: resolved[name] for name in RUN_PARTS if name in resolved}


def plain_choice(group: str, name: str) -> JsonDict:
    """A choice of one of our groups by itself: what refers to other groups has the value that it has without them."""
    path = conf_folder() / group / f"{name}.yaml"
    choice: JsonDict = to_json(OmegaConf.create({group: OmegaConf.load(path)}))[group]
    return choice


def to_json(config: DictConfig, parts: Collection[str] = ()) -> JsonDict:
    """The config as a plain dictionary, interpolations resolved, Hydra's own part and `env.reference` left out.

    Args:
        config: The composed config.
        parts: The top-level keys that are wanted; none: all.

    Raises:
        omegaconf.errors.OmegaConfBaseException: A value is missing (`???`) or refers to nothing.
    """
    resolved: JsonDict = {}
    for key in map(str, config):
        if key != "hydra" and (not parts or key in parts):
            value = config[key]
            is_tree = OmegaConf.is_config(value)
            resolved[key] = OmegaConf.to_container(value, resolve=True, throw_on_missing=True) if is_tree else value
    return without_reference(resolved)


def without_reference(config: JsonDict) -> JsonDict:
    """The config without what is said of its environment to compare it with others: that is no part of a run."""
    if not isinstance(env := config.get("env"), dict):
        return config
    return {**config, "env": {key: value for key, value in env.items() if key != REFERENCE}}
