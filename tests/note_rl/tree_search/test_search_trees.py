"""PUCT and backing up, by numbers worked out by hand."""

import numpy as np
import pytest

from note_rl.tree_search.search_trees import SearchTrees


def trees(prior=(0.75, 0.25), num_nodes=4, discount=0.5, c_puct=1.25):
    return SearchTrees(np.array([prior]), np.zeros((1, 1)), num_nodes, discount, c_puct)


def grown(made, number, reward, prior=(0.5, 0.5), *, terminal=False):
    """Takes the way that the search prefers, and puts a node behind it."""
    way = made.descend()
    leaves = made.leaves(way)
    assert leaves.tolist() == [0]
    node = made.grow(way, leaves, number, np.array([reward]))
    made.prior[node], made.terminal[node] = prior, terminal
    return way


def test_without_visits_the_prior_decides():
    """One evaluation of the node: c = log(19654 / 19652) + 1.25 = 1.250102, and so c * prior / 1."""
    assert trees().scores(np.array([0])).round(5).tolist() == [[0.93758, 0.31253]]
    assert trees((0.25, 0.75)).descend().last.tolist() == [1]


def test_exploration_falls_with_the_visits_of_an_action_and_grows_with_those_of_the_node():
    """n = 1 + 3 + 1 = 5: c * sqrt(5) = (log(19658 / 19652) + 1.25) * 2.236068 = 2.795768."""
    made = trees((0.5, 0.5))
    made.visits[0] = (3, 1)
    assert made.scores(np.array([0])).round(5).tolist() == [[0.34947, 0.69894]]  # a half of it / 4 and / 2
    wider = trees((0.5, 0.5), c_puct=2.5)
    wider.visits[0] = (3, 1)
    assert wider.scores(np.array([0]))[0, 1] == pytest.approx(0.69894 * 2.500305 / 1.250305, abs=1e-5)


def test_values_are_discounted_on_the_way_up_and_brought_to_the_range_of_the_tree():
    """A reward of 1 and a value of 2, then a reward of 3 and the end, with a discount of a half.

    The first return is 1 + 0.5 * 2 = 2, the second 1 + 0.5 * 3 = 2.5, with a mean of 2.25. The edges of the tree have
    had the values 2, 3 and 2.25, so the action at the root has q = (2.25 - 2) / (3 - 2) = 0.25, and its score is
    0.25 + 2.165416 * 0.75 / 3, with (log(19656 / 19652) + 1.25) * sqrt(3). The other has no visit, and the value of the
    node: (3 + 2 * 2.25) / 3 = 2.5 with an evaluation of 3. Its score is 0.5 + 2.165416 * 0.25.
    """
    made = trees()
    made.own_value[0] = 3.0
    made.back_up(grown(made, 1, 1.0), np.array([2.0]))
    assert made.root_visits.tolist() == [[1, 0]]
    assert made.root_value.tolist() == [[2.0, 0.0]]
    way = grown(made, 2, 3.0, terminal=True)
    assert [edge.tolist() for edge in way.edges] == [[0], [2]]  # from node 0 to node 1, and on by its first action
    made.back_up(way, np.array([0.0]))
    assert made.root_visits.tolist() == [[2, 0]]
    assert made.root_value.tolist() == [[2.25, 0.0]]
    assert made.value[1].tolist() == [3.0, 0.0]
    assert made.scores(np.array([0])).round(5).tolist() == [[0.79135, 1.04135]]
    made.own_value[0] = -9.0  # below the least value of an edge, which counts as that
    assert made.scores(np.array([0])).round(5).tolist() == [[0.79135, 0.54135]]


def test_an_end_that_was_met_before_is_no_leaf_and_is_worth_nothing():
    made = trees()
    made.back_up(grown(made, 1, 1.0), np.array([2.0]))
    made.back_up(grown(made, 2, 3.0, terminal=True), np.array([0.0]))
    way = made.descend()
    assert way.last.tolist() == [2]
    assert made.leaves(way).tolist() == []
    made.back_up(way, np.array([0.0]))
    assert made.root_value[0, 0] == pytest.approx((2.0 + 2.5 + 2.5) / 3)
    assert made.visits[1].tolist() == [2, 0]


def test_searches_end_at_different_depths_without_touching_each_other():
    """The first search goes two steps and the second one: an edge that was not followed keeps its statistics."""
    made = SearchTrees(np.array([[1.0, 0.0], [0.5, 0.5]]), np.zeros((2, 1)), 3, 0.5, 1.25)
    way = made.descend()
    node = made.grow(way, np.array([0]), 1, np.array([1.0]))  # the second search keeps its edge without a node
    made.prior[node] = (0.0, 1.0)
    made.back_up(way, np.array([2.0, 7.0]))
    assert made.root_value.tolist() == [[2.0, 0.0], [3.5, 0.0]]
    way = made.descend()
    assert [edge.tolist() for edge in way.followed] == [[True, True], [True, False]]
    assert way.last.tolist() == [3, 7]  # action 1 of node 1, and action 1 of the second root, node 3
    made.back_up(way, np.array([4.0, -1.0]))
    assert made.root_value.tolist() == [[2.0, 0.0], [3.5, -0.5]]
    assert made.visits.sum(axis=1).tolist() == [2, 1, 0, 2, 0, 0]
