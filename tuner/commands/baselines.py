"""Known configurations: what a search begins with, and what its winner is compared with besides the default one."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hydra.core.default_element import GroupDefault
from omegaconf import OmegaConf

from tuner.commands.features import InCommands
from tuner.commands.preflight import compose_or_explain
from tuner.config.cached_loader import ConfigLoader
from tuner.config.composition import config_loader, run_config_of
from tuner.config.overrides import to_hydra
from tuner.errors import UserError
from tuner.features import parts
from tuner.results.protocol import DEFAULT_BASELINE
from tuner.runs.config_checks import resolve
from tuner.runs.functions import function_name, is_function
from tuner.runs.run_folders import check_run_of_weights
from tuner.study.definition import judged_part
from tuner.support.names import did_you_mean, some_of
from tuner.trial.messages import JsonDict

_PUBLISHED = "experiment"
_CONDITIONS = ("evaluation", "wrapper", "init")
_ENDS = ("total_steps", "target_reward", "target_by", "reward_window")
_WARM_STARTS = {
    **{"off": [], "False": []},
    **{"on": [DEFAULT_BASELINE], "True": [DEFAULT_BASELINE]},  # YAML takes bare words for truth values
}


AUTO = "auto"
"""As `warm_start`: the default configuration, where that is possible."""


def named_starts(told: str | bool | Sequence[str]) -> list[str]:
    """The names that are typed for `warm_start`.

    Raises:
        UserError: A list has a word that stands alone.
    """
    if not isinstance(told, list):
        return [str(name) for name in _WARM_STARTS.get(str(told), [told])]
    alone = next((name for name in told if str(name) in (AUTO, *_WARM_STARTS)), None)
    if alone is not None:
        raise UserError(
            f"warm_start={to_hydra(told)}: {alone} is not for a list; default, an experiment and study:NAME are"
        )
    return [str(name) for name in told]


class KnownConfigs:
    """Configurations of experiments, with a study's framework.

    Args:
        run_config: Of the study, as it is by default.
        config_dir: A user's own folder of groups.
    """

    def __init__(self, run_config: JsonDict, config_dir: str | Path | None = None) -> None:
        self._default = run_config
        self._config_dir = config_dir
        self._typed = {name: words for part in parts(InCommands) for name, words in part.baselines.items()}

    def starts(self, names: Sequence[str]) -> dict[str, JsonDict]:
        """Configurations that a search begins with, by name.

        Raises:
            UserError: There is none of a name, or it trains another agent.
        """
        return {name: self._start(name) for name in names}

    def baselines(self, names: Sequence[str]) -> dict[str, JsonDict]:
        """Configurations that a winner is compared with, by name: trained as long as the study trains, measured alike.

        Args:
            names: Of experiments; `experiment` stands for all that have settings for this agent in this environment.

        Raises:
            UserError: There is none of a name, it is of another environment, or its network is not that of the weights
                that the study starts from.
        """
        function, found = is_function(self._default), dict[str, JsonDict]()
        for name in names:
            if name in self._typed:
                found[name] = self._typed_as(self._typed[name](self._default))
            elif name == _PUBLISHED:
                found |= {} if function else dict(self._published())
            elif function:
                raise UserError(
                    f"study.baselines={name} is an experiment, and experiments are not for functions: leave it out"
                )
            else:
                found[name] = self._baseline(name)
        same = {name for name, config in found.items() if judged_part(config) == judged_part(self._default)}
        if typed := same & set(names):
            raise UserError(
                f"study.baselines={min(typed)} is the default configuration of this study, which is compared anyway: "
                "leave it out"
            )
        other = {name for name, config in found.items() if not self._takes_weights(config)}
        if typed := other & set(names):
            raise UserError(
                f"study.baselines={min(typed)}: all runs start from the weights of init={self._default['init']}, which "
                "are for another network than that of this baseline: leave it out"
            )
        return {name: config for name, config in found.items() if name not in same | other}

    def _takes_weights(self, config: JsonDict) -> bool:
        """Whether a configuration has the activations of the run whose weights all runs start from."""
        if config.get("init") is None:
            return True
        try:
            check_run_of_weights(config["init"], config)
        except UserError:
            return False
        return True

    def _start(self, name: str) -> JsonDict:
        if name == DEFAULT_BASELINE:
            return self._default
        found = self._composed(
            name, f"warm_start={name} must be auto, off, default, an experiment or study:NAME (or a list)"
        )
        agents = [function_name(one) for one in (found, self._default)]
        if agents[0] != agents[1]:
            raise UserError(
                f"warm_start={name} is an experiment with {agents[0]}, and {agents[1]} is searched: leave it out"
            )
        return found

    def _baseline(self, name: str) -> JsonDict:
        found = self._trained_as_long(name)
        ids = [one["env"]["id"] for one in (found, self._default)]
        if ids[0] != ids[1]:
            raise UserError(f"study.baselines={name} is an experiment in {ids[0]}, and the study is of {ids[1]}")
        return self._under_the_same_conditions(found)

    def _typed_as(self, words: Sequence[str]) -> JsonDict:
        """The configuration composed of these overrides, for the study's environment, budget and evaluations."""
        default, env = self._default, self._default["env"]
        alike = {"training.total_steps": default["training"]["total_steps"]}
        alike |= {f"evaluation.{name}": default["evaluation"][name] for name in ("num_points", "num_episodes")}
        alike["env.max_episode_steps"] = env["max_episode_steps"]
        kwargs = [f"++env.kwargs.{name}={to_hydra(value)}" for name, value in env["kwargs"].items()]
        overrides = [f"{path}={to_hydra(value)}" for path, value in alike.items()]
        found = _compose(self._config_dir, *self._backend, *words, *overrides, *kwargs)
        return self._under_the_same_conditions(found)

    @property
    def _backend(self) -> list[str]:
        return [f"backend={self._default['backend']['name']}"] if "backend" in self._default else []

    def _under_the_same_conditions(self, found: JsonDict) -> JsonDict:
        """The environment, what ends a run, what it begins with and how it is measured are the study's."""
        alike = {part: self._default[part] for part in _CONDITIONS if part in self._default}
        env = {**self._default["env"], "num_envs": found["env"]["num_envs"]}
        ends = {name: value for name, value in self._default["training"].items() if name in _ENDS}
        return {**found, **alike, "env": env, "training": {**found["training"], **ends}}

    def _trained_as_long(self, name: str) -> JsonDict:
        rule = f"study.baselines={name} must be default, experiment or the name of one (or a list of these)"
        return self._composed(name, rule, f"training.total_steps={self._default['training']['total_steps']}")

    def _published(self) -> Iterator[tuple[str, JsonDict]]:
        loader = config_loader(self._config_dir)
        agent, env = function_name(self._default), self._default["env"]["id"]
        for name in sorted(loader.get_group_options("experiment")):
            told = _told_by(loader, name, "agent", "_target_", agent), _told_by(loader, name, "env", "id", env)
            if (told[0].rpartition(".")[2], told[1]) == (agent, env):  # or they do not tell
                found = self._trained_as_long(name)
                if (function_name(found), found["env"]["id"]) == (agent, env):
                    yield name, self._baseline(name)

    def _composed(self, name: str, rule: str, *overrides: str) -> JsonDict:
        known = sorted(config_loader(self._config_dir).get_group_options("experiment"))
        if name not in known:
            hint = did_you_mean(name, [*known, *self._typed, _PUBLISHED, DEFAULT_BASELINE]) or some_of(known)
            raise UserError(f"{rule}{hint}")
        return _compose(self._config_dir, *self._backend, f"experiment={name}", *overrides)


@cache
def _compose(config_dir: str | Path | None, *overrides: str) -> JsonDict:
    """Composes a config of `tuner tune`; cached: it is needed several times before a study, and takes half a second."""
    return run_config_of(resolve(compose_or_explain(config_loader(config_dir), "tune", list(overrides))))


def _told_by(loader: ConfigLoader, experiment: str, group: str, key: str, default: str) -> str:
    """The value of a key in the choice of a group that an experiment makes, looked up without composing it."""
    choice = _choices(loader, f"experiment/{experiment}").get(group) or _choices(loader, "base").get(group)
    found = loader.repository.load_config(f"{group}/{choice}")
    node: Any = OmegaConf.to_container(found.config, resolve=False) if found else {}
    return str(node.get(group, node).get(key, default))


def _choices(loader: ConfigLoader, name: str) -> dict[str, str]:
    found = loader.repository.load_config(name)
    listed = (found.defaults_list if found else None) or ()
    return {str(one.group).removeprefix("/"): str(one.value) for one in listed if isinstance(one, GroupDefault)}
