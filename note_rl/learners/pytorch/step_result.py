"""Results of a minibatch in the PyTorch learner, also as the flat list of tensors that a recording gives."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from note_rl.learners.peers import Peers
from note_rl.learners.pytorch.optimizer_step import Direction
from note_rl.learners.pytorch.tensors import as_array
from note_rl.types import FloatArray

_SOMETHING = torch.empty(0)  # where only there is something matters, not what


class Evaluated(NamedTuple):
    """Results of one minibatch.

    Attributes:
        losses: One per loss of `__call__`; None where its group waits.
        td_error: What was handed to the replay, [B] each, if it was.
        ratio: The same.
        reported: What was given to `report`, of any shape, and norms of gradients, by name.
        directions: Where each optimizer has to go.
    """

    losses: list[Tensor | None]
    td_error: Tensor | None
    ratio: Tensor | None
    reported: dict[str, Tensor]
    directions: list[Direction]


def taken(evaluated: Evaluated) -> Evaluated:
    """Returns what remains when the step is taken: neither directions nor the history that autograd keeps."""
    losses = [None if loss is None else loss.detach() for loss in evaluated.losses]
    return evaluated._replace(losses=losses, directions=[])


def averaged(evaluated: Evaluated, peers: Peers) -> Evaluated:
    """Returns it with losses, reports and directions that are those of all replicas on average, in one exchange.

    What was handed to the replay stays that of the rows at hand.
    """
    reported = {name: values.float().mean() for name, values in evaluated.reported.items()}
    shared = evaluated._replace(td_error=None, ratio=None, reported=reported)
    means = peers.mean([tensor.detach() for tensor in flattened(shared)])
    return unflattened(means, form_of(shared))._replace(td_error=evaluated.td_error, ratio=evaluated.ratio)


def without_history(reported: Mapping[str, Any], device: torch.device) -> dict[str, Tensor]:
    """Returns what was given to `report` as tensors that hold on to nothing; numbers become tensors on a device."""
    return {
        name: value.detach() if isinstance(value, Tensor) else torch.full((), float(value), device=device)
        for name, value in reported.items()
    }


class ReportedRows(Mapping[str, FloatArray]):
    """Values that the steps of an update block reported, by name: the mean of each step [K], nan where there is none.

    Means are worked out when they are asked for: hardly any update block is looked at.

    Args:
        rows: Tensors of any shape, without their history, by name; one row per step.
    """

    def __init__(self, rows: Sequence[Mapping[str, Tensor]]) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for row in self._rows for name in row))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> FloatArray:
        known = [row[name] for row in self._rows if name in row]
        if not known:
            raise KeyError(name)
        if len(known) == len(self._rows) and all(values.shape == known[0].shape for values in known):
            return as_array(torch.stack(known).reshape(len(known), -1).float().mean(1))
        missing = torch.tensor(torch.nan, device=known[0].device)
        return as_array(torch.stack([row[name].float().mean() if name in row else missing for row in self._rows]))


def flattened(evaluated: Evaluated) -> list[Tensor]:
    """Returns all tensors that there are, in a fixed order."""
    gradients = [gradient for _, present in evaluated.directions for gradient in present]
    every = [*evaluated.losses, evaluated.td_error, evaluated.ratio, *evaluated.reported.values(), *gradients]
    return [tensor for tensor in every if tensor is not None]


def unflattened(tensors: Iterable[Tensor], form: Evaluated) -> Evaluated:
    """Returns what was flattened, by the form that it has; see `form_of`."""
    remaining = iter(tensors)
    losses = [None if loss is None else next(remaining) for loss in form.losses]
    td_error = None if form.td_error is None else next(remaining)
    ratio = None if form.ratio is None else next(remaining)
    reported = {name: next(remaining) for name in form.reported}
    directions = [(kept, [next(remaining) for _ in kept]) for kept, _ in form.directions]
    return Evaluated(losses, td_error, ratio, reported, directions)


def form_of(evaluated: Evaluated) -> Evaluated:
    """Returns what is there and what is not, without the tensors, which would hold on to what autograd knows."""
    return Evaluated(
        [None if loss is None else _SOMETHING for loss in evaluated.losses],
        None if evaluated.td_error is None else _SOMETHING,
        None if evaluated.ratio is None else _SOMETHING,
        dict.fromkeys(evaluated.reported, _SOMETHING),
        [(kept, []) for kept, _ in evaluated.directions],
    )
