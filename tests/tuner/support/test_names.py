"""The nearest name, or all names where none is near."""

from tuner.support.names import did_you_mean


def test_names_are_listed_where_none_is_near() -> None:
    assert did_you_mean("x", ["b", "a"]) == "; there is a, b"
    assert did_you_mean("x", []) == ""
