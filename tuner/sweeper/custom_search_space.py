"""Search spaces of hydra-optuna-sweeper besides `params`: `custom_search_space` (a function) and `search_space`.

The function belongs to the application and is called in the controller, once for each job before it starts. It adds
parameters by Optuna's `suggest_...`, whose ranges may depend on values that were drawn before.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import optuna
from hydra.utils import get_method
from omegaconf import DictConfig

from tuner.config.overrides import to_hydra
from tuner.errors import UserError
from tuner.support.names import did_you_mean
from tuner.trial.messages import JsonDict

_KEY = "hydra.sweeper.custom_search_space"
_OLD_KEY = "hydra.sweeper.search_space"
_KINDS = {"float", "int", "categorical"}


@dataclass(frozen=True)
class CustomSearchSpace:
    """A function that adds parameters to a job.

    Attributes:
        path: As it is typed, dotted.
        function: Called with the config of the application and the trial.
    """

    path: str
    function: Callable[[DictConfig, Any], object]

    @classmethod
    def at(cls, path: str) -> "CustomSearchSpace":
        """The function at a dotted path.

        Raises:
            UserError: There is none.
        """
        try:
            return cls(path, get_method(path))
        except Exception as error:  # an import runs code of the application
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UserError(
                f"{_KEY}={path} cannot be imported: {reason}. Write MODULE.FUNCTION, where MODULE can be imported from "
                "the folder of the program"
            ) from error

    def added(self, config: DictConfig, trial: optuna.Trial, values: Mapping[str, object]) -> JsonDict:
        """The parameters that the function adds to a job, by the keys of their overrides.

        Args:
            config: Of the application, with what is typed but not searched.
            trial: The job's.
            values: Values drawn for it already.

        Raises:
            UserError: The function failed, or suggests a parameter that has a value already.
        """
        shown = _TrialOfJob(trial, values)
        try:
            self.function(config, shown)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"{_KEY}={self.path} failed for job {trial.number}: {error!r}") from error
        return shown.added


class _TrialOfJob:
    """Optuna's trial, whose parameters are the values of the job: the sampler may have drawn others for them."""

    def __init__(self, trial: optuna.Trial, values: Mapping[str, object]) -> None:
        self._trial = trial
        self._values = values
        self.added: JsonDict = {}

    @property
    def params(self) -> JsonDict:
        """The values that are drawn for the job so far."""
        return {**self._values, **self.added}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._trial, name)
        return partial(self._suggested, found) if name.startswith("suggest_") else found

    def _suggested(self, suggest: Callable[..., Any], name: str, *arguments: Any, **options: Any) -> Any:
        if name.lstrip("+") in self._values:
            raise UserError(f"{_KEY} suggests {name}, which hydra.sweeper.params or the command line searches already")
        self.added[name] = value = suggest(name, *arguments, **options)
        return value


def as_params(search_space: Mapping[str, Any]) -> dict[str, str]:
    """Translates `search_space`, the older form of `params`, into Hydra's sweep grammar.

    Args:
        search_space: By config path a type (float, int or categorical) with its bounds or choices.

    Raises:
        UserError: One of them says something else.
    """
    return {str(path): _sweep(f"{_OLD_KEY}.{path}", node) for path, node in search_space.items()}


def _sweep(where: str, node: object) -> str:
    if not isinstance(node, Mapping) or node.get("type") not in _KINDS:
        raise UserError(
            f"{where}={node} needs a type, {', '.join(sorted(_KINDS))}, as in {{type: float, low: 0, high: 1}}"
        )
    given = {str(key): value for key, value in node.items() if value is not None}
    kind = given.pop("type")
    allowed = ("choices",) if kind == "categorical" else ("low", "high", "step", "log")
    for key in given:
        if key not in allowed:
            raise UserError(f"{where}.{key} is not possible with type: {kind}{did_you_mean(key, allowed)}")
    for key in allowed[:2]:
        if key not in given:
            raise UserError(f"{where} with type: {kind} needs {key}")
    if kind == "categorical":
        if isinstance(given["choices"], str) or not isinstance(given["choices"], Sequence) or not given["choices"]:
            raise UserError(f"{where}.choices={given['choices']} must be a list, such as [relu, tanh]")
        return f"choice({','.join(map(to_hydra, given['choices']))})"
    return _numbers(where, kind, given)


def _numbers(where: str, kind: str, given: JsonDict) -> str:
    try:
        low, high = (int(given[key]) if kind == "int" else float(given[key]) for key in ("low", "high"))
        step = Decimal(str(given.get("step", 1 if kind == "int" else 0)))
    except (TypeError, ValueError, ArithmeticError) as error:
        raise UserError(f"{where}={given} needs numbers: {error}") from error
    if kind == "int" and step != int(step):
        raise UserError(f"{where}.step={step} must be a whole number with type: int")
    whole = f"int(interval({low},{high}))" if kind == "int" else f"interval({low},{high})"
    is_stepped = step != (1 if kind == "int" else 0)
    if given.get("log"):
        if is_stepped:
            raise UserError(f"{where} has both log and step={given['step']}, which Optuna does not draw: leave one out")
        return f"tag(log,{whole})"
    if is_stepped:
        end = high + 1 if kind == "int" else Decimal(str(high)) + step / 2  # which is not part of it
        return f"range({low},{end},{step})"
    return whole
