"""Refuses a search space whose configurations cannot run, before any of them is tried."""

from collections.abc import Iterator

import numpy as np

from note_rl.errors import NoteRLError
from tuner.config.annotations import written
from tuner.errors import UserError
from tuner.results.number_format import join_words
from tuner.runs.config_checks import check_kinds, checked_run
from tuner.study import StudyDefinition
from tuner.study.space.drawn_points import anywhere
from tuner.study.space.space import Parameter
from tuner.trial.messages import JsonDict

_NUM_DRAWN = 8  # each takes some 10 ms of each start of a study
_TOO_MANY_REFUSED = 4  # trials may fail in a corner of a space; a space of which half fails is a mistake


def check_space(definition: StudyDefinition) -> None:
    """Refuses values in the space that no run can have, and a space of which half cannot run.

    Each end of a range and each choice is looked at alone. Numbers of the buffer and of environments depend on each
    other, so alone only their kind is looked at; then they are drawn together.

    Args:
        definition: The study, of one part.

    Raises:
        UserError: Names the values, and what is wrong with them.
    """
    _check_network(definition)
    for parameter in definition.space.parameters:
        check = check_kinds if _depends(parameter) else checked_run
        for drawn in parameter.ends:
            value = parameter.value(drawn, definition.config)
            together = {path: choices[0] for path, choices in parameter.when.items()}
            try:
                check(definition.run_config({**together, parameter.path: value}, seed=0))
            except (UserError, NoteRLError) as error:
                reached = written(value)
                raise UserError(
                    f"space.{parameter.path} reaches {reached}, and no run can have that: {error}"
                ) from error
    if any(_depends(parameter) for parameter in definition.space.parameters):
        _check_together(definition)


def _check_network(definition: StudyDefinition) -> None:
    """Refuses to search the network of trials that all start from the same weights."""
    init = definition.config.get("init")
    searched = [path for path in definition.space.paths if path.startswith("network.")]
    if init is not None and searched:
        left_out = " ".join(f"'~space.{path}'" for path in searched)
        raise UserError(
            f"init={init}: all trials start from these weights, which are for one network, so {join_words(searched)} "
            f"cannot be searched: add {left_out}"
        )


def _depends(parameter: Parameter) -> bool:
    return parameter.path.startswith("buffer.") or parameter.path == "env.num_envs"


def _check_together(definition: StudyDefinition) -> None:
    refused: list[Exception] = []
    for values in _drawn_together(definition):
        try:
            checked_run(definition.run_config(values, seed=0))
        except (UserError, NoteRLError) as error:
            refused.append(error)
    if len(refused) >= _TOO_MANY_REFUSED:
        raise UserError(
            f"{len(refused)} of {_NUM_DRAWN} configurations drawn from the space cannot run: {refused[0]}. "
            "Narrow the space (space.NAME.choices=..., .low=, .high=), or search one number as a share of another "
            "(of: buffer.num_steps)"
        ) from refused[0]


def _drawn_together(definition: StudyDefinition) -> Iterator[JsonDict]:
    """Values of the parameters that depend on each other and of those that choose which are searched."""
    space, rng = definition.space, np.random.default_rng(0)
    switches = {path for parameter in space.parameters for path in parameter.when}
    kept = {one.path for one in space.parameters if _depends(one) or one.path in switches}
    for _ in range(_NUM_DRAWN):
        drawn = space.draw(lambda name, distribution: anywhere(distribution, rng))
        values = space.values(drawn, definition.config)
        yield {path: value for path, value in values.items() if path in kept}
