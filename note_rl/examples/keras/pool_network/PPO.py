"""Proximal policy optimization in several environments side by side."""
# ruff: noqa: N999 (the manuals' name of the module)

from note_rl.agents import keras as agents
from note_rl.examples.manual_arguments import SideBySidePPO


class PPO(SideBySidePPO, agents.PPO):
    """`note_rl.agents.keras.PPO` with the arguments of `SideBySidePPO`."""
