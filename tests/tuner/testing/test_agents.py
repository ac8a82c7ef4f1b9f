"""Agents of different kinds keep the contract that `tuner.testing` offers for those of others."""

import pytest

from tests.tuner.command_line import SMALL, SMALL_AGENTS
from tuner.errors import UserError
from tuner.testing import AgentContract


@pytest.mark.slow  # agents that come with tuner have tests of their own for each of these rules
class TestDQN(AgentContract):
    def make(self) -> list[str]:
        return [*SMALL, *SMALL_AGENTS["dqn"]]


class TestSynthetic(AgentContract):
    def make(self) -> list[str]:
        return ["agent=synthetic", "tracker=jsonl", "evaluation.num_points=3"]


class Forgetful(AgentContract):
    """Learns from samples that depend on how often it was called."""

    calls = 0

    def make(self) -> list[str]:
        type(self).calls += 1
        return ["agent=synthetic", "tracker=jsonl", "evaluation.num_points=3", f"agent.gamma=0.9{self.calls}"]


@pytest.mark.parametrize("rule", ["the_seed_decides", "a_run_that_is_stopped_goes_on"])
def test_an_agent_that_breaks_a_rule_is_found(rule, tmp_path):
    with pytest.raises(AssertionError):
        getattr(Forgetful(), f"test_{rule}")(tmp_path)


def test_the_missing_space_of_an_agent_is_named(tmp_path):
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "mine.yaml").write_text("# @package _global_\ndefaults: [dqn]\n")

    class Spaceless(AgentContract):
        config_dir = tmp_path

        def make(self):
            return ["agent=mine"]

    with pytest.raises(UserError, match=r"write space/mine\.yaml in the folder of --config-dir"):
        Spaceless().test_its_settings_are_accepted()
