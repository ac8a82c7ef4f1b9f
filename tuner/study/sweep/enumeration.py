"""A sweep that runs each of some combinations once, in an order drawn from its seed, and ends none early."""

from collections.abc import Mapping, Sequence
from typing import Any

from optuna.pruners import NopPruner
from optuna.samplers import GridSampler

from tuner.study.definition import StudyDefinition
from tuner.study.space.coordinates import Bounds, Choices, Plain
from tuner.study.space.space import Parameter, Space
from tuner.study.sweep.job_registry import Jobs
from tuner.study.sweep.sweep_study import Direction, Sweep, SweepSampler


def listed_space(points: Mapping[str, Sequence[Any]]) -> Space:
    """The space of the combinations: numbers with a fraction lie on a logarithmic scale, all else are choices."""
    return Space(tuple(_parameter(path, tuple(values)) for path, values in sorted(points.items())))


def _parameter(path: str, values: tuple[Any, ...]) -> Parameter:
    if all(isinstance(value, float) for value in values) and len(values) > 1:
        return Parameter(path, Plain(Bounds(min(values), max(values), log=True)))
    return Parameter(path, Choices(values))


def enumeration(
    definition: StudyDefinition, points: Mapping[str, Sequence[Any]], directions: tuple[Direction, ...], jobs: Jobs
) -> Sweep:
    """The sweep over all combinations of these points; `definition.space` is their `listed_space`."""
    grid: dict[str, list[Any] | None] = {path: list(values) for path, values in points.items()}
    return Sweep(definition, directions, jobs, SweepSampler(GridSampler, grid, len(directions)), NopPruner())
