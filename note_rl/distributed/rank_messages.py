"""Messages between the ranks of a group about gradient steps."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Protocol

import numpy as np

from note_rl.distributed.channel import DIVERGED, FAILED, Line
from note_rl.distributed.manual_changes import checksum_of
from note_rl.errors import DivergedError, PeerError
from note_rl.learners.base import Learner
from note_rl.learners.peers import Peers
from note_rl.types import EXTRAS, Array, FloatArray, Sample, Update, nested, under

_LAST_WORDS_S = 1.0  # until a lost rank should be known as such


class Ranks(Peers, Protocol):
    """Peers in processes of their own, each with its lines; see `note_rl.distributed.torch_group.Group`."""

    lines: list[Line]

    def reseed(self, seed: int) -> None:
        """Seeds the random numbers that losses draw."""


def checksum(learner: Learner) -> int:
    """Returns a number that is the same for the same parameters, to the bit."""
    return checksum_of({name: values for name, values in learner.get_state().items() if name.startswith("agent/")})


def in_short(error: BaseException) -> str:
    """Returns an error in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def last_words(error: BaseException) -> dict[str, str]:
    """Returns what a rank says to the others of an error that ends it."""
    return {DIVERGED: str(error)} if isinstance(error, DivergedError) else {FAILED: in_short(error)}


@contextmanager
def naming_the_lost(group: Ranks) -> Iterator[None]:
    """Around gradient steps: what fails because another rank is lost is a PeerError that names it."""
    try:
        yield
    except PeerError:
        raise
    except Exception:
        for line in group.lines:
            if line.is_lost(_LAST_WORDS_S):
                line.check()
        raise


def arrays_of(sample: Sample) -> dict[str, Array]:
    """Returns the arrays of a sample by name, those that are there."""
    columns = {one.name: getattr(sample, one.name) for one in fields(sample) if one.name != EXTRAS}
    present = {name: values for name, values in columns.items() if values is not None}
    return {**present, **nested(EXTRAS, sample.extras)}


def sample_of(arrays: Mapping[str, Array]) -> Sample:
    """Returns the sample that `arrays_of` has taken apart."""
    columns = {name: values for name, values in arrays.items() if not name.startswith(f"{EXTRAS}/")}
    return Sample(**columns, extras=under(EXTRAS, arrays))


def hands_over(update: Update) -> bool:
    """Whether an update says something of each row to the replay."""
    return update.td_error is not None or update.ratio is not None


def rows(update: Update) -> dict[str, Array]:
    """Returns what an update says of each row, [K, B] by name."""
    found = {"td_error": update.td_error, "ratio": update.ratio}
    return {name: values for name, values in found.items() if values is not None}


def together(update: Update, others: Sequence[Mapping[str, Array]]) -> Update:
    """Returns the update with what the rows of all ranks gave, [K, B]."""

    def whole(name: str, mine: FloatArray | None) -> FloatArray | None:
        return None if mine is None else np.concatenate([mine, *(one[name] for one in others)], axis=1)

    td_error, ratio = whole("td_error", update.td_error), whole("ratio", update.ratio)
    return Update(update.loss, td_error, ratio, update.reported)
