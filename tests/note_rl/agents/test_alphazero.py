"""AlphaZero: its loss and its search by hand, when it explores, and what it refuses."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from note_rl.agents.alphazero import Guidance
from note_rl.environments import EnvFactory
from note_rl.errors import AgentContractError, EnvironmentMismatchError, SettingsError
from note_rl.learners.numpy_policy import NumpyPolicy, dense_layers_of
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.settings.schedules import Linear
from note_rl.tree_search import StateSimulator, TreeSearch, visit_probabilities
from tests.note_rl.frameworks import Framework, frameworks
from tests.note_rl.learners.step_graph.recorded_agents import assert_same_state, built_in, learner_of, minibatches

BOTH = pytest.mark.parametrize("framework", frameworks())
OBS = np.random.default_rng(0).uniform(-0.2, 0.2, (5, 4)).astype(np.float32)


def made(framework, **options):
    kind = framework.agents.AlphaZero  # imports the framework, which is then seeded
    seed_everything(0)
    return kind(**{"hidden_size": (8,), "num_simulations": 8, **options})


def tensor(framework, values):
    if framework.package == "pytorch":
        import torch

        return torch.from_numpy(np.asarray(values))
    import tensorflow as tf

    return tf.constant(values)


def evaluated(agent, obs):
    """Policy and value in NumPy."""
    policy, value = (
        NumpyPolicy(lambda read=read: read) for read in (agent.acting_layers(), dense_layers_of(agent.critic))
    )
    return policy(obs), value(obs)[:, 0] / (1 - agent.gamma)


def loss_of(framework, agent, behaviour, return_, mask=None):
    columns = {"behaviour": behaviour, "return_": return_, "action_mask": mask}
    for name, values in columns.items():
        setattr(agent, name, None if values is None else tensor(framework, np.asarray(values, np.float32)))
    empty = tensor(framework, np.zeros(len(OBS), np.float32))
    return framework.array(agent(tensor(framework, OBS), empty, tensor(framework, OBS), empty, empty))


@BOTH
def test_the_loss_is_a_cross_entropy_and_a_squared_error(framework):
    """-sum pi log p + 0.25 * ((value - return) / 10)^2: a reward of 1 in each step is worth 10."""
    agent = made(framework, value_coef=0.25, gamma=0.9)
    rng = np.random.default_rng(1)
    pi, return_ = rng.dirichlet(np.ones(2), 5), 10 * rng.normal(size=5)
    p, value = evaluated(agent, OBS)
    expected = [
        -pi[i, 0] * np.log(p[i, 0]) - pi[i, 1] * np.log(p[i, 1]) + 0.0025 * (value[i] - return_[i]) ** 2
        for i in range(5)
    ]
    np.testing.assert_allclose(loss_of(framework, agent, pi, return_), expected, rtol=1e-4)


@BOTH
def test_actions_that_are_not_allowed_have_no_part_in_the_loss(framework):
    """With one action left its probability is 1, whatever the network says: the cross-entropy is 0."""
    agent = made(framework, value_coef=0.0)
    found = loss_of(framework, agent, np.tile([0.0, 1.0], (5, 1)), np.zeros(5), np.tile([0.0, 1.0], (5, 1)))
    np.testing.assert_allclose(found, np.zeros(5), atol=1e-6)


@BOTH
def test_it_answers_with_the_visits_of_a_search_by_its_own_networks(framework):
    agent = made(framework, gamma=0.9, c_puct=2.0, temperature=0.5, num_simulations=12)
    search = TreeSearch(agent.simulator, num_simulations=12, discount=0.9, c_puct=2.0)
    expected = visit_probabilities(search(OBS, lambda obs: evaluated(agent, obs)).root_visits, 0.5)
    np.testing.assert_allclose(agent.learner.act(OBS), expected)
    np.testing.assert_allclose(np.sort(expected), [[0.1, 0.9]] * 5, rtol=1e-6)  # 3 and 9 visits, squared


@pytest.mark.slow_in_keras
@BOTH
def test_a_discount_may_change_while_it_is_trained(framework):
    """The unit of values stays that of the discount at the beginning, in steps and where the search reads them."""
    agent = made(framework, gamma=0.9, value_coef=0.0, num_simulations=2)
    before = agent.learner.value(OBS)
    schedules = {"gamma": Linear(0.9, 0.99, 1.0)}
    agent.set(policy=SoftmaxPolicy(), rollout_steps=8, batch=8, num_epochs=1, num_envs=1, seed=0, schedules=schedules)
    agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-3), total_steps=64, p=0, jit_compile=False)
    assert agent.gamma == pytest.approx(0.98, abs=0.011)
    np.testing.assert_allclose(agent.learner.value(OBS), before)


@BOTH
def test_networks_that_are_not_dense_guide_the_search_by_the_framework(framework, monkeypatch):
    agent = made(framework)
    expected = agent.learner.act(OBS)
    calls = []
    by_framework = agent._guide
    monkeypatch.setattr(agent, "_guide", lambda obs: calls.append(len(obs)) or by_framework(obs))
    monkeypatch.setattr(agent, "acting_layers", lambda: None)
    np.testing.assert_allclose(agent.learner.act(OBS), expected)
    assert calls == [5] * 9  # the roots, and eight simulations


def test_networks_are_evaluated_in_numpy_while_that_gives_the_same():
    layers = [(np.eye(2, dtype=np.float32), np.zeros(2, np.float32), "linear")]
    obs = np.ones((1, 2), np.float32)
    calls = []

    def by_framework(obs):
        calls.append(obs)
        return (obs, obs[:, 0]) if len(calls) < 3 else (obs + 1, obs[:, 0])

    guidance = Guidance()
    evaluators = [guidance(layers, layers, 1.0, by_framework, obs) for _ in range(5)]
    assert [one is by_framework for one in evaluators] == [False, False, False, True, True]
    assert len(calls) == 3  # in the first use, the second and the fourth
    assert Guidance()(layers, layers, 1.0, by_framework, obs.astype(np.uint8)) is by_framework


def test_recorded_gradient_steps_are_the_eager_ones():
    recorded, plain = (learner_of(built_in("AlphaZero"), jit) for jit in ("auto", False))
    before = Framework("pytorch").parameters(plain.agent)
    for seed in range(2):
        batch = minibatches("AlphaZero", seed=seed)
        found, expected = recorded.update(batch, {}), plain.update(batch, {})
        np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-5, atol=1e-6)
    assert (recorded.num_traces, plain.num_traces) == (1, 0)
    assert recorded.step_way().way == "replayed"
    assert_same_state(recorded, plain, rtol=1e-5, atol=1e-6)
    assert all(
        (new != old).any() for new, old in zip(Framework("pytorch").parameters(plain.agent), before, strict=True)
    )


def noted(framework, monkeypatch):
    """Whether each search had a generator of noise."""
    module = framework.module("alphazero")
    notes, plain = [], module.searched
    monkeypatch.setattr(
        module, "searched", lambda agent, obs, evaluate: notes.append(agent.exploration) or plain(agent, obs, evaluate)
    )
    return notes


@pytest.mark.slow_in_keras
@BOTH
def test_there_is_noise_while_steps_are_collected_and_not_otherwise(framework, monkeypatch):
    notes = noted(framework, monkeypatch)
    agent = made(framework, env=EnvFactory("CartPole-v1", max_episode_steps=6))
    agent.set(policy=SoftmaxPolicy(), rollout_steps=8, batch=16, num_epochs=1, num_envs=2, seed=0)
    agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-3), total_steps=16, p=0, jit_compile=False)
    assert len(notes) == 8
    assert all(isinstance(one, np.random.Generator) for one in notes)
    notes.clear()
    agent.evaluate(2)
    agent.predict(OBS[0])
    assert len(notes) == 7
    assert notes == [None] * 7
    assert agent.exploration is None
    notes.clear()
    agent.predict(OBS[0], deterministic=False)  # as at the end of training
    assert [type(one) for one in notes] == [np.random.Generator]


@pytest.mark.slow_in_keras
@BOTH
def test_it_learns_what_the_search_says_and_the_return_behind_a_time_limit(framework):
    """With a discount of 0.5 and rewards of 1, a value is 2, also where a limit of 4 steps ends an episode."""
    agent = made(framework, gamma=0.5, num_simulations=2, env=EnvFactory("CartPole-v1", max_episode_steps=4))
    agent.set(policy=SoftmaxPolicy(), rollout_steps=8, batch=32, num_epochs=10, num_envs=4, seed=0)
    agent.train(optimizer=framework.optimizers.adam(agent.param, 3e-2), total_steps=320, p=0, jit_compile=False)
    np.testing.assert_allclose(agent.learner.value(0.2 * OBS), np.full(5, 2.0), atol=0.2)


def test_it_is_trained_by_worker_processes():
    framework = Framework("pytorch")
    agent = made(framework, num_simulations=2)
    agent.set(policy=SoftmaxPolicy(), rollout_steps=8, batch=16, num_epochs=1, num_envs=4, seed=0)
    before = framework.parameters(agent)
    options = {"pool_network": True, "processes": 2, "p": 0}
    result = agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-3), total_steps=64, **options)
    assert result.num_gradient_steps == 4
    assert all((new != old).any() for new, old in zip(framework.parameters(agent), before, strict=True))


class Sides(gymnasium.Env):
    """A walk on a line, whose place is its state, from action 1 on."""

    observation_space = spaces.Box(-9.0, 9.0, (1,), np.float32)
    action_space = spaces.Discrete(3, start=1)
    state = np.zeros(1)

    def reset(self, *, seed=None, options=None):
        self.state = np.zeros(1)
        return self.state.astype(np.float32), {}

    def step(self, action):
        self.state = np.asarray(self.state) + (action - 2)
        return self.state.astype(np.float32), float(action == 3), False, False, {}


@BOTH
def test_a_simulator_of_the_user_is_searched_in(framework):
    """Action 2 of 0, 1, 2 is the one with a reward; its number in the environment is 3."""
    agent = made(framework, env=Sides, simulator=StateSimulator, num_simulations=30, gamma=0.0, c_puct=0.5)
    answers = agent.learner.act(np.zeros((2, 1), np.float32))
    assert answers.argmax(axis=1).tolist() == [2, 2]
    assert agent.predict(np.zeros(1, np.float32))[0] == 3


@BOTH
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"env": "MountainCar-v0"},
            EnvironmentMismatchError,
            "AlphaZero searches in a simulator, and MountainCarEnv has",
        ),
        ({"num_simulations": 0}, SettingsError, "num_simulations must be at least 1, got 0"),
        ({"noise_fraction": 1.5}, SettingsError, "noise_fraction must lie between 0 and 1, got 1.5"),
        ({"temperature": -1}, SettingsError, "temperature must be at least 0, got -1"),
        ({"frame_stack": 2}, SettingsError, "has no argument 'frame_stack'"),
    ],
)
def test_what_it_is_not_made_with(framework, options, error, message):
    with pytest.raises(error, match=message):
        made(framework, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalise_obs": True}, "as the environment gives them: .*normalise_obs"),
        ({"normalise_reward": True}, "as the environment gives them: .*normalise_reward"),
        ({"policy": EpsGreedyQPolicy(0.1)}, "AlphaZero"),
    ],
)
def test_what_it_is_not_trained_with(options, message):
    framework = Framework("pytorch")
    agent = made(framework)
    agent.set(**{"policy": SoftmaxPolicy(), **options})
    with pytest.raises(AgentContractError, match=message):
        agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-3), total_steps=16, p=0)


def test_it_is_shown_one_frame():
    agent = made(Framework("pytorch"))
    agent.set(policy=SoftmaxPolicy(), frame_stack=1)
    with pytest.raises(SettingsError, match=r"^frame_stack=2, but .* AlphaZero take one frame: leave frame_stack out$"):
        agent.set(policy=SoftmaxPolicy(), frame_stack=2)


@BOTH
def test_masks_of_actions_are_refused(framework):
    agent = made(framework)
    agent.set(policy=SoftmaxPolicy())
    message = "^AlphaZero searches through all actions, and a mask allows only some of them"
    for deterministic in (True, False):
        with pytest.raises(EnvironmentMismatchError, match=message):
            agent.predict(OBS[0], deterministic=deterministic, action_masks=np.array([True, False]))


@BOTH
def test_another_environment_is_for_another_agent(framework):
    """The simulator is that of the first one; the same one may be set again."""
    agent = made(framework, env="CartPole-v1")
    agent.env = agent.env
    with pytest.raises(EnvironmentMismatchError, match="the environment that it was made with: make another agent"):
        agent.env = EnvFactory("CartPole-v1", max_episode_steps=6)
    assert agent.env == "CartPole-v1"


@BOTH
def test_a_search_is_not_exported(framework, tmp_path):
    message = "^AlphaZero chooses by a search in a simulator, which is no function of tensors"
    for file_format in ("onnx", {"pytorch": "saved_model", "keras": "torch"}[framework.package]):
        with pytest.raises(SettingsError, match=message):  # no other format helps
            made(framework).export(tmp_path / "policy", file_format)
    assert not list(tmp_path.iterdir())


@BOTH
def test_the_manuals_agent_has_their_arguments_and_names(framework):
    import importlib

    package = f"note_rl.examples.{framework.package}"
    alone = importlib.import_module(f"{package}.AlphaZeroCartPole").AlphaZeroCartPole("CartPole-v1", num_simulations=3)
    side_by_side = importlib.import_module(f"{package}.pool_network.AlphaZeroCartPole").AlphaZeroCartPole
    pool = side_by_side(3, temperature=0.5)
    with pytest.raises(
        SettingsError, match="processes must be a whole number, got 'CartPole-v1': name the environment"
    ):
        side_by_side("CartPole-v1")
    assert (alone.env, alone.num_simulations, alone.mcts_temp) == ("CartPole-v1", 3, 1.0)
    assert (len(pool.env), pool.mcts_temp) == (3, 0.5)
    pool.mcts_temp = 0.25
    assert pool.temperature == 0.25
    with pytest.raises(SettingsError, match="mcts_temp must be at least 0, got -1"):
        pool.mcts_temp = -1
