"""Proximal policy optimization with the manuals' order of arguments."""
# ruff: noqa: N999 (the manuals' name of the module)

from note_rl.agents import keras as agents
from note_rl.examples.manual_arguments import ManualPPO


class PPO(ManualPPO, agents.PPO):
    """`note_rl.agents.keras.PPO` with the arguments of `ManualPPO`."""
