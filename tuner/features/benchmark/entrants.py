"""Entrants of a benchmark: each agent with each of the settings, composed for each environment."""

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, Final

from note_rl.errors import NoteRLError
from tuner.checking.features import named
from tuner.commands.preflight import check_command
from tuner.config.composition import REFERENCE, run_config_of
from tuner.errors import UserError
from tuner.results.protocol import comparison_seeds
from tuner.runs.config_checks import resolve
from tuner.support.names import is_folder_name
from tuner.support.text_files import atomic_write, parse_json
from tuner.trial.messages import JsonDict

_OWN_KEYS: Final = ("agents", "envs", "settings", "agent", "env", "seeds", "metric")
_OWN_OF_TWO: Final = ("settings", "env", "num_seeds", "margin")
_NEXT_SETTING: Final = re.compile(r"\s+(?=[+~]*[\w.@/]+=|~)")
"""Where one setting ends and the next begins; a space within a value stays: `network.hidden_sizes=[64, 64]`."""
_KEPT: Final = "bench.json"
_REFERENCE: Final = "declared scores"


@dataclass(frozen=True)
class Cell:
    """An entrant in an environment.

    Attributes:
        entrant: Its name: the agent, its settings, or both.
        agent: Name of the agent.
        env: Name of the environment.
        config: Resolved.
    """

    entrant: str
    agent: str
    env: str
    config: JsonDict

    @property
    def arm(self) -> str:
        """Name of its runs and of their folders: the same in each call, whichever other entrants there are."""
        own = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in self.entrant)
        mark = "" if own == self.entrant else f"-{zlib.crc32(self.entrant.encode()):08x}"
        return f"{own[:60]}{mark}_{self.env}"

    @property
    def run_config(self) -> JsonDict:
        """The configuration of its runs, without their seeds."""
        return {key: value for key, value in run_config_of(self.config).items() if key not in ("seed", "tracker")}

    @property
    def reference(self) -> tuple[float, float] | None:
        """The scores that are 0 and 1 by the file of the environment; None: it does not say both."""
        found = self.config.get(_REFERENCE) or {}
        ends = [float(end) for end in (found.get("random"), found.get("good")) if isinstance(end, int | float)]
        return (ends[0], ends[1]) if len(ends) == 2 and ends[0] < ends[1] else None

    def runs(self, num_seeds: int) -> Iterator[tuple[str, int, JsonDict]]:
        """Its runs on fresh seeds, the same ones for every entrant: name, seed and configuration of each."""
        run = {key: value for key, value in self.config.items() if key != _REFERENCE}
        for seed in comparison_seeds(int(self.config["seed"]), num_seeds):
            yield self.arm, seed, {**run, "seed": seed}


def cells_of(config: JsonDict, overrides: Sequence[str], config_dir: str | Path | None) -> list[Cell]:
    """All entrants of `tuner bench` in all environments.

    Args:
        config: Of the command, resolved.
        overrides: As typed.
        config_dir: The user's own folder of groups.

    Raises:
        UserError: A list is empty or names something twice, or a configuration is refused.
    """
    agents, envs, settings = list(config["agents"]), list(config["envs"]), config.get("settings")
    for key, names, example in (("agent", agents, "dqn,ppo"), ("env", envs, "cartpole,acrobot")):
        _check_names(key, names, example)
    if settings is not None:
        _check_settings(settings, _OWN_KEYS)
    rest = [word for word in overrides if _key_of(word) not in _OWN_KEYS]
    folder = None if config_dir is None else str(config_dir)
    found = []
    for agent, words in product(agents, settings or [""]):
        name = " ".join(filter(None, ([agent] if len(agents) > 1 or not words else []) + [words]))
        for env in envs:
            typed = (*rest, f"agent={agent}", f"env={env}", *_split(words))
            found.append(Cell(name, agent, env, _checked("bench", typed, folder, f"{name} in env={env}")))
    _check_different(found)
    return found


def setting_cells(config: JsonDict, overrides: Sequence[str], config_dir: str | Path | None) -> list[Cell]:
    """The entrants of `tuner compare settings=[A,B]`, in the environment that is configured.

    Args:
        config: Of the command, resolved.
        overrides: As typed.
        config_dir: The user's own folder of groups.

    Raises:
        UserError: A list is empty or names something twice, or a configuration is refused.
    """
    _check_settings(config["settings"], _OWN_OF_TWO)
    typed = {_key_of(word): word.partition("=")[2] for word in overrides}
    agent, env = typed.get("agent", "agent"), typed.get("env", str(config.get("env", {}).get("id", "env")))
    env = env if is_folder_name(env) else "env"
    rest = [word for word in overrides if _key_of(word) != "settings"]
    folder = None if config_dir is None else str(config_dir)
    found = [
        Cell(words, agent, env, _checked("compare", (*rest, *_split(words)), folder, words))
        for words in config["settings"]
    ]
    _check_different(found)
    return found


def _key_of(word: str) -> str:
    return word.lstrip("+~").partition("=")[0]


def _checked(command: str, typed: tuple[str, ...], config_dir: str | None, what: str) -> JsonDict:
    try:
        return _composed(command, typed, config_dir)
    except (UserError, NoteRLError) as error:
        raise UserError(f"{what}: {error}") from error


@lru_cache(maxsize=256)  # composed to be checked, and again to be run
def _composed(command: str, overrides: tuple[str, ...], config_dir: str | None) -> JsonDict:
    composed = check_command(command, named(overrides), config_dir).config
    return {**resolve(composed), _REFERENCE: (composed.get("env") or {}).get(REFERENCE)}  # no part of a run


def _check_names(key: str, names: Sequence[str], example: str) -> None:
    listed = f"{key}=[{','.join(map(str, names))}]"
    if not names:
        raise UserError(f"{listed} names none: list what is compared, such as '{key}=[{example}]'")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"{listed} names {twice} twice: leave one of them out")
    nested = next((name for name in names if not is_folder_name(name)), None)
    if nested is not None:
        raise UserError(f"{listed}: {nested!r} must be the name of a file in {key}/, without slashes")


def _split(words: str) -> list[str]:
    """Settings as they are typed one after the other."""
    return [word for word in _NEXT_SETTING.split(str(words).strip()) if word]


def _check_settings(settings: Sequence[str], own_keys: Sequence[str]) -> None:
    if not settings:
        raise UserError("settings=[] lists none: leave it out, or list some, settings=['agent.gamma=0.9',...]")
    for words in settings:
        typed = _split(words)
        if not typed or any("=" not in word and not word.startswith("~") for word in typed):
            raise UserError(f"settings: {words!r} must be settings as they are typed, such as 'agent.gamma=0.9'")
        own = next((word for word in typed if _key_of(word) in own_keys), None)
        if own is not None:
            raise UserError(f"settings: {own} cannot stand there: type it beside settings")
    twice = next((words for words in settings if list(settings).count(words) > 1), None)
    if twice is not None:
        raise UserError(f"settings names {twice!r} twice: leave one of them out")


def _check_different(cells: Sequence[Cell]) -> None:
    """Refuses two entrants that are one: they would differ by nothing."""
    seen: dict[str, Cell] = {}
    for cell in cells:
        key = json.dumps([cell.env, cell.run_config], sort_keys=True, default=str)
        if key in seen:
            raise UserError(f"{seen[key].entrant} and {cell.entrant} are the same in env={cell.env}: leave one out")
        seen[key] = cell


def kept_configs(folder: Path) -> JsonDict:
    """Configurations that an earlier call has begun, by arm; empty before the first.

    Raises:
        UserError: It cannot be read.
    """
    path = folder / _KEPT
    try:
        found = parse_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read; restore it, or choose another hydra.run.dir") from error
    if not isinstance(found, dict) or not isinstance(found.get("cells"), dict):
        raise UserError(f"{path} is damaged; restore it, or choose another hydra.run.dir")
    return found


def check_same_cells(folder: Path, cells: Sequence[Cell], metric: str) -> None:
    """Refuses to go on with another configuration of the same entrant, or with another metric.

    Agents, environments, settings and seeds may be added.

    Raises:
        UserError: Names the first setting that differs.
    """
    kept = kept_configs(folder)
    if not kept:
        return
    if kept.get("metric") != metric:
        raise UserError(
            f"{folder} was begun with metric={kept.get('metric')}, not {metric}; choose another hydra.run.dir"
        )
    before = kept.get("cells", {})
    for cell in cells:
        if cell.arm in before and (change := _change(before[cell.arm], json.loads(json.dumps(cell.run_config)))):
            raise UserError(
                f"{folder} was begun with another configuration of {cell.entrant} in {cell.env} ({change}); choose "
                "another hydra.run.dir"
            )


def keep(folder: Path, cells: Sequence[Cell], metric: str) -> None:
    """Writes down what is begun."""
    before = kept_configs(folder).get("cells", {})
    known = {**before, **{cell.arm: cell.run_config for cell in cells}}
    atomic_write(folder / _KEPT, json.dumps({"metric": metric, "cells": known}, indent=1) + "\n")


def _change(before: Any, after: Any, path: str = "") -> str:
    """The first setting that differs, in words; empty: none."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        both = dict.fromkeys((*before, *after))
        steps = (_change(before.get(key), after.get(key), f"{path}.{key}" if path else str(key)) for key in both)
        return next(filter(None, steps), "")
    return "" if before == after else f"{path or 'all of it'} was {before} and is {after}"
