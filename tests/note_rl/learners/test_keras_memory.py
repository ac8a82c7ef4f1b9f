"""Memory of a process after an agent in Keras."""

import gc
from typing import Any

import keras
import pytest
from tensorflow.python.framework.func_graph import FuncGraph

import note_rl.agents.keras as agents
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy


def train_and_drop(name: str, env: str, **settings: Any) -> None:
    agent = getattr(agents, name)(env=env)
    agent.set(batch=16, **settings)
    agent.train(optimizer=keras.optimizers.Adam(1e-3), total_steps=32)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("DQN", {"policy": EpsGreedyQPolicy(0.1), "pool_size": 64, "learning_starts": 16, "train_freq": 8}),
        pytest.param(
            "TRPO",
            {"policy": SoftmaxPolicy(), "PPO": True, "rollout_steps": 32, "num_epochs": 1},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_graphs_go_with_their_agent(name: str, settings: dict[str, Any]) -> None:
    gc.collect()
    before = {id(one) for one in gc.get_objects() if issubclass(type(one), FuncGraph)}
    train_and_drop(name, "CartPole-v1", **settings)
    gc.collect()
    left = [one.name for one in gc.get_objects() if issubclass(type(one), FuncGraph) and id(one) not in before]
    assert left == []
