"""Monte Carlo tree search in a simulator of the environment, guided by a policy and a value (AlphaZero)."""

from note_rl.tree_search.lookahead import Evaluate, TreeSearch
from note_rl.tree_search.simulators import (
    CartPoleSimulator,
    MakeSimulator,
    Simulated,
    Simulator,
    StateSimulator,
    simulator_of,
)
from note_rl.tree_search.visit_counts import visit_probabilities, with_root_noise

__all__ = [
    "CartPoleSimulator",
    "Evaluate",
    "MakeSimulator",
    "Simulated",
    "Simulator",
    "StateSimulator",
    "TreeSearch",
    "simulator_of",
    "visit_probabilities",
    "with_root_noise",
]
