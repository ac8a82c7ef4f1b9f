"""Executors of this machine keep the contract that `tuner.testing` offers, and one that breaks a rule is found."""

import pytest

from tests.tuner.own_executor import LosingExecutor
from tuner.executors.base import Executor
from tuner.executors.inline import InlineExecutor
from tuner.executors.local import LocalExecutor
from tuner.testing import ExecutorContract
from tuner.trial import Limits


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> None:
    """The executor of a class of tests is there until the last one of them."""


class TestLocal(ExecutorContract):
    def make(self, parallel: int, limits: Limits) -> Executor:
        return LocalExecutor(parallel, limits=limits)


class TestInline(ExecutorContract):
    isolates = False

    def make(self, parallel: int, limits: Limits) -> Executor:
        return InlineExecutor(parallel)


def test_an_executor_that_breaks_a_rule_is_found(tmp_path):
    executor = LosingExecutor(1)
    with pytest.raises(AssertionError):
        ExecutorContract().test_a_verdict_is_obeyed(executor, tmp_path, "prune")
