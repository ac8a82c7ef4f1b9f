"""Trees of several searches that go on together, as arrays: which edge is followed, and what is learned from a leaf.

Each of B searches has a tree with room for N nodes. A node is a number from 0 to B * N, an edge is node * A + action.
Edges hold the statistics, as in Silver et al. 2018 (https://doi.org/10.1126/science.aar6404).
"""

from dataclasses import dataclass, field

import numpy as np

from note_rl.types import Array, BoolArray, FloatArray, IntArray

C_BASE = 19_652.0
"""How slowly exploration grows with the visits of a node (Silver et al. 2018, pseudocode)."""


@dataclass
class TreePath:
    """The ways of B searches from their roots to a leaf.

    Attributes:
        edges: The edges that were followed, [B] each, from the root on.
        followed: Whether a search followed the edge; one that has reached its leaf follows no more. [B] each
        last: The last edge of each search. [B]
    """

    edges: list[IntArray] = field(default_factory=list)
    followed: list[BoolArray] = field(default_factory=list)
    last: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))


class SearchTrees:
    """Statistics of B trees.

    Args:
        prior: Probabilities of the actions at the roots. [B, A]
        states: The roots' states. [B, ...]
        num_nodes: N, of each tree, its root included.
        discount: Of one step.
        c_puct: Weight of exploration against values.

    Attributes:
        roots: The nodes at which searches begin. [B]
        prior: Probabilities of the actions of each node. [B * N, A]
        own_value: Value of each node, as it was evaluated; 0 until it is set. [B * N]
        visits, value: Of each edge: how often it was followed, and the mean return. [B * N, A]
        states: Of each node. [B * N, ...]
        terminal: Whether the task has ended at a node. [B * N]
    """

    def __init__(self, prior: FloatArray, states: Array, num_nodes: int, discount: float, c_puct: float) -> None:
        num_trees, self.num_actions = prior.shape
        total = num_trees * num_nodes
        self.num_nodes = num_nodes
        self.roots = np.arange(num_trees) * num_nodes
        self._discount, self._c_puct = discount, c_puct
        self.prior = np.zeros((total, self.num_actions))
        self.prior[self.roots] = prior
        self.own_value = np.zeros(total)
        self.visits = np.zeros((total, self.num_actions), np.int64)
        self.value = np.zeros((total, self.num_actions))  # mean over the visits of an edge
        self.states = np.zeros((total, *states.shape[1:]), states.dtype)
        self.states[self.roots] = states
        self.terminal = np.zeros(total, np.bool_)
        self._reward = np.zeros(total * self.num_actions)
        self._child = np.full(total * self.num_actions, -1)
        # By the address of an edge; the arrays above have its node's row.
        self._visits, self._value = self.visits.reshape(-1), self.value.reshape(-1)
        self._lowest = np.full(num_trees, np.inf)  # of the values of all edges of a tree
        self._highest = np.full(num_trees, -np.inf)
        self._offset, self._scale = np.zeros((num_trees, 1)), np.zeros((num_trees, 1))  # which bring them to [0, 1]

    @property
    def root_visits(self) -> IntArray:
        """How often each action of the roots was chosen, [B, A]."""
        return self.visits[self.roots]

    @property
    def root_value(self) -> FloatArray:
        """Mean value of each action of the roots, [B, A]; 0 of an action that was never chosen."""
        return self.value[self.roots]

    def descend(self) -> TreePath:
        """Returns the way of each search to an edge without a node behind it, or to a node where the task has ended."""
        node, active = self.roots, np.ones(len(self.roots), np.bool_)
        way = TreePath(last=self.roots)
        while True:
            edge = node * self.num_actions + self.scores(node).argmax(axis=1)
            way.edges.append(edge)
            way.followed.append(active)
            way.last = np.where(active, edge, way.last)
            child = self._child[edge]
            active = active & (child >= 0) & ~self.terminal[child]
            if True not in active.tolist():  # several times faster than any() on a few booleans
                return way
            node = np.where(active, child, node)

    def scores(self, node: IntArray) -> FloatArray:
        """Returns the score [B, A] of the actions of one node [B] of each tree; the search follows the highest.

        The score is PUCT: q + c * prior * sqrt(n) / (1 + n_a), with c = log((n + C_BASE + 1) / C_BASE) + c_puct. n_a is
        the number of visits of the action, and n that of the node, whose own evaluation counts as one. q is the mean
        value of the action, brought to [0, 1] by the least and the highest value of an edge of the tree (Schrittwieser
        et al. 2020, https://arxiv.org/abs/1911.08265, eq. 5). Without a visit it is that of the node, the mean of its
        evaluation and of all visits: with 0, an action that the policy considers unlikely would never be tried.
        """
        visits, value = self.visits[node], self.value[node]
        of_node = 1.0 + visits.sum(axis=1, keepdims=True)
        weight = (np.log((of_node + C_BASE + 1.0) / C_BASE) + self._c_puct) * np.sqrt(of_node)
        mean = (self.own_value[node][:, None] + (visits * value).sum(axis=1, keepdims=True)) / of_node
        quality = ((np.where(visits > 0, value, mean) - self._offset) * self._scale).clip(0.0, 1.0)
        scores: FloatArray = quality + weight * self.prior[node] / (1.0 + visits)
        return scores

    def leaves(self, way: TreePath) -> IntArray:
        """Returns the searches [L] whose way ends at an edge without a node."""
        return np.flatnonzero(self._child[way.last] < 0)

    def states_and_actions(self, way: TreePath, leaves: IntArray) -> tuple[Array, IntArray]:
        """Returns the states [L, ...] before the last edges of these searches [L], and the actions [L] of the edges."""
        node, action = np.divmod(way.last[leaves], self.num_actions)
        return self.states[node], action

    def grow(self, way: TreePath, leaves: IntArray, number: int, reward: FloatArray) -> IntArray:
        """Puts new nodes behind the last edges of some searches.

        Args:
            way: Of all searches.
            leaves: Some of them. [L]
            number: Of the new node in its tree, from 1 on.
            reward: Of the step along the edge. [L]

        Returns:
            The nodes. [L]
        """
        node: IntArray = self.roots[leaves] + number
        self._child[way.last[leaves]] = node
        self._reward[way.last[leaves]] = reward
        return node

    def back_up(self, way: TreePath, leaf_value: FloatArray) -> None:
        """Adds one visit to each edge of the ways.

        The return of an edge is its reward plus the discounted return of the next edge; behind the last edge this is
        the value of the leaf.

        Args:
            way: Of all searches.
            leaf_value: 0 where the task ended. [B]
        """
        gained = leaf_value.astype(np.float64)
        for edge, followed in zip(way.edges[::-1], way.followed[::-1], strict=True):
            gained = np.where(followed, self._reward[edge] + self._discount * gained, gained)
            visits = self._visits[edge] + followed
            value = self._value[edge]
            value = np.where(followed, value + (gained - value) / np.maximum(visits, 1), value)
            self._visits[edge], self._value[edge] = visits, value
            self._lowest = np.minimum(self._lowest, np.where(followed, value, np.inf))
            self._highest = np.maximum(self._highest, np.where(followed, value, -np.inf))
        spread = self._highest - self._lowest
        self._offset = self._lowest[:, None]
        self._scale = np.where(spread > 0.0, 1.0 / np.where(spread > 0.0, spread, 1.0), 0.0)[:, None]
