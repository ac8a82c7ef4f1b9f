"""Runs that repeat the values which adaptation came to in another."""

from typing import Any

import numpy as np
import pytest

from note_rl.settings import Adaptive
from note_rl.settings.schedules import Linear
from tests.note_rl.adaptive.adapted_agents import BY_RATIO, QUICK, ppo, same, trained
from tests.note_rl.frameworks import Framework


def test_a_run_is_repeated_from_the_schedule_it_left(tmp_path: Any) -> None:
    framework = Framework("pytorch")
    schedules = {"learning_rate": Linear(1e-3, 1e-4)}
    told = Adaptive(
        **QUICK, **{**BY_RATIO, "parameters": {**BY_RATIO["parameters"], "num_updates": {}}}, targets={"ratio_ess": 3.0}
    )
    first = ppo(framework, told, schedules=schedules)
    expected = trained(framework, first)
    left = first._trainer.adaptation.log.schedule()
    assert len(left["learning_rate:0"]) > 3
    assert len(left["num_updates"]) > 1
    again = ppo(framework, Adaptive(schedule=left), schedules=schedules)
    assert same(trained(framework, again), expected)
    assert not same(trained(framework, ppo(framework, None, schedules=schedules)), expected)


@pytest.mark.parametrize(
    ("framework", "jit"),
    [
        (Framework("pytorch"), False),
        (Framework("pytorch"), "auto"),
        pytest.param(Framework("keras"), False, marks=pytest.mark.slow),
    ],
)
def test_any_number_of_the_agent_and_the_rates_of_all_optimizers_can_be_repeated(
    framework: Framework, jit: bool | str
) -> None:
    steps = {"entropy_coef": [[320, 0.5]], "gae_lambda": [[320, 0.5]], "learning_rate": [[320, 5e-3]]}
    repeating = ppo(framework, Adaptive(schedule=steps))
    repeating.train(total_steps=640, p=0, jit_compile=jit)
    assert (repeating.entropy_coef, repeating.gae_lambda) == (0.0, 0.95), "the user's numbers are put back"
    by_hand = ppo(framework, None)
    by_hand.train(total_steps=320, p=0, jit_compile=False)
    untouched = framework.parameters(by_hand)
    by_hand.entropy_coef, by_hand.gae_lambda = 0.5, 0.5
    for optimizer in [by_hand.optimizer] if framework.package == "keras" else by_hand.optimizer.param_groups:
        if framework.package == "keras":
            optimizer.learning_rate = 5e-3
        else:
            optimizer["lr"] = 5e-3
    by_hand.train(total_steps=640, p=0, jit_compile=False)
    expected = framework.parameters(by_hand)
    assert not same(untouched, expected)
    for one, other in zip(framework.parameters(repeating), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
