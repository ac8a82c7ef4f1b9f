"""Numbers of an update that can change while training goes on, and the minibatch on which its noise is measured."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from note_rl.types import Array, IntArray, Sample

LEARNING_RATE = "learning_rate"
_MOST_PARTS = 8


@dataclass(frozen=True)
class OptimizerNumbers:
    """The numbers that can be changed of one optimizer, or of one of its parameter groups.

    Attributes:
        kind: Name of its class.
        values: By name, as they were set: learning_rate, beta1, beta2, weight_decay.
        loss: Which of the losses it follows; None: all of them.
    """

    kind: str
    values: Mapping[str, float]
    loss: int | None


def numbered(name: str, index: int) -> str:
    """A number of one of several optimizers, as it stands among the hyperparameters of an update."""
    return f"{name}:{index}"


def of_optimizers(hyperparameters: Mapping[str, float], num_optimizers: int) -> dict[int, dict[str, float]]:
    """Returns those that are numbers of optimizers, by optimizer and name.

    Args:
        hyperparameters: Of an update. `learning_rate`, which is scheduled, is that of every optimizer;
            `learning_rate:0`, which is adapted, is that of one, and comes before a scheduled one.
        num_optimizers: How many there are (in PyTorch: parameter groups).
    """
    numbers: dict[int, dict[str, float]] = {}
    if LEARNING_RATE in hyperparameters:
        numbers = {index: {LEARNING_RATE: hyperparameters[LEARNING_RATE]} for index in range(num_optimizers)}
    for key, value in hyperparameters.items():
        name, colon, index = key.partition(":")
        if colon:
            numbers.setdefault(int(index), {})[name] = value
    return numbers


def learning_rates(hyperparameters: Mapping[str, float], optimizers: Sequence[OptimizerNumbers]) -> list[float]:
    """Returns the learning rate that each optimizer has in an update with these hyperparameters."""
    told = of_optimizers(hyperparameters, len(optimizers))
    return [told.get(index, {}).get(LEARNING_RATE, one.values[LEARNING_RATE]) for index, one in enumerate(optimizers)]


def with_learning_rates(hyperparameters: Mapping[str, float], rates: Sequence[float]) -> dict[str, float]:
    """Returns the hyperparameters of an update in which each optimizer has this learning rate."""
    others = {name: value for name, value in hyperparameters.items() if name.partition(":")[0] != LEARNING_RATE}
    if len(set(rates)) == 1:
        return {**others, LEARNING_RATE: rates[0]}
    return {**others, **{numbered(LEARNING_RATE, index): rate for index, rate in enumerate(rates)}}


def of_the_agent(names: Iterable[str]) -> Iterator[str]:
    """Those that are attributes of the agent."""
    return (name for name in names if name != LEARNING_RATE and ":" not in name)


@dataclass(frozen=True)
class Microbatches:
    """A minibatch on which noise is measured.

    Attributes:
        columns: By name, [B, ...] each, part after part.
        parts: Equal ones, at least 2 unless there are too few samples.
        independent: Whether each sample may be a part of its own, where that costs no more.
    """

    columns: dict[str, Any]
    parts: int
    independent: bool

    @property
    def size(self) -> int:
        """B."""
        return len(self.columns["reward"])

    @property
    def finest(self) -> int:
        """The most parts that there may be: the more, the less a measurement scatters."""
        return self.size if self.independent else self.parts


def minibatch_in_parts(sample: Sample, columns: Mapping[str, Array], num_envs: int | None) -> Microbatches:
    """Distinct transitions of an update block, as many as a minibatch holds where there are enough, in equal parts.

    A transition that was drawn twice would be taken for less noise than there is. Neither are steps of one trajectory
    independent of each other: the parts of a rollout are those of different environments, or of different times.

    Args:
        sample: The minibatches of an update block, [K, B, ...].
        columns: Its arrays by name.
        num_envs: Of a rollout; None: transitions come from replay.
    """
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in columns.items()}
    size = sample.reward.shape[1]
    index, slots = np.arange(sample.reward.shape[0] * size), sample.slots
    if slots is not None and slots.ndim == 2:
        index = np.sort(np.unique(slots, return_index=True)[1])  # in the order in which they were drawn
    if num_envs is not None and slots is not None and slots.ndim == 2:
        chosen, parts = _by_origin(slots.ravel()[index], num_envs, size)
    else:
        chosen, parts = _in_equal_parts(len(index), size)
    rows = index[chosen]
    return Microbatches({name: values[rows] for name, values in flat.items()}, parts, independent=num_envs is None)


def _in_equal_parts(number: int, size: int) -> tuple[IntArray, int]:
    """Which of a number of transitions, and the number of parts.

    Where there are fewer than a minibatch holds, they are as many eighths of it as there are: code is compiled for
    each number of them.
    """
    if number < size:
        number = max(number * _MOST_PARTS // size * size // _MOST_PARTS, min(number, 2))
    number = min(number, size)
    parts = min(_MOST_PARTS, number)
    return np.arange(number // parts * parts), parts


def _by_origin(slots: IntArray, num_envs: int, size: int) -> tuple[IntArray, int]:
    """Which transitions, part by part, and the number of parts.

    Args:
        slots: t * E + e of the transitions at hand.
        num_envs: E.
        size: About this many are chosen.
    """
    parts = min(_MOST_PARTS, num_envs if num_envs > 1 else len(slots) // 2)
    if parts < 2:
        return np.arange(min(len(slots), size)), 1
    origin = slots % num_envs % parts if num_envs > 1 else slots * parts // (int(slots.max()) + 1)
    members = [np.flatnonzero(origin == part) for part in range(parts)]
    each = min(size // parts, *map(len, members))
    if each < 1:
        return np.arange(min(len(slots), size)), 1
    return np.concatenate([of_part[:each] for of_part in members]), parts
