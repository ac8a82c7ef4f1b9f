"""A user's own agent and YAML, trained and tuned, as `tuner guide agents` shows it."""

import json
from pathlib import Path

import pytest

from tests.tuner.command_line import CommandLine
from tuner.study import StudyStore

PROGRAM = """
from note_rl.agents.pytorch import DQN


class CautiousDQN(DQN):
    def __init__(self, *args, trust=1.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.trust = trust

    def next_value(self, next_s):
        q = self.target_q_net(next_s)
        return self.trust * q.amax(1) + (1 - self.trust) * q.mean(1)
"""
CONF = {
    "agent": "# @package _global_\ndefaults: [dqn]\nagent:\n  _target_: my_rl.agents.CautiousDQN\n  trust: 0.5\n",
    "space": "defaults: [dqn]\nagent:\n  trust: {low: 0.25, high: 0.75}\n",
}
BRIEF = ("--config-dir", "my_conf", "agent=cautious_dqn", "tracker=jsonl", "training.total_steps=200")
QUICK = ("evaluation.num_episodes=1", "evaluation.num_points=2", "network.hidden_sizes=[8]")
STUDY = ("study.num_trials=2", "study.num_race=2", "study.num_candidates=1", "study.num_test_seeds=1")
STUDY += ("executor=inline", "study.steps_per_second=1000", "study.num_race_seeds=0", "study.num_select_seeds=1")


@pytest.fixture
def own(tuner: CommandLine) -> CommandLine:
    package = tuner.folder / "my_rl"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "agents.py").write_text(PROGRAM)
    for group, content in CONF.items():
        (tuner.folder / "my_conf" / group).mkdir(parents=True)
        (tuner.folder / "my_conf" / group / "cautious_dqn.yaml").write_text(content)
    return tuner


def test_an_agent_of_the_users_own_is_trained_and_tuned(own: CommandLine) -> None:
    trained = own("train", *BRIEF, *QUICK, "hydra.run.dir=run", "agent.trust=0.75")
    assert trained.status == 0, trained.errors
    tuned = own("tune", *BRIEF, *QUICK, *STUDY)
    assert tuned.status == 0, tuned.errors
    notes = Path("studies").glob("*/screen/*/trial.json")
    used = [json.loads(path.read_text())["config"]["agent"] for path in notes]
    assert {agent["_target_"] for agent in used} == {"my_rl.agents.CautiousDQN"}
    values = {agent["trust"] for agent in used}
    with StudyStore("sqlite:///studies.db") as store:
        (name,) = store.names()
        random_score = store.require(name).user_attrs["random_score"]
    assert 9.0 < random_score < 60.0, "a random policy on CartPole-v1"
    assert len(values) == 2
    assert all(0.25 <= value <= 0.75 for value in values)
    misspelt = own("train", *BRIEF, "agent.thrust=1")
    assert misspelt.status == 2
    assert "did you mean agent.trust" in misspelt.errors
