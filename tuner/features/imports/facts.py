"""Facts of a study that is a copy of another program's."""

from dataclasses import asdict, dataclass
from typing import Final

from tuner.results.records import Fact
from tuner.trial.messages import JsonDict


@dataclass(frozen=True)
class Source:
    """Where a copy is from.

    Attributes:
        storage: The address of the storage, as it may be shown.
        name: Of the study there.
    """

    storage: str
    name: str

    def as_json(self) -> JsonDict:
        """As the storage keeps it."""
        return asdict(self)


IMPORTED: Final = Fact[Source | None]("imported", None, Source | None)
"""Of a copy, what it is one of."""
