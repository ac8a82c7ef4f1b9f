"""Differences between the default configuration of a study and its winner: changes, each alone or some together."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tuner.config.paths import get_path
from tuner.errors import UserError
from tuner.features.ablation.facts import Change
from tuner.study.definition import DEFAULT_LABEL, StudyDefinition
from tuner.study.space.coordinates import Bounds, label_of
from tuner.study.space.space import Parameter, Space
from tuner.study.summary import Winner
from tuner.trial.messages import JsonDict

HARDLY: Final = 0.01
"""A parameter that has moved by less than this share of its range has not moved."""

Changed = frozenset[int]
"""Which blocks have the winner's values."""


@dataclass(frozen=True)
class Block:
    """Parameters that change together, as one has no meaning without the other.

    Attributes:
        values: The winner's, by config path.
        changes: Its differences from the default configuration.
    """

    values: JsonDict
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Between:
    """All configurations between the default one and the winner.

    Attributes:
        label: Of the winner.
        blocks: The possible changes, in the order of the space.
        shared: Searched values that the winner and the default configuration have in common.
        skipped: Changes that are none: see `HARDLY`.
    """

    label: str
    blocks: tuple[Block, ...]
    shared: JsonDict
    skipped: tuple[Change, ...]

    @property
    def all(self) -> Changed:
        """Every block changed."""
        return frozenset(range(len(self.blocks)))

    def values(self, changed: Changed) -> JsonDict:
        """The searched values with these blocks changed; the default configuration has none."""
        return {**self.shared, **self._of(changed)} if changed else {}

    def name(self, changed: Changed) -> str:
        """Label of the configuration; no other one of the study has it."""
        if not changed:
            return DEFAULT_LABEL
        if changed == self.all and not self.skipped:
            return self.label
        listed = [change.path for index in sorted(changed) for change in self.blocks[index].changes]
        return f"{', '.join(listed)} of {self.label}"

    def _of(self, changed: Changed) -> JsonDict:
        return {path: value for index in sorted(changed) for path, value in self.blocks[index].values.items()}


def between(definition: StudyDefinition, winner: Winner) -> Between:
    """Differences between the default configuration and the winner.

    Raises:
        UserError: Nothing does.
    """
    space, default, found = definition.space, definition.config, winner.config
    groups = _together(space, winner.values, default)
    shared: JsonDict = {}
    skipped: list[Change] = []
    blocks = []
    for group in groups:
        values = {one.path: winner.values[one.path] for one in group}
        changes = tuple(_change(one.path, default, values) for one in group if _differs(one.path, default, values))
        if not changes:
            shared |= values
        elif len(group) == 1 and _moved(group[0], default, found) < HARDLY:
            skipped += changes
        else:
            blocks.append(Block(values, changes))
    if not blocks:
        moved = f", but for {', '.join(one.path for one in skipped)}, which hardly moved" if skipped else ""
        raise UserError(
            f"the winner of study {definition.name}, {winner.label}, is the default configuration{moved}: there is "
            "nothing between them to look at"
        )
    return Between(winner.label, tuple(blocks), shared, tuple(skipped))


def _together(space: Space, values: Mapping[str, object], default: JsonDict) -> list[list[Parameter]]:
    """The parameters of the winner: each with those that it is searched for the sake of, where these have changed.

    A share of something that has changed goes with it, too: alone, either may be impossible (a minibatch larger than
    what is collected), and the number of a share that stayed the same is another one.
    """
    active = [parameter for parameter in space.parameters if parameter.path in values]
    root = {parameter.path: parameter.path for parameter in active}

    def root_of(path: str) -> str:
        return path if root[path] == path else root_of(root[path])

    for parameter in active:
        for path in (*parameter.when, *parameter.rests_on):
            if path in root and _differs(path, default, values):
                root[root_of(parameter.path)] = root_of(path)
    groups: dict[str, list[Parameter]] = {}
    for parameter in active:
        groups.setdefault(root_of(parameter.path), []).append(parameter)
    return list(groups.values())


def _change(path: str, default: JsonDict, values: Mapping[str, object]) -> Change:
    return Change(path, label_of(get_path(default, path)), label_of(values[path]))


def _differs(path: str, default: JsonDict, values: Mapping[str, object]) -> bool:
    before, after = get_path(default, path), values[path]
    numbers = [one for one in (before, after) if isinstance(one, int | float) and not isinstance(one, bool)]
    if len(numbers) == 2:
        return not math.isclose(numbers[0], numbers[1], rel_tol=1e-9)
    return label_of(before) != label_of(after)


def _moved(parameter: Parameter, default: JsonDict, found: JsonDict) -> float:
    """The share of its range that a parameter has moved by; 1 for a choice, and where the default lies outside."""
    domain = parameter.coordinate.domain
    if not isinstance(domain, Bounds):
        return 1.0
    try:
        drawn = [float(str(parameter.drawn(config))) for config in (default, found)]
    except ValueError:
        return 1.0
    before, after, low, high = (math.log(one) if domain.log else one for one in (*drawn, domain.low, domain.high))
    return abs(after - before) / (high - low) if high > low else 1.0
