"""Numbers of optimizers that hold for one update, in both frameworks."""

import numpy as np
import pytest

from tests.note_rl.frameworks import Framework, frameworks
from tests.note_rl.learners.update_blocks import block


@pytest.mark.slow_in_keras("sgd")
@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_numbers_hold_for_one_update_and_leave_the_optimizer_as_it_was(framework: Framework, optimizer: str) -> None:
    """As an optimizer that was made with these numbers, and without tracing again."""
    betas = {} if optimizer == "sgd" else {"beta1": 0.7, "beta2": 0.95}
    numbers = {"learning_rate": 0.02, "weight_decay": 0.3, **betas}
    start = {"learning_rate": 0.01, "weight_decay": 0.1, **({"beta1": 0.9, "beta2": 0.99} if betas else {})}
    results = []
    for told, given in ((start, numbers), (numbers, {})):
        from note_rl.seeding import seed_everything

        seed_everything(3)
        agent = framework.agents.DQN(4, (8,), 2)
        agent.learner.prepare(getattr(framework.optimizers, optimizer)(agent.param, **told), None, [], False)
        for _ in range(2):
            agent.learner.update(block(), {f"{name}:0": value for name, value in given.items()})
        results.append(framework.parameters(agent))
        assert agent.learner.optimizer_numbers()[0].values == pytest.approx(told)
        if framework.package == "keras":
            for factor in (0.5, 0.6):
                agent.learner.update(block(), {f"{name}:0": factor * value for name, value in given.items()})
            assert agent.learner.num_traces == 1
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-7)
