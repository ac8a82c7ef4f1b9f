"""Optimizer numbers that follow the batch size."""

import pytest

from note_rl.settings import Adaptive
from tests.note_rl.adaptive.adapted_agents import QUICK, ppo
from tests.note_rl.frameworks import Framework


def test_a_larger_batch_takes_the_learning_rate_and_beta2_along() -> None:
    framework = Framework("pytorch")
    agent = ppo(framework, Adaptive(**QUICK, signals=["gradient_noise"], parameters={"batch_size": {}}), batch=16)
    agent.train(total_steps=64, p=0)
    adaptation = agent._trainer.adaptation
    adaptation._adapters["batch_size"].controller.factor = 4.0
    adaptation._coupling.noise = 48.0  # three times the batch of 16
    told = adaptation.move_to({}, agent._trainer.clock)
    assert adaptation.place.experience.settings.batch_size == 64
    assert told["learning_rate:0"] == pytest.approx(1e-3 * 1.5119, rel=1e-4)  # 2.2857^(1/2)
    assert told["beta2:0"] == pytest.approx(0.9960, abs=1e-4)
