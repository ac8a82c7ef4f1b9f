"""Contract tests: what each part of somebody's own has to do, as classes of tests for pytest.

Inherit from one, say how the part is made, and run pytest:

    from tuner.testing import TrackerContract

    class TestMyTracker(TrackerContract):
        def make(self):
            return MyTracker()

The docstring of each test is the rule that it holds. The parts that come with `tuner` pass the same tests. Needs
pytest, where the tests run: trials of executors under test import `tuner.testing.trial_programs` alone, on whichever
machine, and with it neither pytest nor the contracts.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tuner.testing.agent_contract import AgentContract
    from tuner.testing.executor_contract import ExecutorContract
    from tuner.testing.sampler_contract import SamplerContract
    from tuner.testing.tracker_contract import TrackerContract

__all__ = ["AgentContract", "ExecutorContract", "SamplerContract", "TrackerContract"]

_HOMES: Final = {name: f"tuner.testing.{name.removesuffix('Contract').lower()}_contract" for name in __all__}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tuner.testing' has no attribute {name!r}")
    import pytest

    pytest.register_assert_rewrite(*_HOMES.values())  # before the first of them is imported
    return getattr(import_module(_HOMES[name]), name)
