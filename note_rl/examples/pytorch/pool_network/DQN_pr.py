"""Deep Q-network for prioritized replay, which set() need not ask for."""
# ruff: noqa: N999 (the manuals' name of the module)

from types import MappingProxyType

from note_rl.examples.pytorch.pool_network.DQN import DQN as SideBySide  # noqa: N811


class DQN(SideBySide):
    """The agent of `pool_network.DQN`, whose replay is prioritized unless set(PR=False) says otherwise."""

    set_defaults = MappingProxyType({"PR": True})
