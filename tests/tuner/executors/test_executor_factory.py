"""Executors are made of a choice and of arguments."""

from pathlib import Path

import pytest

from tests.tuner.own_executor import NOTES
from tuner.errors import UserError
from tuner.executors.executor_factory import make_executor


def test_an_object_without_a_part_of_an_executor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no limits, reclaim: an executor offers"):
        make_executor({"_target_": "tests.tuner.own_executor.Lacking"})


def test_arguments_in_the_place_of_those_of_the_choice(tmp_path: Path) -> None:
    node = {"_target_": "tests.tuner.own_executor.NotingExecutor", "notes": str(tmp_path / NOTES), "parallel": 2}
    with make_executor(node, parallel=3) as executor:
        assert (executor.parallel, executor.free_slots, executor.limits) == (3, 3, None)
