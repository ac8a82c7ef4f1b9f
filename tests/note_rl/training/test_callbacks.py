"""Arguments of callbacks, in both frameworks."""

import numpy as np
import pytest

from note_rl.training.callbacks import Callback, LambdaCallback
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting
from tests.note_rl.training.short_runs import dqn, quietly

pytestmark = pytest.mark.parametrize("framework", frameworks())


@pytest.mark.slow_in_keras  # they are called by the trainer
def test_callbacks_see_every_episode_batch_and_phase(framework):
    seen = {"episodes": [], "batches": [], "phases": []}

    class Watch(Callback):
        def on_episode_end(self, episode, logs):
            seen["episodes"].append((episode, logs["reward"], logs["length"]))

        def on_batch_end(self, batch, logs):
            seen["batches"].append((batch, logs["loss"]))

        def on_phase_end(self, phase, logs):
            seen["phases"].append((phase, logs["num_env_steps"], self.agent.num_gradient_steps))

    agent, optimizer = dqn(framework, lambda: Counting(5))
    result = agent.train(optimizer=optimizer, total_steps=48, callbacks=[Watch()], **quietly(framework))
    assert seen["episodes"] == [(n, 15.0, 5.0) for n in range(9)]
    assert [number for number, _ in seen["batches"]] == list(range(12))
    assert seen["phases"] == [(1, 8, 0), (2, 16, 0), (3, 24, 0), (4, 32, 4), (5, 40, 8), (6, 48, 12)]
    losses = [loss for _, loss in seen["batches"]]
    np.testing.assert_allclose(result.losses[3:], np.array(losses).reshape(3, 4).mean(1), rtol=1e-5)
    assert np.isnan(result.losses[:3]).all()


def test_an_unknown_hook_is_refused(framework):
    with pytest.raises(TypeError, match="on_epoch_end"):
        LambdaCallback(on_epoch_end=print)
