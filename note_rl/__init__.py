"""Training core for reinforcement-learning agents written in Keras or in PyTorch.

    from note_rl import RL_pytorch            # or RL, for Keras on TensorFlow
    from note_rl.policy import EpsGreedyQPolicy

Importing this package imports neither framework; the first use of `RL` or `RL_pytorch` imports its own.
"""

from typing import TYPE_CHECKING, Any

from note_rl.support.formats import VERSION
from note_rl.training.callbacks import LambdaCallback

if TYPE_CHECKING:
    from note_rl.rl import RL
    from note_rl.rl_pytorch import RL_pytorch

__all__ = ["RL", "LambdaCallback", "RL_pytorch", "__version__"]
__version__ = VERSION


def __getattr__(name: str) -> Any:
    if name == "RL":
        from note_rl.rl import RL

        return RL
    if name == "RL_pytorch":
        from note_rl.rl_pytorch import RL_pytorch

        return RL_pytorch
    raise AttributeError(f"module 'note_rl' has no attribute {name!r}")
