"""A whole search: against numbers by hand, and against another one in plain Python."""

import math

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from note_rl.tree_search import StateSimulator, TreeSearch
from tests.note_rl.tree_search.tables import ROOT, TWO_WAYS, random_table


def search(simulator, num_simulations, **options):
    return TreeSearch(simulator=simulator, num_simulations=num_simulations, discount=0.5, **options)


@pytest.mark.parametrize(
    ("num_simulations", "visits", "value"), [(1, 1, 2.0), (2, 2, 2.25), (3, 3, 7.0 / 3.0), (4, 4, 8.5 / 4.0)]
)
def test_simulations_by_hand(num_simulations, visits, value):
    """All go to state 1, worth 2, and on to the end with its reward of 3: 1 + 0.5 * 2, then 1 + 0.5 * 3 twice.

    In the fourth, the other action of state 1 has the value of this state, (2 + 2 * 3) / 3, which is 2/3 between the
    least value of an edge (2) and the highest (3): 0.667 + 2.1654 * 0.5 is more than 1 + 2.1654 * 0.5 / 3. Behind it
    there is a value of 2, and a return of 1 + 0.5 * (0 + 0.5 * 2) = 1.5.
    """
    trees = search(TWO_WAYS, num_simulations)(ROOT, TWO_WAYS.evaluate)
    assert trees.root_visits.tolist() == [[visits, 0]]
    assert trees.root_value[0, 0] == pytest.approx(value)


class PlainNode:
    def __init__(self, table, state):
        self.prior, self.own, self.state, self.children = table.prior[state], table.value[state], state, {}
        prior = self.prior
        self.visits, self.totals = [0] * len(prior), [0.0] * len(prior)


def plain_search(table, state, num_simulations, discount, c_puct):
    """The search of one tree, written out node by node."""
    seen = []

    def score(node, action):
        of_node = 1 + sum(node.visits)
        visits = node.visits[action]
        value = node.totals[action] / visits if visits else (node.own + sum(node.totals)) / of_node
        quality = 0.0
        if seen and max(seen) > min(seen):
            quality = min(max((value - min(seen)) / (max(seen) - min(seen)), 0.0), 1.0)
        weight = math.log((of_node + 19653) / 19652) + c_puct
        return quality + weight * node.prior[action] * math.sqrt(of_node) / (1 + visits)

    def simulate(node):
        action = max(range(len(node.prior)), key=lambda one: score(node, one))
        reward = table.reward[node.state, action]
        if not table.terminated[node.state, action]:
            following = table.next_state[node.state, action]
            if action in node.children:
                reward += discount * simulate(node.children[action])
            else:
                node.children[action] = PlainNode(table, following)
                reward += discount * table.value[following]
        node.visits[action] += 1
        node.totals[action] += reward
        seen.append(node.totals[action] / node.visits[action])
        return reward

    root = PlainNode(table, state)
    for _ in range(num_simulations):
        simulate(root)
    return root.visits


def test_many_searches_at_once_are_those_of_a_plain_one():
    table = random_table()
    trees = TreeSearch(table, num_simulations=60, discount=0.9, c_puct=1.5)(
        np.arange(30, dtype=np.float32)[:, None], table.evaluate
    )
    expected = [plain_search(table, state, 60, 0.9, 1.5) for state in range(30)]
    assert trees.root_visits.tolist() == expected
    assert {60} == {sum(visits) for visits in expected}
    assert min(max(visits) for visits in expected) < 55  # the tables are no foregone conclusions


def test_noise_is_mixed_into_the_priors_of_the_roots_only():
    trees = search(TWO_WAYS, 2, noise_alpha=1.0, noise_fraction=0.5)(ROOT, TWO_WAYS.evaluate, np.random.default_rng(5))
    (drawn,) = np.random.default_rng(5).dirichlet([1.0, 1.0], 1)
    np.testing.assert_allclose(trees.prior[0], 0.5 * np.array([0.75, 0.25]) + 0.5 * drawn)
    assert trees.prior[1].tolist() == [0.5, 0.5]


@pytest.mark.parametrize("rng", [None, np.random.default_rng(0)])
def test_without_noise_priors_are_those_of_the_policy(rng):
    fraction = 0.25 if rng is None else 0.0
    trees = search(TWO_WAYS, 1, noise_fraction=fraction)(ROOT, TWO_WAYS.evaluate, rng)
    assert trees.prior[0].tolist() == [0.75, 0.25]


class Limited(gymnasium.Env):
    """Says at each step that time is up, and counts steps."""

    observation_space = spaces.Box(0.0, 100.0, (1,), np.float32)
    action_space = spaces.Discrete(2)
    state = np.zeros(1)

    def reset(self, *, seed=None, options=None):
        self.state = np.zeros(1)
        return self.state.astype(np.float32), {}

    def step(self, action):
        self.state = self.state + 1
        return self.state.astype(np.float32), 1.0, False, True, {}


def test_a_time_limit_is_no_end_the_value_behind_it_counts():
    def evaluate(obs):
        return np.tile(np.array([1.0, 0.0], np.float32), (len(obs), 1)), 10.0 * obs[:, 0]

    trees = search(StateSimulator(Limited()), 2, c_puct=4.0)(ROOT, evaluate)
    assert trees.states[:, 0].tolist() == [0.0, 1.0, 2.0]
    assert trees.root_value[0, 0] == (1 + 0.5 * 10 + 1 + 0.5 * (1 + 0.5 * 20)) / 2


def test_networks_evaluate_all_searches_together():
    sizes = []

    def evaluate(obs):
        sizes.append(len(obs))
        return TWO_WAYS.evaluate(obs)

    search(TWO_WAYS, 2)(np.zeros((5, 1), np.float32), evaluate)
    assert sizes == [5, 5, 5]
