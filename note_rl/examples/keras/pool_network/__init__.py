"""Agents in Keras that act in several environments side by side.

`DQN_PR`, as an older manual writes it, is `DQN_pr`: no second file, as some systems take both names for one.
"""

import sys

from note_rl.examples.keras.pool_network import DQN_pr

sys.modules[f"{__name__}.DQN_PR"] = DQN_pr
