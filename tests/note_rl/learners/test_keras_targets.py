"""Limits of update_param() in Keras, where it is part of the compiled update."""

import keras
import pytest

from note_rl.agents.keras import DQN
from note_rl.errors import AgentContractError
from note_rl.policy import EpsGreedyQPolicy


class Copying(DQN):
    """Its targets follow as one would write it outside of a compiled function."""

    def update_param(self):
        self.target_q_net.set_weights(self.q_net.get_weights())


def test_reading_weights_is_answered_with_what_to_write_instead():
    agent = Copying(hidden_size=(4,), env="CartPole-v1")
    agent.set(policy=EpsGreedyQPolicy(0.1), pool_size=50, batch=4, num_updates=1, update_batches=1)
    with pytest.raises(
        AgentContractError, match=r"Copying\.update_param\(\) .*get_weights\(\).*target\.assign\(weight\)"
    ):
        agent.train(optimizer=keras.optimizers.Adam(1e-3), episodes=2, p=0, jit_compile=False)
