"""AlphaZero for CartPole in several environments side by side."""
# ruff: noqa: N999 (the manuals' name of the module)

from note_rl.agents import keras as agents
from note_rl.examples.manual_arguments import SideBySideAlphaZero


class AlphaZeroCartPole(SideBySideAlphaZero, agents.AlphaZero):
    """`note_rl.agents.keras.AlphaZero` with the arguments of `SideBySideAlphaZero`."""
