"""Hyperparameters that are not there are refused."""

from typing import Any

import pytest

from note_rl.errors import SettingsError
from note_rl.settings import Adaptive
from note_rl.training.callbacks import LambdaCallback
from tests.note_rl.adaptive.adapted_agents import dqn
from tests.note_rl.frameworks import Framework, frameworks


def _never(*_: Any) -> None:
    raise AssertionError("training had begun")


HOOKS: dict[str, Any] = {"on_train_begin": _never}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"signals": ["priority_ess"]}, "priority_ess needs priorities: set PR=True"),
        ({"signals": ["ratio_ess"]}, "compares PPO's policies"),
        ({"signals": ["gradient_noise"], "parameters": {"clip": {}}}, "DQN has no attribute clip"),
        ({"signals": ["gradient_noise"], "parameters": {"alpha": {}}}, "alpha is to be adapted, which needs PR=True"),
        ({"schedule": {"clip": [[0, 0.1]]}}, "DQN has no attribute clip"),
        ({"schedule": {"learning_rate:1": [[0, 0.1]]}}, "but of learning_rate there are learning_rate:0"),
        ({"schedule": {"learning_rat": [[0, 0.1]]}}, "DQN has no attribute learning_rat"),
    ],
)
def test_what_is_not_there_is_refused_before_the_first_step(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        dqn(Framework("pytorch"), Adaptive(**options)).train(total_steps=64, p=0, callbacks=[LambdaCallback(**HOOKS)])


@pytest.mark.parametrize("framework", frameworks())
def test_numbers_that_an_optimizer_has_not_are_refused_by_name(framework: Framework) -> None:
    agent = dqn(framework, Adaptive(signals=["gradient_noise"], parameters={"beta1": {}}))
    agent.optimizer = framework.optimizers.sgd(agent.param, 0.1)
    with pytest.raises(SettingsError, match="beta1 of SGD cannot be changed while training goes on"):
        agent.train(total_steps=64, p=0)
