"""JSON as the values that it claims to be, or a ValueError that names the place."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, NotRequired, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.support.decoding import decode


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Leaf:
    at: tuple[float, int]
    name: str | None = None


@dataclass(frozen=True)
class Tree:
    leaves: tuple[Leaf, ...] = ()
    by_name: Mapping[str, Leaf] = field(default_factory=dict)
    value: bool | int | float | str | None = None
    colour: Colour = Colour.RED
    inner: tuple["Tree", ...] = ()
    any_more: dict[str, Any] = field(default_factory=dict)


class Open(TypedDict):
    seconds: float
    note: NotRequired[str]


LEAVES = st.builds(Leaf, st.tuples(st.floats(allow_nan=False), st.integers()), st.none() | st.text())
VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
TREES = st.recursive(
    st.builds(Tree, st.lists(LEAVES).map(tuple), st.dictionaries(st.text(), LEAVES), VALUES),
    lambda inner: st.builds(Tree, inner=st.lists(inner, max_size=2).map(tuple)),
    max_leaves=3,
)


@given(TREES)
def test_what_was_written_is_read_again(tree: Tree) -> None:
    again = decode(Tree, json.loads(json.dumps(asdict(tree))))
    assert again == tree
    assert type(again.value) is type(tree.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], " must be a group of named values, not a list"),
        ({"leaves": {}}, "leaves must be a list, not a group of named values"),
        ({"leaves": [{"at": [1, 2]}, {"at": [1, 2.5]}]}, r"leaves\[1\].at\[1\] must be a whole number, not a number"),
        ({"leaves": [{"at": [1]}]}, r"leaves\[0\].at must have 2 values, not 1"),
        ({"leaves": [{}]}, r"leaves\[0\]: .*missing .* 'at'"),
        ({"by_name": {"a": {"at": [True, 1]}}}, r"by_name.a.at\[0\] must be a number, not true or false"),
        ({"by_name": {"a": {"at": [10**400, 1]}}}, r"by_name.a.at\[0\] must be a number, not a whole number"),
        ({"inner": [{"inner": [{"value": []}]}]}, r"inner\[0\].inner\[0\].value must be a text, not a list"),
        ({"colour": "blue"}, "colour must be one of red"),
        ({"other": 1}, "other is unknown"),
    ],
)
def test_what_is_of_another_type_is_named_by_its_place(content: object, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        decode(Tree, content)


def test_a_whole_number_is_a_float_where_one_is_asked_for() -> None:
    (x, y) = decode(Leaf, {"at": [1, 2]}).at
    assert (type(x), type(y)) == (float, int)


def test_a_typed_dictionary_may_have_further_keys_and_needs_all_of_its_own() -> None:
    assert decode(Open, {"seconds": 1, "more": [2]}) == {"seconds": 1.0, "more": [2]}
    with pytest.raises(ValueError, match=r"^it\.seconds is missing$"):
        decode(Open, {"note": "a"}, "it")
    with pytest.raises(ValueError, match=r"^it\.note must be a text, not a whole number$"):
        decode(Open, {"seconds": 1, "note": 2}, "it")


def test_nan_is_a_number_where_it_is_one_only() -> None:
    assert math.isnan(decode(Open, {"seconds": math.nan})["seconds"])
    with pytest.raises(ValueError, match=r"^seconds must be a number$"):
        decode(Open, {"seconds": math.nan}, nan=False)
