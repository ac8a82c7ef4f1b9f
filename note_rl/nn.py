"""The manuals' `nn`: base classes, `LambdaCallback` and `restore_param` in one place."""

from typing import TYPE_CHECKING, Any

import note_rl
from note_rl.training.callbacks import Callback, LambdaCallback
from note_rl.training.persistence import restore_param

if TYPE_CHECKING:
    from note_rl.rl import RL
    from note_rl.rl_pytorch import RL_pytorch

__all__ = ["RL", "Callback", "LambdaCallback", "RL_pytorch", "restore_param"]


def __getattr__(name: str) -> Any:
    if name in ("RL", "RL_pytorch"):  # whose framework is imported with them
        return getattr(note_rl, name)
    raise AttributeError(
        f"module 'note_rl.nn' has no attribute {name!r}: networks are made of keras.Model and keras.layers, or of "
        "torch.nn.Module"
    )
