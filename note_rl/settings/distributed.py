"""Several replicas that take gradient steps together, as a configuration asks for them."""

from dataclasses import dataclass
from typing import Any, Literal

from note_rl.errors import SettingsError
from note_rl.settings.fields import check_fields, documented, setting
from note_rl.support.checking import Described, OneOf


def at_least_two(name: str, value: Any) -> int:
    """Returns a number of replicas (SettingsError: it is none)."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 2:
        raise SettingsError(
            f"{name} must be a whole number of at least 2, got {value!r}: distributed_training(strategy='ddp', "
            "replicas=2) starts the others on this machine, under torchrun they are those it has started; one process "
            "trains with strategy=none, or train()"
        )
    return value


@documented
@dataclass(frozen=True, kw_only=True)
class Distributed:
    """Replicas to which each minibatch is dealt out; see distributed_training() of `RL_pytorch` and `RL`."""

    strategy: Literal["ddp", "mirrored"] = setting(
        "ddp",
        OneOf(("ddp", "mirrored")),
        manual=None,
        text="ddp: processes of agents in PyTorch, over torch.distributed; mirrored: devices of agents in Keras, by "
        "tf.distribute.MirroredStrategy.",
    )
    replicas: int = setting(
        2,
        Described("2 or more", at_least_two),
        manual=None,
        text="Processes or devices in all; the batch is a multiple of it.",
    )

    def __post_init__(self) -> None:
        """Refuses values out of range."""
        check_fields(self)
