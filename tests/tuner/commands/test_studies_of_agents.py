"""Small studies of real runs, from the command line to the verdict, of agents that no quick test tunes."""

import math

import pytest

from tests.tuner.command_line import SMALL, SMALL_AGENTS, SMALL_STUDY, CommandLine
from tests.tuner.commands.fake_studies import STORAGE
from tuner.study import StudyStore, summarise

AGENTS = {
    **{name: SMALL_AGENTS[name] for name in ("rainbow", "sac_discrete", "crossq", "r2d2", "alphazero")},
    "tqc": (*SMALL_AGENTS["tqc"], "agent.num_quantiles=8"),  # of which up to 5 are dropped
    "ppo_lstm": (*SMALL_AGENTS["ppo"], "network=lstm", "network.units=8"),
    "a2c_gru": (*SMALL_AGENTS["a2c"], "network=gru", "network.units=8"),
}


@pytest.mark.slow  # five real runs each
@pytest.mark.parametrize("name", AGENTS)
def test_a_study_of_each_agent_comes_to_its_end(tuner: CommandLine, name: str) -> None:
    sizes = ("agent.", "network.")  # those of the default, where they are searched
    small = [f"++{word}" if word.startswith(sizes) else word for word in (*AGENTS[name], *SMALL)]
    answer = tuner("tune", *small, *SMALL_STUDY, "study.name=mine")
    assert answer.status == 0, answer.errors
    with StudyStore(STORAGE) as store:
        summary = summarise(store, "mine", tuner.folder / "studies" / "mine")
    assert {run.stage for run in summary.runs} == {"screen", "confirm", "test"}
    assert not any(run.failed for run in summary.runs)
    assert all(run.value is not None and math.isfinite(run.value) for run in summary.runs)
    assert all("optimizer.learning_rate" in run.params for run in summary.runs if run.stage == "screen")
    assert "train the winner again" in answer.output
