"""Whether what stands beside a trial is what its study wrote: no other values, none missing, none added."""

import copy
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from tuner.config.paths import set_path
from tuner.errors import UserError
from tuner.study.space.conditions import holds
from tuner.study.space.coordinates import following, label_of
from tuner.study.space.parameter_text import value_at
from tuner.study.storage.trial_records import ENDING_ATTRIBUTE, OUTCOME_ATTRIBUTE, OWN_ATTRIBUTES, RUN_ATTRIBUTE
from tuner.support.text_files import parse_json
from tuner.trial.messages import JsonDict

_SHOWN = "configuration"
"""Beside a run of a later stage: what its configuration is called."""


def check_carried(trial: FrozenTrial, definition: JsonDict) -> None:
    """Compares what stands beside a trial of the screening with what was drawn.

    Args:
        trial: One that waits or runs may not have everything yet.
        definition: Of its study.

    Raises:
        UserError: Names the attribute.
    """
    kept = trial.user_attrs
    expected = _values_drawn(definition, trial.params)
    for path in expected.keys() & kept.keys() - OWN_ATTRIBUTES:
        if not _is_drawn(kept[path], expected[path]):
            raise UserError(f"{path} is {label_of(kept[path])!r}, and {expected[path]!r} was drawn")
    if trial.state in (TrialState.COMPLETE, TrialState.PRUNED):
        _check_present((RUN_ATTRIBUTE, OUTCOME_ATTRIBUTE, ENDING_ATTRIBUTE), kept)
    if RUN_ATTRIBUTE in kept and trial.state.is_finished():
        drawn = {definition["space"][name]["path"] for name in trial.params.keys() & definition["space"].keys()}
        for about in definition["space"].values():
            if about["path"] not in drawn and holds(about.get("when", {}), expected):
                raise UserError(f"no value of {about['path']} was drawn")
        _check_present(drawn - OWN_ATTRIBUTES, kept)
        _check_not_added(drawn, kept)


def check_shown(kept: JsonDict) -> None:
    """Compares what stands beside a run of a later stage with the values of that run.

    Args:
        kept: All attributes of its trial.

    Raises:
        UserError: Names the attribute.
    """
    values: JsonDict = kept[RUN_ATTRIBUTE]["values"]
    _check_present(values.keys() - OWN_ATTRIBUTES, kept)
    for path, value in values.items():
        if path not in OWN_ATTRIBUTES and kept[path] != value:
            raise UserError(f"{path} is {kept[path]!r}, and the run has {value!r}")
    _check_not_added({*values, _SHOWN}, kept)


def _check_present(names: Iterable[str], kept: JsonDict) -> None:
    for name in sorted(set(names) - kept.keys()):
        raise UserError(f"{name} is missing")


def _check_not_added(written: Iterable[str], kept: JsonDict) -> None:
    for name in sorted(kept.keys() - OWN_ATTRIBUTES - set(written)):
        raise UserError(f"{name} was added, and would be taken for a hyperparameter")


def _values_drawn(definition: JsonDict, drawn: Mapping[str, Any]) -> JsonDict:
    """Returns the values by config path; those that follow others come behind them.

    What follows a setting that the definition does not have is left out.
    """
    config, values = copy.deepcopy(definition["config"]), {}
    searched = {name: about for name, about in definition["space"].items() if name in drawn}
    for name, about in sorted(searched.items(), key=lambda item: bool(_follows(item[1]))):
        with suppress(KeyError):
            value = following(value_at(about, drawn[name]), about["of"], about.get("at_most", ()), config)
            values[about["path"]] = value
            if not _follows(about):
                set_path(config, about["path"], value)
    return values


def _follows(about: JsonDict) -> list[str]:
    return [*about["of"], *about.get("at_most", ())]


def _is_drawn(kept: Any, expected: Any) -> bool:
    """Whether a value is what was drawn, as far as a storage tells: Optuna takes True for 1, and keys become texts."""
    if isinstance(kept, int | float) and isinstance(expected, int | float):
        with suppress(OverflowError):  # a whole number that no float holds
            return math.isclose(kept, expected, rel_tol=1e-9)
    if isinstance(expected, str) and not isinstance(kept, str | None):
        with suppress(ValueError):
            return bool(parse_json(expected) == kept)
    return bool(kept == expected)
