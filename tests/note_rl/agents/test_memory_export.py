"""An agent with a memory outside of its framework: the state goes in and comes out."""

from functools import partial

import gymnasium
import numpy as np
import pytest

from note_rl.settings import GSDE
from tests.note_rl.agents.test_memory_agents import made
from tests.note_rl.agents.test_own_memory import in_torch
from tests.note_rl.exported_policies import exported
from tests.note_rl.frameworks import Framework
from tests.note_rl.small_environments import Counting

NUM_STEPS, UNITS = 20, 3


def assert_acts_alike(agent, run, width):
    """Over episodes of two environments side by side, which end at different steps; returns the actions [T, 2, ...]."""
    space = agent.env().observation_space if callable(agent.env) else gymnasium.make(agent.env).observation_space
    obs = np.random.default_rng(2).normal(0.5, 1.0, (NUM_STEPS, 2, *space.shape)).astype(np.float32)
    starts = np.zeros((NUM_STEPS, 2), np.bool_)
    starts[0] = starts[9, 0] = starts[13, 1] = True
    state, mine, actions = None, np.full((2, width), 7.0, np.float32), []
    for step in range(NUM_STEPS):
        wanted, state = agent.predict(obs[step], state, episode_start=starts[step])
        given = run({"observation": obs[step], "policy": mine, "episode_start": starts[step]})
        mine = given["next_policy"]
        np.testing.assert_allclose(given["action"], wanted, atol=1e-5)
        np.testing.assert_allclose(mine, state["policy"], atol=1e-5)
        actions.append(wanted)
    return np.stack(actions)


@pytest.mark.parametrize(
    ("package", "kind", "cell", "file_format", "settings"),
    [
        ("pytorch", "PPO", "lstm", "onnx", {}),
        ("keras", "PPO", "lstm", "onnx", {}),
        ("pytorch", "A2C", "gru", "torch", {"gsde": GSDE()}),
        ("keras", "A2C", "gru", "onnx", {"gsde": GSDE()}),
        ("keras", "A2C", "gru", "saved_model", {}),
    ],
)
def test_an_episode_goes_as_predict_has_it(package, kind, cell, file_format, settings, tmp_path):
    agent = made(
        Framework(package), "Pendulum-v1", kind, settings, cell=cell, shared=kind == "A2C", head_sizes=(4,), units=UNITS
    )
    agent.obs_normaliser.update(np.random.default_rng(1).normal(0.5, 3.0, (50, 1, 3)))
    width = UNITS * (2 if cell == "lstm" else 1)
    actions = assert_acts_alike(agent, exported(agent, tmp_path, file_format), width)
    assert np.ptp(actions[np.abs(actions) < 2.0]) > 0.1, "a policy that always answers the same would prove little"


def test_it_holds_the_policy_alone_and_says_how_it_is_called(tmp_path):
    import onnx

    agent = made(Framework("keras"), Counting)
    policy = agent.export(tmp_path / "policy.onnx")
    model = onnx.load(tmp_path / "policy.onnx")
    numbers = sum(int(np.prod(one.dims)) for one in model.graph.initializer if one.data_type == onnx.TensorProto.FLOAT)
    actor = sum(int(np.prod(one.shape)) for one in agent.actor.trainable_variables)
    assert actor <= numbers < actor + 20
    assert list(policy.inputs) == ["observation", "policy", "episode_start"]
    about = {one.key: one.value for one in model.metadata_props}
    assert about["state"] == "policy of a call is next_policy of the last one; any numbers where episode_start is true"


def test_an_agent_of_a_user_s_own(tmp_path):
    """That of the guide, whose value remembers by the array by which it acts."""
    agent = in_torch()(partial(Counting, 3), units=UNITS)
    run, state, hidden = exported(agent, tmp_path), None, np.zeros((2, UNITS), np.float32)
    rng, starts = np.random.default_rng(0), np.array([True, True])
    for _ in range(4):
        obs = rng.normal(size=(2, 2)).astype(np.float32)
        wanted, state = agent.predict(obs, state, episode_start=starts)
        given = run({"observation": obs, "hidden": hidden, "episode_start": starts})
        hidden, starts = given["next_hidden"], np.array([False, True])
        np.testing.assert_array_equal(given["action"], wanted)
        np.testing.assert_allclose(hidden, state["hidden"], atol=1e-5)
