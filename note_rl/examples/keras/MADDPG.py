"""Multi-agent deep deterministic policy gradient under the manuals' name, which is DDPG."""
# ruff: noqa: N999 (the manuals' name of the module)

from note_rl.agents import keras as agents
from note_rl.examples.manual_arguments import ManualMADDPG
from note_rl.optimizers.keras import adam


class DDPG(ManualMADDPG, agents.MADDPG):
    """`note_rl.agents.keras.MADDPG` with the arguments of `ManualMADDPG`."""

    adam = staticmethod(adam)
