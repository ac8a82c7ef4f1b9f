"""AlphaZero for CartPole, `AlphaZeroCartPole(env_name)`."""
# ruff: noqa: N999 (the manuals' name of the module)

from note_rl.agents import keras as agents
from note_rl.examples.manual_arguments import ManualAlphaZero


class AlphaZeroCartPole(ManualAlphaZero, agents.AlphaZero):
    """`note_rl.agents.keras.AlphaZero` with the arguments of `ManualAlphaZero`."""
