"""Worker processes that step environments, as train() or a configuration asks for them."""

from dataclasses import dataclass
from typing import Literal, get_args

from note_rl.settings.switch_names import PROCESSES
from note_rl.support.setting_fields import check_fields, documented, setting
from note_rl.support.value_kinds import Count, OneOf, flag

StartMethod = Literal["auto", "forkserver", "spawn"]


@documented
@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """Worker processes that step the environments in place of the training process.

    In Python, train(pool_network=True) asks for them.

    Attributes:
        processes: Worker processes; never more than environments.
    """

    processes: int
    overlapping: bool = setting(
        True,
        flag,
        manual="parallel_store_and_training",
        text="Whether workers collect the next steps while the agent learns from the last ones, with parameters that "
        "are one training phase old; else in turn.",
    )
    random_places: bool = setting(
        False, flag, manual="random", text="Whether it is drawn which environment belongs to which worker."
    )
    start_method: StartMethod = setting(
        "auto",
        OneOf(get_args(StartMethod)),
        manual=None,
        text='"forkserver": one process imports what is needed and forks the workers; "spawn": each starts by itself; '
        '"auto": the former on Linux, the latter elsewhere.',
    )

    def __post_init__(self) -> None:
        """Refuses values out of range."""
        object.__setattr__(self, "processes", Count()(PROCESSES, self.processes))
        check_fields(self)
