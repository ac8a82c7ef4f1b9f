"""Parameters that are searched with some choices of others only: `when: {noise.kind: [gaussian]}`."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from tuner.errors import UserError
from tuner.study.space.coordinates import Choices, Coordinate, label_of
from tuner.support.names import did_you_mean


class Conditional(Protocol):
    """Interface of a parameter, as it is needed here."""

    @property
    def path(self) -> str:
        """Its place in the run config."""

    @property
    def coordinate(self) -> Coordinate:
        """How its values are walked through."""

    @property
    def when(self) -> Mapping[str, tuple[object, ...]]:
        """Other parameters by config path, each with the choices that this one goes with."""


P = TypeVar("P", bound=Conditional)


def parse_when(path: str, node: object) -> dict[str, tuple[object, ...]]:
    """The conditions in a leaf of a search space.

    Args:
        path: Config path of the parameter, for messages.
        node: The value of `when`; None: there are none.

    Raises:
        UserError: It is not a mapping from config paths to choices.
    """
    if node is None:
        return {}
    if not isinstance(node, dict) or not node:
        raise UserError(f"space.{path}.when={node} must name a parameter and its choices, {{noise.kind: [gaussian]}}")
    return {str(key): tuple(value) if isinstance(value, list) else (value,) for key, value in node.items()}


def check_conditions(parameters: Sequence[Conditional]) -> None:
    """Refuses conditions on what is not searched as a choice, on choices there are not, and in a circle.

    Raises:
        UserError: Names the parameter and the condition.
    """
    by_path = {parameter.path: parameter for parameter in parameters}
    for parameter in parameters:
        for path, wanted in parameter.when.items():
            where = f"space.{parameter.path}.when names {path}"
            if path not in by_path:
                raise UserError(f"{where}, which is not searched{did_you_mean(path, by_path)}")
            coordinate = by_path[path].coordinate
            if not isinstance(coordinate, Choices):
                raise UserError(f"{where}, which is not searched by choices: write choices for it")
            offered = list(map(label_of, coordinate.values))
            unknown = [value for value in wanted if label_of(value) not in offered]
            if unknown or not wanted:
                raise UserError(f"{where} with {unknown or 'no choice'}, but its choices are {list(coordinate.values)}")
    in_order(parameters)


def in_order(parameters: Sequence[P]) -> tuple[P, ...]:
    """The parameters, each behind those that it depends on, otherwise in the given order.

    Raises:
        UserError: They depend on each other in a circle.
    """
    placed: dict[str, P] = {}
    waiting = list(parameters)
    while waiting:
        ready = [parameter for parameter in waiting if parameter.when.keys() <= placed.keys()]
        if not ready:
            listed = " and ".join(parameter.path for parameter in waiting)
            raise UserError(f"space: {listed} depend on each other by their `when`; leave one of these out")
        placed.update({parameter.path: parameter for parameter in ready})
        waiting = [parameter for parameter in waiting if parameter.path not in placed]
    return tuple(placed.values())


def is_active(parameter: Conditional, values: Mapping[str, object]) -> bool:
    """Whether a parameter is part of a trial in which the others have these values; one that is not there has none."""
    return holds(parameter.when, values)


def holds(when: Mapping[str, Sequence[object]], values: Mapping[str, object]) -> bool:
    """Whether a condition is met where the parameters that are part of a trial have these values, or their labels."""
    return all(path in values and label_of(values[path]) in map(label_of, wanted) for path, wanted in when.items())
