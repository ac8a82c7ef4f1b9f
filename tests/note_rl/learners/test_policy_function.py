"""Exported policies act as the agent does, and what cannot be exported is said."""

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import onnxruntime
import pytest
from gymnasium import spaces

from note_rl.errors import AgentContractError, NoteRLError, SettingsError
from note_rl.policy import NoisyPolicy, SoftmaxPolicy
from note_rl.settings import GSDE
from tests.note_rl.exported_policies import exported
from tests.note_rl.frameworks import frameworks

NUM = 100
LAYERS = (
    {"conv": {"filters": 3, "size": 3, "stride": 2, "padding": "same"}},
    {"norm": "layer"},
    {"pool": 2},
    {"norm": "batch"},
    {"pool": {"size": 2, "kind": "average"}},
    "flatten",
    {"dense": {"units": 6, "activation": "silu"}},
    {"dropout": 0.5},
    {"dense": {"units": 5, "activation": "elu"}},
)


class Pictures(gymnasium.Env[np.ndarray, int]):
    """Noise; its actions are called 1, 2 and 3."""

    observation_space = spaces.Box(0, 255, (12, 12, 2), np.uint8)
    action_space = spaces.Discrete(3, start=1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return self._shown(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return self._shown(), 0.0, False, False, {}

    def _shown(self) -> np.ndarray:
        return self.np_random.integers(0, 256, (12, 12, 2)).astype(np.uint8)


class Guarded(gymnasium.Env[np.ndarray, int]):
    """It counts its steps, and each allows one action only."""

    observation_space = spaces.Box(0.0, 20.0, (1,), np.float32)
    action_space = spaces.Discrete(7)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._count = 0
        return self._shown()

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert action == self._count % 7
        self._count += 1
        obs, info = self._shown()
        return obs, 1.0, self._count == 20, False, info

    def _shown(self) -> tuple[np.ndarray, dict[str, Any]]:
        return np.array([self._count], np.float32), {"action_mask": np.eye(7, dtype=np.int8)[self._count % 7]}


PARTS: dict[str, dict[str, Any]] = {
    "C51": {"values": "categorical", "num_atoms": 5, "dueling": True, "stream_size": 4},
    "QRDQN": {"values": "quantiles", "num_quantiles": 5},
    "TQC": {"num_quantiles": 4},
}
OF_DQN = dict.fromkeys(("C51", "QRDQN"), "DQN")


def made(framework, name: str) -> Any:
    """An agent whose weights are not those of the beginning, and whose observations are normalised."""
    agents, small = framework.agents, {"hidden_size": 8}
    if name == "layers":
        import importlib

        layered = importlib.import_module(f"note_rl.agents.{framework.package}.layered").layered_network
        agent = agents.PPO(env=Pictures, network=partial(layered, layers=LAYERS))
    else:
        kind, task, *by_state = name.split()
        parts = PARTS.get(kind, {})
        if kind == "C51":  # its noise is not exported
            mlp = framework.module("shared/networks").MLP
            parts = {**parts, "network": partial(mlp, hidden_sizes=(8,), noisy_std=0.5)}
        agent = getattr(agents, OF_DQN.get(kind, kind))(
            env=task, **small, **parts, **({"gsde": GSDE()} if by_state else {})
        )
        shape = gymnasium.make(task).observation_space.shape
        agent.obs_normaliser.update(np.random.default_rng(1).normal(0.5, 3.0, (50, 1, *shape)))
    rng = np.random.default_rng(0)
    state = agent.learner.get_state()  # running variances of batch normalisation stay above 0
    moved = {
        key: values + rng.normal(0, 0.25, values.shape) for key, values in state.items() if values.dtype.kind == "f"
    }
    agent.learner.set_state({**state, **{key: values.astype(np.float32) for key, values in moved.items()}})
    return agent


def observations(space: spaces.Box) -> np.ndarray:
    rng = np.random.default_rng(2)
    if space.dtype == np.uint8:
        return rng.integers(0, 256, (NUM, *space.shape)).astype(np.uint8)
    return (4.0 * rng.normal(size=(NUM, *space.shape))).astype(np.float32)


def expected(agent: Any, obs: np.ndarray) -> np.ndarray:
    return np.concatenate([np.atleast_1d(agent.predict(one)[0])[None] for one in obs])


NAMES = (
    *("DQN CartPole-v1", "DuelingDQN CartPole-v1", "C51 CartPole-v1", "QRDQN CartPole-v1", "PPO CartPole-v1"),
    *("PPO Pendulum-v1", "SAC Pendulum-v1", "SAC Pendulum-v1 gsde", "SACDiscrete CartPole-v1", "CrossQ Pendulum-v1"),
    *("TQC Pendulum-v1", "layers"),
)
FRAMEWORKS = {one.id: one.values[0] for one in frameworks()}


@pytest.mark.parametrize(
    ("package", "name"),  # PyTorch's exporter takes seconds: other kinds of actions in its own format, below
    [
        ("pytorch", "DQN CartPole-v1"),
        pytest.param("pytorch", "PPO Pendulum-v1", marks=pytest.mark.slow),
        pytest.param("pytorch", "PPO Pendulum-v1 gsde", marks=pytest.mark.slow),
        pytest.param("pytorch", "CrossQ Pendulum-v1", marks=pytest.mark.slow),
        pytest.param("pytorch", "QRDQN CartPole-v1", marks=pytest.mark.slow),
        pytest.param("pytorch", "TQC Pendulum-v1", marks=pytest.mark.slow),
        *(("keras", name) for name in NAMES),
    ],
)
def test_onnx_runtime_acts_as_the_agent(package: str, name: str, tmp_path: Path) -> None:
    agent = made(FRAMEWORKS[package], name)
    policy = agent.export(tmp_path / "policy.onnx", about={"task": name})
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    env = Pictures() if name == "layers" else gymnasium.make(agent.env)
    obs = observations(env.observation_space)
    action, scores = session.run(["action", "scores"], {"observation": obs})
    wanted = expected(agent, obs)
    if wanted.dtype.kind == "i":
        assert np.ptp(scores, axis=0).max() > 0.01, "a policy that always answers the same would prove little"
        assert action.dtype == np.int64
        np.testing.assert_array_equal(action, wanted[:, 0])
    else:
        assert np.ptp(wanted) > 0.1
        np.testing.assert_allclose(action, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(scores, agent.learner.act(agent.obs_normaliser(obs)), rtol=1e-4, atol=1e-5)
    one, _ = session.run(["action", "scores"], {"observation": obs[:1]})
    np.testing.assert_allclose(one, action[:1], rtol=1e-5)
    about = session.get_modelmeta().custom_metadata_map
    assert (about["agent"], about["task"]) == (type(agent).__name__, name)
    assert (policy.obs_shape, policy.obs_dtype) == (obs.shape[1:], obs.dtype.name)
    assert {one.name for one in session.get_inputs()} == {"observation"}
    assert [path.name for path in tmp_path.iterdir()] == ["policy.onnx"]


@pytest.mark.parametrize("framework", frameworks())
def test_in_the_framework_s_own_format(framework, tmp_path: Path) -> None:
    agent = made(framework, "SAC Pendulum-v1")
    obs = observations(gymnasium.make(agent.env).observation_space)
    if framework.package == "pytorch":
        import torch

        agent.export(tmp_path / "policy.pt2", "torch")
        program = torch.export.load(str(tmp_path / "policy.pt2"))
        action = program.module()(torch.from_numpy(obs))[0].numpy()
        size = sum(values.numel() for values in program.constants.values())
    else:
        import tensorflow as tf

        for _ in range(2):  # the second takes the place of the first
            agent.export(tmp_path / "policy", "saved_model")
        read = tf.saved_model.load(str(tmp_path / "policy"))
        action = read.signatures["serving_default"](observation=tf.constant(obs))["action"].numpy()
        size = sum(int(np.prod(values.shape)) for values in read.used)
    np.testing.assert_allclose(action, expected(agent, obs), rtol=1e-4, atol=1e-5)
    actor = sum(values.size for key, values in agent.learner.get_state().items() if key.startswith("agent/actor"))
    assert actor <= size < actor + 20, "the policy alone: neither critics nor targets"
    assert len(list(tmp_path.iterdir())) == 1


class Whole(Pictures):
    """Shows whole numbers."""

    observation_space = spaces.Box(-100, 100, (5,), np.int32)

    def _shown(self) -> np.ndarray:
        return self.np_random.integers(-100, 101, (5,)).astype(np.int32)


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("framework", frameworks())
def test_whole_numbers_are_taken_as_they_are_shown(framework, normalised: bool, tmp_path: Path) -> None:
    agent = framework.agents.DQN(env=Whole, hidden_size=8)
    obs = np.random.default_rng(3).integers(-100, 101, (NUM, 5)).astype(np.int32)
    if normalised:
        agent.obs_normaliser.update(obs[:, None])
    run = exported(agent, tmp_path)
    found = run({"observation": obs})
    np.testing.assert_array_equal(found["action"], expected(agent, obs)[:, 0])
    assert np.ptp(found["scores"], axis=0).max() > 0.01
    np.testing.assert_allclose(found["scores"], agent.learner.act(agent.obs_normaliser(obs)), rtol=1e-4, atol=1e-4)


class Locks(gymnasium.Env[np.ndarray, np.ndarray]):
    """Noise; takes several whole numbers at once."""

    observation_space = spaces.Box(-9.0, 9.0, (3,), np.float32)

    def __init__(self, action_space: Any) -> None:
        self.action_space = action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        return np.zeros(3, np.float32), 0.0, False, False, {}


CHOICES, SWITCHES = spaces.MultiDiscrete([2, 4, 3], start=[1, -1, 0]), spaces.MultiBinary((2, 2))


def exported_actions(agent: Any, path: Path, kind: str, obs: np.ndarray) -> np.ndarray:
    """Actions of a policy that was exported."""
    agent.export(path, kind)
    if kind == "onnx":
        return onnxruntime.InferenceSession(path).run(["action"], {"observation": obs})[0]
    import torch

    return torch.export.load(str(path)).module()(torch.from_numpy(obs))[0].numpy()


FORMATS = [  # PyTorch's exporter to ONNX takes seconds, and translates what its own format holds
    ("pytorch", "torch"),
    pytest.param("pytorch", "onnx", marks=pytest.mark.slow),
    ("keras", "onnx"),
]


@pytest.mark.parametrize(("package", "kind"), FORMATS)
@pytest.mark.parametrize("action_space", [CHOICES, SWITCHES], ids=["choices", "switches"])
def test_several_whole_numbers_at_once(package: str, kind: str, action_space: Any, tmp_path: Path) -> None:
    agent = FRAMEWORKS[package].agents.PPO(env=partial(Locks, action_space), hidden_size=8)
    rng = np.random.default_rng(0)
    state = agent.learner.get_state()
    moved = {
        key: values + rng.normal(0, 0.5, values.shape) for key, values in state.items() if values.dtype.kind == "f"
    }
    agent.learner.set_state({**state, **{key: values.astype(np.float32) for key, values in moved.items()}})
    obs = observations(Locks.observation_space)
    action = exported_actions(agent, tmp_path / "policy.file", kind, obs)
    wanted = np.stack([agent.predict(one)[0] for one in obs])
    assert len(np.unique(wanted.reshape(NUM, -1), axis=0)) > 3, "a policy that always answers the same proves little"
    assert action.dtype == np.int64
    np.testing.assert_array_equal(action, wanted)


@pytest.mark.parametrize(("package", "kind"), FORMATS)
def test_numbers_that_are_whole_are_exported_as_such(package: str, kind: str, tmp_path: Path) -> None:
    levers = spaces.Box(np.array([-3, 0]), np.array([9, 40]), dtype=np.int32)
    agent = FRAMEWORKS[package].agents.DDPG(env=partial(Locks, levers), hidden_size=8)
    obs = observations(Locks.observation_space)
    action = exported_actions(agent, tmp_path / "policy.file", kind, obs)
    wanted = np.stack([agent.predict(one)[0] for one in obs])
    assert (action.dtype, wanted.dtype) == (np.int64, np.int32)
    assert len(np.unique(wanted, axis=0)) > 3
    assert all(levers.contains(one) for one in wanted)
    np.testing.assert_array_equal(action, wanted)


class OwnChoice(NoisyPolicy):
    def greedy(self, scores):
        return -super().greedy(scores)


def test_a_policy_is_known_by_how_it_chooses() -> None:
    from note_rl.learners.policy_function import greedy_rule

    assert greedy_rule(SoftmaxPolicy(), spaces.Discrete(3, start=5)).first == 5
    box = spaces.Box(-1.0, 1.0, (2,), np.float32)
    assert greedy_rule(NoisyPolicy(), box).kind == "clip"
    with pytest.raises(SettingsError, match="OwnChoice chooses for Box"):
        greedy_rule(OwnChoice(), box)


def test_an_export_takes_only_actions_that_the_environment_allows(tmp_path: Path) -> None:
    keras = frameworks()[-1].values[0]
    policy = keras.agents.DQN(env=Guarded).export(tmp_path / "policy", "saved_model")
    assert (tmp_path / "policy" / "saved_model.pb").is_file()
    assert "the highest score among the allowed" in policy.about["action_mask"]


def test_what_cannot_be_exported_is_said_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf
    import torch

    keras, torch_ = (one.values[0] for one in reversed(frameworks()))
    for framework, other in ((keras, "torch"), (torch_, "saved_model")):
        with pytest.raises(SettingsError, match=f"format={other}: the policy of an agent in .* is written as onnx or"):
            framework.agents.DQN().export(tmp_path / "policy", other)
    with pytest.raises(SettingsError, match="format must be one of"):
        keras.agents.DQN().export(tmp_path / "policy", "pickle")

    class Sorting(keras.agents.DQN):
        def action(self, s):
            return tf.sort(super().action(s))

    with pytest.raises(AgentContractError, match=r"Sorting cannot be written as onnx.*operation TopKV2 has no count"):
        Sorting().export(tmp_path / "policy.onnx")

    class Branching(torch_.agents.DQN):
        def action(self, s):
            return super().action(s) if float(s.sum()) > 0 else -super().action(s)

    with pytest.raises(AgentContractError, match="Branching cannot be written as torch: it must consist of tensor op"):
        Branching().export(tmp_path / "policy.pt2", "torch")

    class Rolling(torch_.agents.DQN):
        def action(self, s):
            return super().action(s) + torch.rand(2)

    (tmp_path / "policy.pt2").write_text("of yesterday")
    with pytest.raises(NoteRLError, match="does not answer as the agent does, so it was not kept"):
        Rolling().export(tmp_path / "policy.pt2", "torch")
    assert (tmp_path / "policy.pt2").read_text() == "of yesterday"
    (tmp_path / "mine").mkdir()
    with pytest.raises(SettingsError, match="mine is there already and no SavedModel"):
        keras.agents.DQN().export(tmp_path / "mine", "saved_model")
    with pytest.raises(NoteRLError, match=r"cannot write .*nowhere/policy"):
        keras.agents.DQN().export(tmp_path / "nowhere" / "policy.onnx")
    assert {path.name for path in tmp_path.iterdir()} == {"mine", "policy.pt2"}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        SettingsError, match=r"format=onnx needs onnx, which is not installed: pip install 'note-rl\[exp"
    ):
        keras.agents.DQN().export(tmp_path / "policy.onnx")


def test_slices_are_written_as_tensorflow_means_them() -> None:
    """Not all of what indices can say occurs in our networks."""
    import tensorflow as tf
    from onnx.reference import ReferenceEvaluator

    from note_rl.learners.keras.onnx_graph import model_of

    x = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)

    def cut(x):
        return tf.concat([tf.reshape(part, (-1,)) for part in parts(x)], 0), x

    def parts(x):
        return x[:, 0], x[..., -1], x[:, 1:, None, ::-1, 2], x[1, ..., None], x[:, -2:-1, 3:0:-2], x[..., None, :, 0]

    traced = tf.function(cut, input_signature=[tf.TensorSpec((None, 3, 4, 5), tf.float32)]).get_concrete_function()
    found, _ = ReferenceEvaluator(model_of(traced, ["x"], ["parts", "all"])).run(None, {"x": x})
    np.testing.assert_array_equal(found, np.concatenate([part.ravel() for part in parts(x)]))
