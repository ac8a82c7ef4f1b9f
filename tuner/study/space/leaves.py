"""A leaf of a search space, `{low: 1e-5, high: 0.1, log: true}` or `{choices: [relu, tanh]}`, read and checked."""

import json
import math
from collections.abc import Iterable

from tuner.config.annotations import written
from tuner.errors import UserError
from tuner.study.space.coordinates import (
    Bounds,
    Choices,
    Coordinate,
    OneMinus,
    Plain,
    PowerOfTwo,
    exponent_of_two,
    taken_for_the_same,
)

_RANGE_KEYS = frozenset({"low", "high", "log", "step", "transform", "of", "at_most", "when", "prior"})
_CHOICE_KEYS = frozenset({"choices", "of", "when", "prior"})
_EXAMPLES = "{low: 1.0e-5, high: 0.01, log: true} or {choices: [relu, tanh]}"


def is_leaf(node: object) -> bool:
    """Whether this mapping describes a parameter rather than holding more of them."""
    if not isinstance(node, dict):
        return False
    return "choices" in node or any(key in node and not isinstance(node[key], dict) for key in ("low", "high"))


def leaves_of(tree: object, prefix: str = "") -> Iterable[tuple[str, dict[str, object]]]:
    """The leaves of a search space with their config paths.

    Raises:
        UserError: Something in it is neither a parameter nor a mapping of them.
    """
    if not isinstance(tree, dict):
        what = "is empty: remove it with ~" + f"space.{prefix}" if tree is None else f"= {tree} is not a range"
        hint = (
            f"{{choices: {json.dumps(tree)}}}"
            if isinstance(tree, list)
            else "{low: ..., high: ...} or {choices: [...]}"
        )
        raise UserError(f"space.{prefix} {what}; a parameter is written as {hint}")
    for key, node in tree.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        if is_leaf(node):
            yield path, node
        else:
            yield from leaves_of(node, path)


def parse_coordinate(path: str, leaf: dict[str, object], current: object) -> Coordinate:
    """The coordinate that a leaf of a search space describes.

    Args:
        path: Config path of the parameter, for messages.
        leaf: Its mapping: `low`, `high` and optionally `log`, `step`, `transform`; or `choices`; and optionally `of`.
        current: The value the composed config has there; a whole number there asks for whole numbers here.

    Raises:
        UserError: Anything that is not such a mapping, an empty range, a log range touching 0.
    """
    allowed = _CHOICE_KEYS if "choices" in leaf else _RANGE_KEYS
    unknown = sorted(set(leaf) - allowed)
    if unknown:
        raise UserError(
            f"space.{path} has {', '.join(unknown)}, but takes only {', '.join(sorted(allowed))}: write {_EXAMPLES}"
        )
    if "choices" in leaf:
        return _parse_choices(path, leaf["choices"])
    low, high = _bound(path, leaf, "low"), _bound(path, leaf, "high")
    if low >= high:
        raise UserError(f"space.{path} is an empty range: low={low:g} must be below high={high:g}")
    transform = leaf.get("transform")
    if transform is None:
        return _parse_range(path, leaf, low, high, current)
    for key in ("step",) if transform == "one_minus" else ("step", "log"):
        if leaf.get(key):
            raise UserError(f"space.{path}: {key} cannot be combined with transform={transform}; leave {key} out")
    if transform == "one_minus":
        return _parse_one_minus(path, low, high)
    if transform == "power_of_two":
        return _parse_power_of_two(path, low, high)
    raise UserError(f"space.{path}.transform={transform} is unknown: use one_minus or power_of_two, or leave it out")


def _bound(path: str, leaf: dict[str, object], key: str) -> float:
    if key not in leaf:
        raise UserError(f"space.{path} has no {key}: write {_EXAMPLES}")
    value = leaf[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UserError(f"space.{path}.{key}={written(value)} must be a finite number: write {_EXAMPLES}")
    return value


def _parse_choices(path: str, values: object) -> Choices:
    if not isinstance(values, list) or not values:
        raise UserError(f"space.{path}.choices={written(values)} must be a list of values, for example [32, 64, 128]")
    for value in values:
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"space.{path}.choices={values}: {value:g} is no value that a run can have; leave it out")
    same = taken_for_the_same(values)
    if same is not None:
        first, second = map(written, same)
        which = f": a sampler does not tell {first} from {second}" if first != second else ""
        raise UserError(f"space.{path}.choices={written(values)} names a value twice{which}; leave one out")
    return Choices(tuple(values))


def _parse_range(path: str, leaf: dict[str, object], low: float, high: float, current: object) -> Plain:
    log, step = leaf.get("log", False), leaf.get("step")
    if not isinstance(log, bool):
        raise UserError(f"space.{path}.log={log} must be true or false")
    if log and low <= 0.0:
        raise UserError(
            f"space.{path} is a log range and must stay above 0, but low={low:g}: raise low or set log=false"
        )
    if step is not None:
        step = _bound(path, leaf, "step")
        if log:
            raise UserError(f"space.{path} cannot have both log and step: leave one out")
        steps = (high - low) / step if step > 0.0 else 0.5
        if not math.isclose(steps, round(steps), abs_tol=1e-9):
            raise UserError(f"space.{path}: high={high:g} must be low={low:g} plus a whole number of steps of {step:g}")
    bounds = [low, high] if step is None else [low, high, step]
    integer = _asks_for_whole_numbers(bounds, current)
    if integer:
        low, high, step = int(low), int(high), None if step is None else int(step)
    return Plain(Bounds(low, high, log=log, step=step, integer=integer))


def _asks_for_whole_numbers(bounds: list[float], current: object) -> bool:
    if isinstance(current, float) or any(bound != int(bound) for bound in bounds):
        return False
    return isinstance(current, int) or all(isinstance(bound, int) for bound in bounds)


def _parse_one_minus(path: str, low: float, high: float) -> OneMinus:
    if high >= 1.0:
        raise UserError(
            f"space.{path} is searched as 1 - value on a log scale and must stay below 1, but high={high:g}: "
            "use high=0.9999, for example"
        )
    return OneMinus(float(low), float(high))


def _parse_power_of_two(path: str, low: float, high: float) -> PowerOfTwo:
    exponents = []
    for key, bound in (("low", low), ("high", high)):
        exponent = exponent_of_two(bound)
        if exponent is None:
            nearest = 2.0 ** round(math.log2(bound)) if bound > 0.0 else 1.0
            raise UserError(f"space.{path}.{key}={bound:g} is not a power of two: use {nearest:g}, for example")
        exponents.append(exponent)
    return PowerOfTwo(*exponents)
