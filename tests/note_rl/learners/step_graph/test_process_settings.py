"""Settings of the whole process by which a step was recorded are followed."""

import pytest
import torch

from note_rl.seeding import seed_everything
from tests.note_rl.learners.step_graph.recorded_agents import Custom, assert_same_state, learner_of, minibatches


def of_scale(read):
    return lambda agent, s, r: read(agent) * (s @ agent.w - r).square()


SETTINGS = {
    "type of new numbers": (
        lambda agent, s, r: (s @ agent.w - r).square() * (-1.0 if torch.zeros(1).dtype is torch.float64 else 1.0),
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.set_default_dtype(torch.float32),
    ),
    "default type": (
        of_scale(lambda agent: -1.0 if torch.get_default_dtype() is torch.float64 else 1.0),
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.set_default_dtype(torch.float32),
    ),
    "autocast": (
        lambda agent, s, r: ((s @ agent.w[:, None])[:, 0].float() - r).square(),
        lambda: torch.set_autocast_enabled("cpu", True),
        lambda: torch.set_autocast_enabled("cpu", False),
    ),
    "deterministic algorithms": (
        of_scale(lambda agent: -1.0 if torch.are_deterministic_algorithms_enabled() else 1.0),
        lambda: torch.use_deterministic_algorithms(True),
        lambda: torch.use_deterministic_algorithms(False),
    ),
    "flag of a backend": (
        of_scale(lambda agent: -1.0 if torch.backends.cudnn.benchmark else 1.0),
        lambda: setattr(torch.backends.cudnn, "benchmark", True),
        lambda: setattr(torch.backends.cudnn, "benchmark", False),
    ),
}


@pytest.mark.parametrize(("loss", "change", "back"), SETTINGS.values(), ids=SETTINGS)
def test_settings_of_the_process_are_followed(loss, change, back):
    try:
        traced, plain = (learned_with(loss, change, back, jit) for jit in ("auto", False))
    finally:
        back()
    assert traced.num_traces == 2
    assert_same_state(plain, traced, rtol=0)
    unchanged = learned_with(loss, lambda: None, lambda: None, False)
    assert not torch.equal(plain.agent.w, unchanged.agent.w), "it changes nothing"


def learned_with(loss, change, back, jit):
    seed_everything(0)
    learner = learner_of(Custom(loss), jit)
    for seed in range(3):
        learner.update(minibatches(seed=seed), {})
        if seed == 0:
            change()
    back()
    return learner
