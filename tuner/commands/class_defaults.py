"""The values that a class declares for Python, where the files of the configuration have others."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from note_rl.errors import say_once
from note_rl.support.setting_fields import Field
from tuner.checking.hydra_messages import parse_overrides
from tuner.config.cached_loader import ConfigLoader
from tuner.config.composition import compose
from tuner.config.overrides import to_hydra
from tuner.config.paths import get_path, has_path
from tuner.config.signatures import class_constants
from tuner.config.vocabulary import ELSEWHERE, SECTIONS
from tuner.results.number_format import join_words
from tuner.trial.messages import JsonDict

_log = logging.getLogger(__name__)


def say_overruled(loader: ConfigLoader, config: DictConfig, resolved: JsonDict, overrides: Sequence[str]) -> None:
    """Says which values of an agent's `set_defaults` do not count, if nobody has chosen the ones that do.

    Those are chosen that are typed or searched, and those that the agent's own file changes.

    Args:
        loader: Of the configuration.
        config: As composed, with Hydra's own part.
        resolved: The same, resolved and checked.
        overrides: As on the command line.
    """
    target = str(resolved["agent"]["_target_"])
    declared = class_constants(target).get("set_defaults")
    if not isinstance(declared, dict) or resolved.get("resume") is not None:
        return
    typed = {one.key_or_group: str(one.input_line) for one in parse_overrides(overrides)}
    plain = config
    if "agent._target_" not in typed:  # its file is that of the class
        buffer = config.hydra.runtime.choices.get("buffer")
        chosen = [f"buffer={buffer}"] if isinstance(buffer, str) else []
        plain = compose(
            loader, "base", [*(typed[key] for key in typed if key == "hydra.searchpath"), *chosen, "~agent"]
        )
    used, wanted = [], []
    for path, field, value in _paths_of(declared, resolved):
        is_there = has_path(resolved, path)
        current = get_path(resolved, path) if is_there else field.default
        if value != current and path not in typed and (not is_there or current == OmegaConf.select(plain, path)):
            used.append(f"{path}={to_hydra(current)}")
            wanted.append(f"{'' if is_there else '+'}{path}={to_hydra(value)}")
    if used:
        say_once(
            _log,
            "set_defaults of {} is for Python alone: {} {} used here; for its values, write them into the file of the "
            "agent (tuner guide agents), or type {}",
            *(target, join_words(used), "is" if len(used) == 1 else "are", " ".join(wanted)),
        )


def _paths_of(declared: Mapping[str, Any], resolved: JsonDict) -> Iterator[tuple[str, Field, Any]]:
    """The settings of a run that arguments of set() are here, with the values of these; without what is searched."""
    from note_rl.settings import settings_table as table  # imports Gymnasium, which help does without

    buffer = str(resolved["buffer"]["_target_"]).rpartition(".")[2]
    kinds = {"RolloutSettings": table.ROLLOUT, "SequenceSettings": table.SEQUENCES}
    known = table.arguments_of_set(kinds.get(buffer, table.REPLAY))
    for name, value in declared.items():
        field = known.get(name)
        if field is None or field.part not in SECTIONS or field in (table.ON_POLICY, table.IN_SEQUENCES):
            continue
        path = ELSEWHERE.get(f"{field.part}.{field.name}", f"{SECTIONS[field.part]}.{field.name}")
        if (has_path(resolved, path) or field.part == buffer) and not has_path(resolved, f"space.{path}"):
            yield path, field, value
