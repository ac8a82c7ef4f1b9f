"""Worker processes that step environments, as train() or a configuration asks for them."""

from dataclasses import dataclass
from typing import Literal, get_args

from note_rl.checking import check_fields
from note_rl.errors import SettingsError

StartMethod = Literal["auto", "forkserver", "spawn"]


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """Who steps the environments in place of the training process.

    Attributes:
        processes: Worker processes; never more than environments.
        overlapping: Whether they collect the next steps while the agent learns from the last ones, with parameters
            that are one training phase old; else in turn.
        random_places: Whether it is drawn which environment belongs to which worker.
        start_method: "forkserver": one process imports what is needed and forks the workers; "spawn": each starts by
            itself; "auto": the former on Linux, the latter elsewhere.
    """

    processes: int
    overlapping: bool = True
    random_places: bool = False
    start_method: StartMethod = "auto"

    def __post_init__(self) -> None:
        """Refuses values out of range."""
        check_fields(self)
        if self.start_method not in get_args(StartMethod):
            raise SettingsError(f"start_method must be auto, forkserver or spawn, got {self.start_method!r}")
