"""Contract tests: what each part of somebody's own has to do, as classes of tests for pytest.

Inherit from one, say how the part is made, and run pytest:

    from tuner.testing import TrackerContract

    class TestMyTracker(TrackerContract):
        def make(self):
            return MyTracker()

The docstring of each test is the rule that it holds. The parts that come with `tuner` pass the same tests. Needs
pytest.
"""

import pytest

pytest.register_assert_rewrite(
    *(f"tuner.testing.{kind}_contract" for kind in ("agent", "executor", "sampler", "tracker"))
)

from tuner.testing.agent_contract import AgentContract  # noqa: E402 - its assertions are rewritten by then
from tuner.testing.executor_contract import ExecutorContract  # noqa: E402
from tuner.testing.sampler_contract import SamplerContract  # noqa: E402
from tuner.testing.tracker_contract import TrackerContract  # noqa: E402

__all__ = ["AgentContract", "ExecutorContract", "SamplerContract", "TrackerContract"]
