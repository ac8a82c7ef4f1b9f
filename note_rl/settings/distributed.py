"""Several replicas that take gradient steps together, as a configuration asks for them."""

from dataclasses import dataclass
from typing import Any, Literal

from note_rl.errors import SettingsError
from note_rl.settings.fields import check_fields, documented, setting
from note_rl.support.checking import Described, OneOf


def _at_least_two(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 2:
        raise SettingsError(
            f"{name} must be a whole number of at least 2, got {value!r}; one process trains with strategy=none"
        )
    return value


@documented
@dataclass(frozen=True, kw_only=True)
class Distributed:
    """Processes among which each minibatch is dealt out; see `note_rl.RL_pytorch.distributed_training`."""

    strategy: Literal["ddp"] = setting(
        "ddp",
        OneOf(("ddp",)),
        manual=None,
        text="How gradients are exchanged: ddp, over torch.distributed.",
    )
    replicas: int = setting(
        2,
        Described("2 or more", _at_least_two),
        manual=None,
        text="Processes in all; the batch is a multiple of it.",
    )

    def __post_init__(self) -> None:
        """Refuses values out of range."""
        check_fields(self)
