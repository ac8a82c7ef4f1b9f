"""Checks of values from a storage before anything is built with them: somebody else may have written it."""

from collections.abc import Mapping
from pathlib import Path

from tuner.errors import UserError
from tuner.study.space.coordinates import Bounds, as_number
from tuner.study.space.space import Space
from tuner.support.names import did_you_mean
from tuner.support.plain_text import MAX_NAME, one_line


def check_values(space: Space, values: Mapping[str, object]) -> None:
    """Refuses values that no run of this search can have.

    Args:
        space: The search space.
        values: By config path. How far a number may go is left to what is built with it.

    Raises:
        UserError: A path that is not searched, no number where one is, a choice that was not offered.
    """
    parameters = {parameter.path: parameter for parameter in space.parameters}
    for path, value in values.items():
        try:
            if path not in parameters:
                raise ValueError("it is not searched")
            parameter = parameters[path]
            if parameter.rests_on or isinstance(
                parameter.coordinate.domain, Bounds
            ):  # a share was drawn, a number came of it
                as_number(value)
            else:
                parameter.coordinate.to_drawn(value)
        except ValueError as error:
            raise UserError(
                f"the storage holds a run with {path}={value}, which this search cannot have drawn ({error}): "
                "somebody has edited it. Begin another study with another study.name or storage.url"
            ) from error


def why_not_drawn(space: Space, drawn: Mapping[str, object]) -> str:
    """The error in the parameters of a trial that somebody has enqueued; empty where there is none.

    Optuna itself leaves out names that it does not know, and takes values out of range with a warning.

    Args:
        space: The search space.
        drawn: By Optuna's names; those that are not there are sampled.
    """
    parameters = {parameter.name: parameter for parameter in space.parameters}
    names = {parameter.path: parameter.name for parameter in space.parameters}
    for name, value in drawn.items():
        given = f"{one_line(name, MAX_NAME)}={one_line(repr(value), MAX_NAME)}"
        if name in names and name not in parameters:
            return f"{given}, which is not searched by that name: it is {names[name]}"
        if name not in parameters:
            return f"{given}, which is not searched{did_you_mean(name, parameters)}"
        try:
            parameters[name].check_drawn(value)
        except (ValueError, OverflowError) as error:
            return f"{given}, which is out of its range: {one_line(str(error), MAX_NAME)}"
    return ""


def sound_schedule(schedule: object) -> dict[str, list[list[float]]]:
    """A schedule as a storage holds it.

    Raises:
        UserError: It is none: pairs of numbers by name.
    """
    try:
        if not isinstance(schedule, Mapping):
            raise ValueError("it maps no names to pairs")
        return {
            str(name): [[as_number(at), as_number(value)] for at, value in steps] for name, steps in schedule.items()
        }
    except (TypeError, ValueError) as error:
        raise UserError(
            f"the storage holds a run whose schedule is none ({error}): somebody has edited it. Begin another study "
            "with another study.name or storage.url"
        ) from error


def inside(subdir: str) -> str:
    """A folder in that of a sweep, as a storage names it.

    Raises:
        UserError: It leads out of there.
    """
    if Path(subdir).is_absolute() or ".." in Path(subdir).parts:
        raise UserError(
            f"the storage holds a job whose folder {subdir} is not in that of its sweep: somebody has edited it. "
            "Begin another study with another storage.url"
        )
    return subdir
