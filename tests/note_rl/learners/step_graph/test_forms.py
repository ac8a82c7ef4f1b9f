"""The form of a value: equal as long as a loss that reads it would be recorded in the same way."""

import functools
import types
from collections import deque
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from note_rl.learners.pytorch.step_graph.forms import can_change_within, form_of, identities_of


@dataclass
class Pair:
    left: float
    right: float = 0.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        ([1.0, [2.0]], [1.0, [3.0]]),
        ([1.0], (1.0,)),
        ({"a": 1}, {"b": 1}),
        (np.zeros(2), np.zeros(2, np.float32)),
        (np.zeros(2), np.zeros((2, 1))),
        (Pair(1.0), Pair(1.0, 2.0)),
        (functools.partial(max, 1), functools.partial(max, 2)),
        (torch.zeros(1), torch.zeros(1)),
        (np.float32, np.float64),
    ],
)
def test_other_values_have_other_forms(one, other):
    assert form_of(one) == form_of(one)
    assert form_of(one) != form_of(other)


@pytest.mark.parametrize("value", [np.zeros(2_000), np.array([None]), deque([1]), types.SimpleNamespace(), iter([1])])
def test_what_could_change_unseen_has_none(value):
    with pytest.raises(TypeError, match=f"{type(value).__name__}, which could change unseen"):
        form_of(value)


def test_the_form_of_a_list_is_asked_for_where_its_items_can_change_within():
    assert identities_of([1, "a"]) == [1, "a"]
    assert identities_of([1, [2]]) is None
    assert [can_change_within(value) for value in (1.0, "a", Pair)] == [False] * 3
    assert [can_change_within(value) for value in ([1], {}, Pair(1.0))] == [True] * 3
