"""The search of AlphaZero for one player (Silver et al. 2018, https://doi.org/10.1126/science.aar6404).

Values are discounted returns of any size, and are normalised within a tree as in MuZero (Schrittwieser et al. 2020,
https://arxiv.org/abs/1911.08265).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from note_rl.tree_search.search_trees import SearchTrees
from note_rl.tree_search.simulators import Simulator
from note_rl.tree_search.visit_counts import with_root_noise
from note_rl.types import Array, FloatArray

Evaluate = Callable[[Array], tuple[FloatArray, FloatArray]]
"""From observations [B, *obs] to probabilities of the actions [B, A] and values [B]."""


@dataclass(frozen=True)
class TreeSearch:
    """A search from each of B observations; all of them go on together, so that networks evaluate batches.

    Attributes:
        simulator: Where the search takes its steps.
        num_simulations: Ways from the root to a leaf, each of which evaluates one new state.
        discount: Of one step.
        c_puct: Weight of exploration against values.
        noise_alpha: Concentration of the noise at the roots; see `with_root_noise`.
        noise_fraction: Its weight.
    """

    simulator: Simulator
    num_simulations: int
    discount: float
    c_puct: float = 1.25
    noise_alpha: float = 0.3
    noise_fraction: float = 0.25

    def __call__(self, obs: Array, evaluate: Evaluate, rng: np.random.Generator | None = None) -> SearchTrees:
        """Searches.

        Args:
            obs: The observations at the roots. [B, *obs]
            evaluate: The policy and the value that guide the search.
            rng: Draws the noise at the roots; None: without noise.

        Returns:
            The trees, of which `root_visits` [B, A] says how good the actions are.
        """
        prior, value = evaluate(obs)
        if rng is not None and self.noise_fraction > 0.0:
            prior = with_root_noise(prior, self.noise_alpha, self.noise_fraction, rng)
        states = self.simulator.begin(obs)
        trees = SearchTrees(prior, states, self.num_simulations + 1, self.discount, self.c_puct)
        trees.own_value[trees.roots] = value
        for number in range(1, self.num_simulations + 1):
            self._simulate(trees, number, evaluate)
        return trees

    def _simulate(self, trees: SearchTrees, number: int, evaluate: Evaluate) -> None:
        """Takes each search to a leaf; a node where the task has ended is worth 0, however often it is reached."""
        way = trees.descend()
        leaves = trees.leaves(way)
        leaf_value = np.zeros(len(way.last))
        if len(leaves):
            step = self.simulator.step(*trees.states_and_actions(way, leaves))
            prior, value = evaluate(step.obs)
            node = trees.grow(way, leaves, number, step.reward)
            leaf_value[leaves] = np.where(step.terminated, 0.0, value)
            trees.prior[node], trees.own_value[node] = prior, leaf_value[leaves]
            trees.states[node], trees.terminal[node] = step.states, step.terminated
        trees.back_up(way, leaf_value)
