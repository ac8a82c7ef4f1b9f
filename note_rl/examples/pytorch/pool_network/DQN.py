"""Deep Q-network in several environments side by side."""
# ruff: noqa: N999 (the manuals' name of the module)

from note_rl.agents import pytorch as agents
from note_rl.examples.manual_arguments import SideBySideDQN


class DQN(SideBySideDQN, agents.DQN):
    """`note_rl.agents.pytorch.DQN` with the arguments of `SideBySideDQN`."""
