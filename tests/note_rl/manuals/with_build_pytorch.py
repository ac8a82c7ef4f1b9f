"""An agent that says how a worker is to make what acts, as the newest Note_rl has it; importable in workers."""

from typing import Any

from note_rl.examples.pytorch.pool_network.DQN import DQN as SideBySide  # noqa: N811


class DQN(SideBySide):
    """`shared_param` and `build_` stand as in its examples."""

    @property
    def shared_param(self) -> Any:
        return self.param

    def build_(self, shared_params: Any) -> None:
        raise AssertionError("workers make the whole agent")
