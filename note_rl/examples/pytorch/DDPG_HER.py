"""Deep deterministic policy gradient for tasks with a goal under the manuals' name, which is DDPG."""
# ruff: noqa: N999 (the manuals' name of the module)

from note_rl.agents import pytorch as agents
from note_rl.examples.manual_arguments import ManualDDPG
from note_rl.optimizers.pytorch import adam


class DDPG(ManualDDPG, agents.DDPG):
    """`note_rl.agents.pytorch.DDPG` with the arguments of `ManualDDPG`."""

    adam = staticmethod(adam)
