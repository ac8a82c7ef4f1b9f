"""Trials as optuna-dashboard shows them: parameters by the names and values that are typed.

Optuna draws other quantities than those: `1-agent.gamma` in place of `agent.gamma`, the exponent of a power of two, a
share of another setting. The values as typed are attributes of each trial.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial

from tuner.study.space.parameter_text import axis_kind, value_at
from tuner.study.storage import store as attributes

_STORED: Final = "_as_stored"
"""Attribute of a trial that is shown otherwise: the trial as it is."""

Space = Mapping[str, Mapping[str, Any]]
"""Optuna's name of a parameter -> what `Parameter.describe` says of it."""


class TypedTrials:
    """A storage whose trials have parameters as they are typed. Everything else is that of the storage behind it.

    Trials that are given to it again, as a study is copied that is renamed in the dashboard, are kept as they were.

    Args:
        storage: Of studies, ours and others.
    """

    def __init__(self, storage: BaseStorage) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def get_all_trials(self, study_id: int, deepcopy: bool = True, states: Any = None) -> list[FrozenTrial]:
        """All trials of a study."""
        trials = self._storage.get_all_trials(study_id, deepcopy, states)
        return as_typed(trials, self._space(study_id))

    def get_best_trial(self, study_id: int) -> FrozenTrial:
        """The trial with the best value."""
        (best,) = as_typed([self._storage.get_best_trial(study_id)], self._space(study_id))
        return best

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        """Adds a trial; one that was shown otherwise as it is stored."""
        return self._storage.create_new_trial(study_id, getattr(template_trial, _STORED, template_trial))

    def _space(self, study_id: int) -> Space:
        definition = self._storage.get_study_user_attrs(study_id).get(attributes.DEFINITION)
        space = definition.get("space") if isinstance(definition, dict) else None
        return space if isinstance(space, dict) else {}


BaseStorage.register(TypedTrials)


def with_typed_trials(storage: BaseStorage) -> BaseStorage:
    """The storage as `TypedTrials` shows it."""
    return cast(BaseStorage, TypedTrials(storage))


def as_typed(trials: Sequence[FrozenTrial], space: Space) -> list[FrozenTrial]:
    """The same trials with parameters as they are typed; what the space does not describe stays.

    Args:
        trials: Of one study, not changed.
        space: Of this study.
    """
    known = {name: described for name, described in space.items() if "labels" not in described}
    values = [_values(trial, known) for trial in trials]
    shown = {
        name: _distribution(described, [one[name] for one in values if name in one])
        for name, described in known.items()
    }
    return [_shown(trial, own, known, shown) if own else trial for trial, own in zip(trials, values, strict=True)]


def _values(trial: FrozenTrial, space: Space) -> dict[str, float]:
    """Optuna's name of each parameter that is a number -> its value as typed; without one for a share of nothing."""
    found = {}
    for name, drawn in trial.params.items():
        if name not in space:
            continue
        typed = trial.user_attrs.get(space[name]["path"])
        if not isinstance(typed, int | float) or not math.isfinite(typed):  # not there yet, or somebody's own
            if space[name]["of"]:
                continue
            typed = value_at(space[name], drawn)
        found[name] = typed
    return found


def _distribution(described: Mapping[str, Any], values: Sequence[float]) -> BaseDistribution:
    """A range for the values of all trials, as wide as the space where this does not follow another setting."""
    ends = () if described["of"] else ("low", "high")
    numbers = [*values, *(value_at(described, described[end]) for end in ends)]
    low, high = min(numbers, default=0), max(numbers, default=0)
    log = low > 0 and axis_kind(described) == "log"
    if all(isinstance(number, int) for number in numbers):
        return IntDistribution(int(low), int(high), log=log)
    return FloatDistribution(low, high, log=log)


def _shown(
    trial: FrozenTrial, values: Mapping[str, float], space: Space, shown: Mapping[str, BaseDistribution]
) -> FrozenTrial:
    seen = copy.copy(trial)
    path = {name: space[name]["path"] if name in values else name for name in trial.params}
    seen.params = {path[name]: values.get(name, drawn) for name, drawn in trial.params.items()}
    seen.distributions = {
        path[name]: shown[name] if name in values else of for name, of in trial.distributions.items() if name in path
    }
    setattr(seen, _STORED, trial)
    return seen
