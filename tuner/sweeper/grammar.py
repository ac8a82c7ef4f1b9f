"""Hydra's sweep grammar as a search space: `choice`, `range`, `interval`, `int(...)`, `tag(log, ...)`.

What has no meaning in a search (a nesting, a pattern of names) is refused, with the reason. `shuffle` and `sort` search
the values that they put in order: in which order these are tried, the sampler decides. Values go back into
overrides as Hydra reads them: `choice('1', 2)` offers a text and a number, and stays so.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser, create_functions
from hydra.core.override_parser.types import (
    ChoiceSweep,
    IntervalSweep,
    Override,
    QuotedString,
    RangeSweep,
    Sweep,
    ValueType,
)
from hydra.errors import OverrideParseException

from tuner.config.overrides import to_hydra
from tuner.errors import UserError
from tuner.study.space.coordinates import Bounds, Choices, Plain, taken_for_the_same
from tuner.study.space.space import Parameter, Space
from tuner.support.passwords import without_password

_BEHIND_THE_CALL = "': "
"""In Hydra's `ValueError while evaluating 'choice()': empty choice is not legal`."""


class _UnreadableError(UserError):
    """Of what is no override at all, or one of a text that has to be quoted."""


class SteppedRange(Plain):
    """Numbers in equal steps, without the last digits that multiplying a step invents: 0.3, not 0.30000000000000004."""

    def to_value(self, drawn: Any) -> object:
        """The number that was drawn."""
        value = super().to_value(drawn)
        return float(f"{value:.12g}") if isinstance(value, float) else value


@dataclass(frozen=True)
class SweepSpace:
    """The searched parameters and the fixed overrides of a sweep.

    Attributes:
        space: The parameters; their paths are the keys of the overrides without a leading +.
        lines: All overrides by name, in the order in which they were given, as a later one changes what an earlier one
            has set. Of a parameter it is the key alone, as an override has it: `+model.lr`.
    """

    space: Space
    lines: Mapping[str, str]

    @property
    def fixed(self) -> tuple[str, ...]:
        """The overrides that all jobs share."""
        return tuple(line for name, line in self.lines.items() if name not in self.space.paths)

    def overrides(self, values: Mapping[str, object]) -> list[str]:
        """The overrides of the job with these values; a value that is none of the space has the key of its override."""
        known = [f"{line}={to_hydra(values[name])}" if name in values else line for name, line in self.lines.items()]
        return [*known, *(f"{key}={to_hydra(value)}" for key, value in values.items() if key not in self.lines)]

    def searched(self, overrides: Sequence[str]) -> list[str]:
        """Those of a job's overrides that other jobs do not have."""
        return [line for line in overrides if line not in self.fixed]

    @property
    def variants(self) -> list[list[str]]:
        """Overrides of a few jobs that between them have every choice and both ends of every range."""
        ends = [
            (parameter.path, [parameter.value(drawn, {}) for drawn in parameter.ends])
            for parameter in self.space.parameters
        ]
        first = {path: values[0] for path, values in ends}
        others = [{**first, path: value} for path, values in ends for value in values[1:]]
        return [self.overrides(values) for values in (first, *others)]

    def grid(self) -> dict[str, list[Any] | None]:
        """All points of each parameter, as Optuna knows them; None for a continuous one."""
        return {parameter.name: _points(parameter) for parameter in self.space.parameters}


def parse_sweep(
    params: Mapping[str, Any],
    arguments: Sequence[str],
    config_loader: ConfigLoader | None = None,
    *,
    may_be_empty: bool = False,
) -> SweepSpace:
    """The search that the sweeper's `params` and the command line describe together; the command line wins.

    Args:
        params: By config path.
        arguments: Of the command line.
        config_loader: Of the application.
        may_be_empty: Whether there may be nothing to search.

    Raises:
        UserError: Nothing is searched, a sweep cannot be read, or has no meaning in a search.
    """
    overrides: dict[str, Override] = {}
    taken_away: list[str] = []
    for override in (*_of_params(params, config_loader), *_parse(arguments, config_loader)):
        name = override.get_key_element().lstrip("+~")
        former = overrides.pop(name, None)
        if former is not None and former.is_sweep_override() and not override.is_sweep_override():
            taken_away.append(f"{override.input_line} comes after {former.input_line} and takes its choice away")
        overrides[name] = override
    swept = {name: override for name, override in overrides.items() if override.is_sweep_override()}
    for name, override in overrides.items():
        if name not in swept and _holds_sweep(override.value()):
            raise UserError(
                f"{override.input_line}: a sweep inside of a list or mapping is not supported; offer whole values: "
                f"{override.get_key_element()}=choice([1,2],[3,4])"
            )
    if not swept:
        if taken_away:
            raise UserError(f"nothing is searched: {'; '.join(taken_away)}. Leave out the one that is not meant")
        if not may_be_empty:
            raise UserError(
                "nothing is searched: give hydra/sweeper=optuna something to vary, such as "
                "'lr=tag(log,interval(1e-5,1e-2))' or 'model=choice(a,b)', on the command line or in "
                "hydra.sweeper.params. To run the same job several times, set hydra.sweeper.n_trials"
            )
    parameters = tuple(_parameter(name, swept[name]) for name in sorted(swept))
    lines = {
        name: override.get_key_element() if name in swept else str(override.input_line)
        for name, override in overrides.items()
    }
    return SweepSpace(Space(parameters), lines)


def _of_params(params: Mapping[str, Any], config_loader: ConfigLoader | None) -> Iterator[Override]:
    """The overrides that `hydra.sweeper.params` stands for, one by one, as one that cannot be read is named."""
    for key, value in params.items():
        try:
            yield from _parse([f"{key}={value if isinstance(value, str) else to_hydra(value)}"], config_loader)
        except _UnreadableError as error:
            how = f"in YAML {key}: {json.dumps(to_hydra(value), ensure_ascii=False)}"
            raise UserError(f"hydra.sweeper.params.{key}: {error}, {how}") from None
        except UserError as error:
            raise UserError(f"hydra.sweeper.params.{key}: {error}") from None


def _parse(lines: Sequence[str], config_loader: ConfigLoader | None) -> list[Override]:
    parser = OverridesParser(create_functions(), config_loader)
    try:
        parsed = parser.parse_overrides(list(lines))
    except OverrideParseException as error:
        raise _unreadable(str(error.override), str(error)) from error
    for override in parsed:
        if override.is_delete() and override.is_sweep_override():
            raise UserError(f"{override.input_line}: what is deleted has no values to choose from; leave the ~ out")
        if override.value_type == ValueType.GLOB_CHOICE_SWEEP:
            listed = ",".join(map(to_hydra, override.sweep_string_iterator())) if config_loader else "..."
            raise UserError(
                f"{override.input_line}: the choices of a study must stay the same when files are added; list them: "
                f"{override.get_key_element()}=choice({listed})"
            )
    return parsed


def _unreadable(line: str, message: str) -> UserError:
    """In place of Hydra's message: without its links, and with the line as it is written if a text is meant."""
    shown = without_password(line)
    reasons = [part for part in message.splitlines() if part and not part.startswith(("See ", "Error parsing"))]
    reason = " ".join(reasons)
    if " while evaluating " in reason:
        return UserError(f"{shown}: {reason.partition(_BEHIND_THE_CALL)[2]}")
    key, _, value = shown.partition("=")
    how = f"quote a text with commas, brackets, blanks or = in it: {key}={to_hydra(value)}"
    return _UnreadableError(f"cannot read {shown!r}: {reason}; {how}")


def _holds_sweep(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_sweep, value.values()))
    return any(map(_holds_sweep, value)) if isinstance(value, list) else isinstance(value, Sweep)


def _parameter(name: str, override: Override) -> Parameter:
    sweep = override.value()
    assert isinstance(sweep, Sweep)
    line = str(override.input_line)
    others = sorted(sweep.tags - {"log"})
    if others:
        raise UserError(f"{line}: the tag {others[0]} means nothing here; the one that does is log")
    log = "log" in sweep.tags
    if isinstance(sweep, ChoiceSweep):
        if log:
            raise UserError(f"{line}: choices have no order, so they have no logarithmic scale; drop tag(log, ...)")
        return Parameter(name, _choices(line, sweep))
    if isinstance(sweep, IntervalSweep):
        return Parameter(name, Plain(_interval(line, sweep, log)))
    assert isinstance(sweep, RangeSweep)
    return Parameter(name, _range(line, sweep, log))


def _choices(line: str, sweep: ChoiceSweep) -> Choices:
    values = [_plain(value) for value in sweep.list]
    for value in values:
        if _holds_sweep(value):
            raise UserError(f"{line}: a sweep inside of a choice is not supported; list the values")
    if any(isinstance(value, float) and math.isnan(value) for value in values):
        raise UserError(f"{line}: nan is equal to nothing, itself included, so it cannot be a choice; leave it out")
    same = taken_for_the_same(values)
    if same is not None:
        first, second = map(to_hydra, same)
        which = "" if first == second else f", as a sampler does not tell {first} from {second}"
        raise UserError(f"{line}: the choice {second} is there twice{which}; leave one out")
    return Choices(tuple(values))


def _plain(value: object) -> object:
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _interval(line: str, sweep: IntervalSweep, log: bool) -> Bounds:
    """Both ends belong to it."""
    low, high = sweep.start, sweep.end
    assert low is not None
    assert high is not None
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise UserError(f"{line}: the interval is empty or endless; write the lower end first")
    _check_log(line, low, log)
    return Bounds(low, high, log, integer=isinstance(low, int) and isinstance(high, int))


def _range(line: str, sweep: RangeSweep, log: bool) -> Plain:
    """Hydra's range does not hold its end; a falling one is the same search as the rising one."""
    assert sweep.start is not None
    assert sweep.stop is not None
    start, stop, step = (Decimal(str(number)) for number in (sweep.start, sweep.stop, sweep.step))
    if step == 0 or not (start.is_finite() and stop.is_finite() and step.is_finite()):
        raise UserError(f"{line}: the step must not be 0, and all numbers be finite")
    count = math.ceil((stop - start) / step)
    if count < 1:
        raise UserError(f"{line}: the range is empty; its end is not part of it, so range(1,4) is 1, 2, 3")
    last = start + (count - 1) * step
    low, high, step = min(start, last), max(start, last), abs(step)
    integer = all(isinstance(number, int) for number in (sweep.start, sweep.stop, sweep.step))
    if log:
        _check_log(line, float(low), log)
        if not integer or step != 1:
            raise UserError(f"{line}: steps on a logarithmic scale are not equal; use tag(log, interval(...))")
        return Plain(Bounds(int(low), int(high), log=True, integer=True))
    if integer:
        return SteppedRange(Bounds(int(low), int(high), step=int(step), integer=True))
    return SteppedRange(Bounds(float(low), float(high), step=float(step)))


def _check_log(line: str, low: float, log: bool) -> None:
    if log and low <= 0:
        raise UserError(f"{line}: a logarithmic scale begins above 0")


def _points(parameter: Parameter) -> list[Any] | None:
    domain = parameter.coordinate.domain
    if not isinstance(domain, Bounds):
        return list(domain.labels)
    if domain.integer:
        return list(range(int(domain.low), int(domain.high) + 1, int(domain.step or 1)))
    if domain.step is None:
        return None
    count = round((domain.high - domain.low) / domain.step) + 1
    return [float(f"{domain.low + index * domain.step:.12g}") for index in range(count)]
