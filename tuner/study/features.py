"""What a feature works out from the trials of a study."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import optuna

from tuner.features import nothing
from tuner.trial.messages import JsonDict


@dataclass(frozen=True)
class InStudy:
    """What a feature works out from the trials of a study.

    Attributes:
        worked_out: Facts by key, for a summary that may take seconds. Given the study of the screening stage or of a
            sweep, its space as `Space.describe` gives it, and whether higher values of the first objective are better.
    """

    worked_out: Callable[[optuna.Study, JsonDict, bool], Mapping[str, object]] = nothing
