"""Schedules move the learning rate, and the user's optimizer stays as it was made."""

import re
from typing import Any

import pytest

from note_rl.errors import SettingsError
from note_rl.policy import EpsGreedyQPolicy
from note_rl.settings import Adaptive
from note_rl.settings.schedules import Linear
from tests.note_rl.adaptive.adapted_agents import BY_RATIO, QUICK, ppo, same, trained
from tests.note_rl.frameworks import Framework, frameworks

MOVED_BY: dict[str, dict[str, Any]] = {
    "schedule": {"adaptive": None, "schedules": {"learning_rate": Linear(1e-2, 5e-3)}},
    "adaptation": {"adaptive": Adaptive(**{**QUICK, **BY_RATIO}, targets={"ratio_ess": 2.0})},
    "both": {
        "adaptive": Adaptive(**{**QUICK, **BY_RATIO}, targets={"ratio_ess": 2.0}),
        "schedules": {"learning_rate": Linear(1e-2, 5e-3)},
    },
}


@pytest.mark.slow_in_keras  # rates that hold for one update in Keras: learners/test_hyperparameter_override.py
@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize("moved_by", MOVED_BY)
def test_the_users_optimizer_is_as_it_was_made_whatever_moves_its_rate(
    framework: Framework, moved_by: str, tmp_path: Any
) -> None:
    def rate(agent: Any) -> float:
        return float(agent.learner.optimizer_numbers()[0].values["learning_rate"])

    first = ppo(framework, **MOVED_BY[moved_by], num_epochs=1)
    rates = []
    update = first.learner.update
    first.learner.update = lambda sample, told: (rates.append(told), update(sample, told))[1]
    trained(framework, first, 128)
    moved = [told.get("learning_rate:0", told.get("learning_rate")) for told in rates]
    assert len(set(moved)) == 2, "it was another one in each phase"
    assert rate(first) == 1e-3
    first.save(tmp_path / "first")
    second = ppo(framework, **MOVED_BY[moved_by], num_epochs=1)
    second.restore(tmp_path / "first")
    trained(framework, second, 192)
    assert rate(second) == 1e-3


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("framework", frameworks())
def test_without_its_schedule_an_agent_learns_at_the_rate_of_its_optimizer(framework: Framework) -> None:
    agent = ppo(framework, None, schedules={"learning_rate": Linear(0.1, 0.1)})
    agent.optimizer = framework.optimizers.sgd(agent.param, 0.0)
    begun = framework.parameters(agent)
    scheduled = trained(framework, agent, 64)
    assert not same(begun, scheduled)
    agent.set(schedules={})
    assert same(trained(framework, agent, 128), scheduled)


REFUSED = {
    "v_max": "it is read only when the agent is made: leave its schedule out",
    "num_quantiles": "it is a whole number, at least 1, and schedules give fractions: leave its schedule out",
    "double": "it is True or False, and schedules give fractions: leave its schedule out",
}


@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize("name", REFUSED)
def test_a_schedule_without_effect_is_refused(framework: Framework, name: str) -> None:
    for settings in ({"schedules": {name: Linear(1.0, 2.0)}}, {"adaptive": Adaptive(schedule={name: [[0, 2.0]]})}):
        agent = framework.agents.DQN(hidden_size=(4,), env="CartPole-v1")
        agent.set(policy=EpsGreedyQPolicy(0.1), **settings)
        with pytest.raises(
            SettingsError, match=re.escape(f"{name} cannot change while DQN is trained, as {REFUSED[name]}")
        ):
            agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-3), total_steps=8, p=0)
