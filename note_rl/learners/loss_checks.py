"""Check of an agent's loss before it may train: samples must not influence each other by accident.

A scalar loss hides the most frequent mistake of all: values of shape [B, 1] minus targets of shape [B] are [B, B], the
mean of that is a number like any other, and the agent learns that every state is worth the average.
"""

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from note_rl.errors import AgentContractError
from note_rl.learners.declarations import BATCH_ATTRIBUTES, updates_itself
from note_rl.learners.priorities import MixedSamplesError
from note_rl.learners.python_objects import iterator_named_by
from note_rl.types import BEHAVIOUR, EPISODE_START, STATE_BEFORE, Array, FloatArray

_log = logging.getLogger(__name__)
_NUM_SAMPLES = 8
_TOLERANCE = 1e-5  # of the gradient; right losses stay below 1e-6 in single precision
_ROUNDING = 10.0  # the same in units of what the order of samples changes, where sums are less precise than that
_RANDOM = 1e-2  # more than rounding: each sample has a random number of its own
_EXCHANGED = ("obs", "action", "mask", BEHAVIOUR, STATE_BEFORE, EPISODE_START)  # only: they keep their values
_BROADCAST = (
    "r and d have the shape [B], and Q-values of shape [B, 1] broadcast against them to [B, B]; drop the last axis "
    "first (q[:, 0])"
)
_STEPS_FIRST = (
    "the minibatch is n sequences of L steps, one sequence after the other; stack what each step gives along the "
    "second axis, [n, L, ...], before you flatten it. Or values of shape [B, 1] meet r or d of shape [B]"
)
_AGAIN_AFTER = (100, 1000)  # gradient steps: at first, values hardly differ between states

NORMALISED_APART = (
    "the agent's networks normalise over the batch (batch normalisation), and each replica would do so over its own "
    "rows only: use layer normalisation, or train() in one process"
)

# Columns of a minibatch [b, ...] -> losses [G] and their gradients along all parameters [G, P]
Gradients = Callable[[Mapping[str, Array]], tuple[FloatArray, Sequence[FloatArray]]]


class GivesColumns(Protocol):
    """A part that calls a loss, and may give it rewards and ends as [B, 1].

    Attributes:
        as_columns: Whether it does; else they are [B].
    """

    as_columns: bool


class SamplesApart:
    """Checks an agent's loss: at its first update, and again when it has learned something.

    Args:
        agent: One that has `couples_samples`, or no loss, or whose loss reads an iterator, is never checked.
        losses: What calls its loss.
    """

    def __init__(self, agent: Any, losses: GivesColumns) -> None:
        self._agent = agent
        self._losses = losses
        exempt = agent.couples_samples or updates_itself(type(agent))
        self._due = [] if exempt else [0, *_AGAIN_AFTER]
        self._num_gradient_steps = 0

    @property
    def due(self) -> bool:
        """Whether the next minibatch is to be looked at; not where that uses up an iterator that the loss reads."""
        due = bool(self._due) and self._num_gradient_steps >= self._due[0]
        return due and iterator_named_by(self._agent, ("__call__",)) is None

    def check(self, gradients_of: Gradients, columns: Mapping[str, Array], alone: bool = True) -> None:
        """Refuses a loss in which samples influence each other; see `coupling`.

        One whose only mistake is that it takes r and d for [B, 1], found before the first gradient step, gets them so
        from then on, which is said once. The manuals' chapter on building an agent has such a loss. TD errors [B, B]
        that it hands to prioritized replay show the same mistake.

        Args:
            gradients_of: See `coupling`.
            columns: The arrays of one minibatch, by name; [B, ...] each.
            alone: Whether nobody else takes the same steps, who might find another shape.

        Raises:
            AgentContractError: Naming the usual cause and the way out.
        """
        found = _mixture(gradients_of, columns)
        if found is None:
            return
        late = self._num_gradient_steps or self._losses.as_columns
        if late or not alone or columns["reward"].ndim > 1 or STATE_BEFORE in columns:  # several agents, or sequences
            raise AgentContractError(found)
        meant = False
        self._losses.as_columns = True
        try:
            meant = _agree_on_one(gradients_of, self._losses, columns) and coupling(gradients_of, columns) is None
        except Exception as error:  # of code that was never meant for that shape: the refusal stands
            raise AgentContractError(found) from error
        finally:
            self._losses.as_columns = meant
        if not meant:
            raise AgentContractError(found)
        _log.warning(
            "%s: r and d have the shape [B], and values of shape [B, 1] broadcast against them to [B, B], so that "
            "samples would influence each other. It is given r and d as [B, 1] instead, with which they do not. To get "
            "r and d as [B], drop the last axis of the values: q[:, 0]; where samples are to influence each other, set "
            "couples_samples = True",
            _place_of_loss(type(self._agent)),
        )

    def passed(self) -> None:
        """It was, and found right."""
        self._due = [one for one in self._due if one > self._num_gradient_steps]

    def count(self, num_gradient_steps: int) -> None:
        """Notes a number of steps that were taken."""
        self._num_gradient_steps += num_gradient_steps


def _place_of_loss(kind: Any) -> str:
    code = getattr(inspect.unwrap(kind.__call__), "__code__", None)  # None: it is written in another language
    place = "" if code is None else f" ({Path(code.co_filename).name}, line {code.co_firstlineno})"
    return f"{kind.__name__}.__call__{place}"


def _mixture(gradients_of: Gradients, columns: Mapping[str, Array]) -> str | None:
    """Says how samples influence each other in a loss, or in the TD errors that it hands over; None: they do not."""
    try:
        return coupling(gradients_of, columns)
    except MixedSamplesError as error:
        return str(error)


def _agree_on_one(gradients_of: Gradients, losses: GivesColumns, columns: Mapping[str, Array]) -> bool:
    """Whether a loss is the same for one sample, whose r and d [1] broadcast as [1, 1] do: it means no other thing."""
    first = {name: values[:1] for name, values in columns.items()}
    with np.errstate(all="ignore"):
        as_columns = gradients_of(first)[1]
        losses.as_columns = False
        plain = gradients_of(first)[1]
        losses.as_columns = True
        pairs = [(np.asarray(a, np.float64), b) for a, b in zip(plain, as_columns, strict=True)]
        return all(float(np.linalg.norm(a - b)) <= _TOLERANCE * float(np.linalg.norm(a)) for a, b in pairs)


def coupling(gradients_of: Gradients, columns: Mapping[str, Array]) -> str | None:
    """Sees whether the gradient of up to 8 samples is a sum of what each half of them contributes.

    With other samples in the first half, in the second, in neither and in both, four gradients f(a, b) are had. Where
    samples stand apart, f(a', b') - f(a', b) - f(a, b') + f(a, b) = 0, be the loss a mean or a sum, with or without
    terms that depend on no sample. As the same sample is always at the same place of a batch of the same size, what is
    worked out for it is the same to the bit: only the sum over samples rounds, however large or noisy the loss is.

    The halves exchange their states and actions. Rewards, ends and further numbers move apart besides, because a [B, B]
    mistake does not show among samples that are alike (in CartPole every reward is 1), nor far away from the target
    where only the sign of the error counts.

    Where the minibatch consists of whole sequences, these are what must stand apart: their steps are seen in the state
    that former ones have left.

    Args:
        gradients_of: Changes nothing, random states included. Layers that couple samples on purpose, such as batch
            normalisation, are in eval mode there.
        columns: The arrays of one minibatch, by name; [B, ...] each, and `state_before` [n, S] of n whole sequences.

    Returns:
        Where the sum is not zero, what is to be said about it: the usual cause and the way out; else None.
    """
    num_units = len(columns.get(STATE_BEFORE, columns["reward"]))  # sequences, or samples
    half = min(_NUM_SAMPLES, num_units) // 2
    if not half:
        return None
    first = {name: values[: 2 * half * (len(values) // num_units)] for name, values in columns.items()}
    with np.errstate(all="ignore"):  # a loss that is not finite is the trainer's to report
        scale = 4.0 * max(1.0, *(_largest(values) for values in (gradients_of(first)[0], first["reward"])))
        plain, other = _apart(first, scale)
        gradients = [
            gradients_of({name: _joined(a[name], b[name]) for name in first})[1]
            for a in (plain, other)
            for b in (plain, other)
        ]
        torn = []
        for index, of_one_loss in enumerate(zip(*gradients, strict=True)):
            together, size = _sum_of(of_one_loss)
            if not together <= _TOLERANCE * size:  # nor where one of them is no number
                torn.append(index)
        if not torn:
            return None  # rounding and random numbers cannot be mistaken for it
        again = gradients_of(plain)[1]
        turned = gradients_of({name: _turned(values, half) for name, values in plain.items()})[1]
    cause = _BROADCAST if num_units == len(columns["reward"]) else _STEPS_FIRST
    told = (
        _compare([one[i] for one in gradients], again[i], turned[i], f" {i}" if len(again) > 1 else "", 2 * half)
        for i in torn
    )
    found = next((one for one in told if one is not None), None)
    if found is None:
        return None
    return (
        f"{found}. Usual cause: {cause}. If samples are meant to influence each other (contrastive losses, a "
        "normalisation over the batch), set couples_samples = True on the agent; batch normalisation layers need no "
        "such word"
    )


def check_is_a_mean(gradients_of: Gradients, columns: Mapping[str, Array]) -> None:
    """Sees that the gradient of a minibatch is the mean of those of its halves, as replicas take it to be.

    Args:
        gradients_of: See `check_samples_apart`.
        columns: The arrays of one minibatch, by name; [B, ...] each.

    Raises:
        AgentContractError: It is their sum, so that R replicas would take steps of 1 / R of the length.
    """
    half = len(columns["reward"]) // 2
    if not half:
        return
    parts = (slice(0, 2 * half), slice(0, half), slice(half, 2 * half))
    found = [gradients_of({name: values[rows] for name, values in columns.items()})[1] for rows in parts]
    for whole, first, second in zip(*found, strict=True):
        size, total = np.linalg.norm(whole), np.asarray(first, np.float64) + second
        if np.linalg.norm(whole - total) <= _RANDOM * size < np.linalg.norm(whole - total / 2):
            raise AgentContractError(
                "a loss that __call__ returns is a sum over samples: replicas see a part of each minibatch, and what "
                "they find is averaged; return the mean, or one loss per sample [B]"
            )


def _sum_of(found: Sequence[FloatArray]) -> tuple[float, float]:
    """How large f(a', b') - f(a', b) - f(a, b') + f(a, b) is, and the largest of these gradients."""
    precise = [np.asarray(one, np.float64) for one in found]
    neither, second, first, both = precise
    size = max(float(np.linalg.norm(one)) for one in precise)
    return float(np.linalg.norm((both - first) - (second - neither))), size


def _largest(values: Array) -> float:
    return float(np.nan_to_num(np.abs(values).max(), posinf=1.0))


def _joined(first: Array, second: Array) -> Array:
    """The first half of one, and the second half of the other."""
    half = len(first) // 2
    return np.concatenate([first[:half], second[half:]])


def _turned(values: Array, half: int) -> Array:
    """Each half in the opposite order of its samples, or of its sequences, whose steps stay in order."""
    units = values.reshape(2 * half, len(values) // (2 * half), *values.shape[1:])
    return np.concatenate([units[:half][::-1], units[half:][::-1]]).reshape(values.shape)


def _apart(columns: Mapping[str, Array], scale: float) -> tuple[dict[str, Array], dict[str, Array]]:
    """The same columns, and what takes their place: the other half's, further away."""
    plain, other = {}, {}
    for name, values in columns.items():
        num_samples = len(values)
        side = np.where(np.arange(num_samples) < num_samples // 2, 1.0, -1.0).astype(np.float32)
        sides = side.reshape(num_samples, *[1] * (values.ndim - 1))
        exchanged = np.roll(values, num_samples // 2, axis=0)
        if name in ("terminated", "discount", "ended"):
            going_on = 0.5 * (1 + sides) if name == "discount" else 0.5 * (1 - sides)
            most = values.max() if name == "discount" else 1
            plain[name], other[name] = (
                np.broadcast_to(most * ends, values.shape).astype(values.dtype) for ends in (going_on, 1 - going_on)
            )
            continue
        plain[name], other[name] = values, exchanged
        if name == "weights":
            other[name] = exchanged * (1 + 0.5 * sides)
        elif not name.endswith(_EXCHANGED) and np.issubdtype(values.dtype, np.floating):
            far = scale if name in ("reward", "return_", "value_old") else 0.5
            other[name] = (exchanged + far * sides).astype(values.dtype)
    return plain, other


def _compare(
    found: Sequence[FloatArray], again: FloatArray, turned: FloatArray, which: str, num_samples: int
) -> str | None:
    """Returns the complaint about one loss; None: there is none."""
    together, size = _sum_of(found)
    unlike, rounding = (float(np.linalg.norm(one - np.asarray(found[0], np.float64))) for one in (again, turned))
    sound = np.isfinite([again, turned, *found]).all()
    if not sound or size == 0.0 or unlike > _TOLERANCE * size:
        return None  # among them losses that draw numbers of their own, of which no two calls get the same
    if rounding > _RANDOM * size:
        rounding = 0.0
    if together <= max(_TOLERANCE * size, _ROUNDING * rounding):
        return None
    return (
        f"samples influence each other in the loss{which} that __call__ returns: what some of {num_samples} contribute "
        f"to its gradient depends on the others, by {together / size:.2g} of its size"
    )


@contextmanager
def explaining_what_is_not_offered(agent: Any) -> Iterator[None]:
    """Around a call of the agent: names the setting that brings what its loss reads and the minibatch does not have.

    What the agent declares in `batch_attributes` was looked for before training; this is for what it does not declare.

    Raises:
        AgentContractError: In place of an AttributeError about one of these.
    """
    try:
        yield
    except AttributeError as error:
        attribute = BATCH_ATTRIBUTES.get(error.name or "")
        if error.obj is not agent or attribute is None:
            raise
        raise AgentContractError("__call__ reads self.{}, which {}", error.name, attribute.comes_with) from error
