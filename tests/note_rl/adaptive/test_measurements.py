"""How often the noise of gradients is measured, and that measuring leaves no trace."""

from typing import Any

import pytest

from note_rl.settings import Adaptive
from tests.note_rl.adaptive.adapted_agents import QUICK, dqn, same, trained
from tests.note_rl.frameworks import Framework, frameworks


@pytest.mark.parametrize(("noise_period", "times"), [(4, 20), (8, 10), (1000, 0)])
def test_the_noise_of_gradients_is_measured_less_often(
    noise_period: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    framework = Framework("pytorch")
    told = {**QUICK, "period": 4, "noise_period": noise_period, "mode": "advise"}
    agent = dqn(framework, Adaptive(**told, signals=["gradient_noise"], parameters={"learning_rate": {}}))
    measured = []
    plain = type(agent.learner).gradient_noise

    def counted(self: Any, *arguments: Any) -> Any:
        measured.append(agent.num_gradient_steps)
        return plain(self, *arguments)

    monkeypatch.setattr(type(agent.learner), "gradient_noise", counted)
    trained(framework, agent, 320)  # 20 phases of 4 gradient steps
    assert len(measured) == times
    assert len(agent.decisions) == 20


@pytest.mark.traced
@pytest.mark.parametrize("framework", frameworks())
def test_noise_is_measured_without_a_trace(framework: Framework) -> None:
    told = {"signals": ["gradient_noise"], "parameters": {"batch_size": {}, "tau": {}}, "mode": "advise"}
    static = trained(framework, dqn(framework, None), 160)
    agent = dqn(framework, Adaptive(**{**QUICK, **told}))
    assert same(trained(framework, agent, 160), static)
    assert {one.parameter for one in agent.decisions} == {"batch_size", "tau"}
    assert any(one.signal == "gradient_noise" for one in agent.decisions)
