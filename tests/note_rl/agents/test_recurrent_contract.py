"""An agent with a state of its own: right rows, reset where episodes begin, wherever it acts."""

from functools import partial

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorWrapper

from note_rl.collect.collector import Collector
from note_rl.collect.policy_runner import PolicyRunner
from note_rl.environments import training_environments
from note_rl.errors import AgentContractError, SettingsError
from note_rl.policy import GreedyQPolicy
from note_rl.training.callbacks import LambdaCallback
from note_rl.training.checkpoint import read_checkpoint
from tests.note_rl.exported_policies import exported
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting

LENGTHS = (3, 4, 6)
BEGIN = 2.0


def summing(framework, env, **methods):
    """Sums what it has seen in an episode, from 2 on, and takes action 1 where the sum is odd."""

    class Summing(framework.base()):
        def __init__(self):
            super().__init__()
            self.env = env
            self.weight = framework.variable([1.0])
            self.param = [self.weight]
            self.states = []

        def initial_state(self, num_envs):
            return {"sum": np.full((num_envs, 1), BEGIN, np.float32), "steps": np.zeros(num_envs, np.int32)}

        def action(self, s, state):
            self.states.append({name: framework.array(values) for name, values in state.items()})
            total = state["sum"] + s[:, :1] + 1
            odd = total % 2
            return joined(framework, 1 - odd, odd * self.weight), {"sum": total, "steps": state["steps"] + 1}

        def __call__(self, s, a, next_s, r, d):
            return framework.mean((self.weight - 1.0) ** 2)

    for name, method in methods.items():
        setattr(Summing, name, method)
    return Summing()


def joined(framework, *columns):
    if framework.package == "pytorch":
        import torch

        return torch.cat(columns, 1)
    import tensorflow as tf

    return tf.concat(columns, 1)


def naive_actions(seen, ended):
    """Of one environment, [T]: the first number that each observation shows, and where episodes end."""
    total, actions = BEGIN, []
    for number, over in zip(seen, ended, strict=True):
        total += number + 1
        actions.append(int(total % 2))
        if over:
            total = BEGIN
    return actions


def train(framework, agent, total_steps, callbacks=(), **options):
    optimizer = None if agent.optimizer is not None else framework.optimizers.adam(agent.param, 1e-3)
    return agent.train(optimizer=optimizer, total_steps=total_steps, callbacks=list(callbacks), p=0, **options)


def with_settings(agent, **settings):
    agent.set(policy=GreedyQPolicy(), batch=4, num_updates=1, pool_size=300, seed=1, train_freq=24, **settings)
    return agent


def assert_acted_by_its_state(obs, action, ended):
    """Of steps [T, E]."""
    for env in range(obs.shape[1]):
        assert action[:, env].tolist() == naive_actions(obs[:, env, 0], ended[:, env]), env
    assert {0, 1} == set(action.ravel().tolist())


def assert_pool_acted_by_its_state(agent, num_envs):
    pool = agent._trainer.experience.get_state()
    obs, action, ended = (
        pool[name].reshape(-1, num_envs, *pool[name].shape[1:]) for name in ("obs", "action", "ended")
    )
    assert_acted_by_its_state(obs, action, ended)
    return action


def collect(agent, env, num_envs, *lengths):
    """Steps [T, E] from one call for each of these lengths, as training collects them."""
    envs = training_environments(env, num_envs, seed=4)
    collector = Collector(envs, GreedyQPolicy(), np.random.default_rng(0))
    act = PolicyRunner(agent.learner, agent.obs_normaliser)
    parts = [collector.collect(act, length)[0] for length in lengths]
    return [np.concatenate([getattr(part, name) for part in parts]) for name in ("obs", "action", "ended")]


@pytest.mark.parametrize("framework", frameworks())
def test_several_environments_in_this_process(framework):
    agent = summing(framework, [partial(Counting, length) for length in LENGTHS])
    obs, action, ended = collect(agent, agent.env, None, 7, 1, 40)
    assert_acted_by_its_state(obs, action, ended)
    assert ended.sum(0).tolist() == [48 // length for length in LENGTHS]
    assert max(state["steps"].max() for state in agent.states) == max(LENGTHS) - 1


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
@pytest.mark.parametrize("as_it_is", [True, False])
def test_every_autoreset_mode_of_a_vector_environment(mode, as_it_is):
    (framework,) = frameworks()[0].values
    vector = SyncVectorEnv([partial(Counting, length) for length in LENGTHS], autoreset_mode=mode)
    vector = vector if as_it_is else VectorWrapper(vector)
    obs, action, ended = collect(summing(framework, vector), vector, None, 7, 1, 40)
    assert_acted_by_its_state(obs, action, ended)
    assert (ended.sum(0) >= 6).all()


@pytest.mark.parametrize("framework", frameworks()[:1])  # in turn it acts as it does here, which both are asked above
def test_worker_processes(framework, tmp_path):
    agent = with_settings(summing(framework, Counting), num_envs=3)
    train(framework, agent, 72, pool_network=True, processes=2, parallel_store_and_training=False)
    assert_pool_acted_by_its_state(agent, 3)
    agent.save(tmp_path / "a")
    arrays, _ = read_checkpoint(tmp_path / "a")
    kept = [arrays[f"trainer/collector/worker/{worker}/recurrent/sum"].shape for worker in range(2)]
    assert kept == [(2, 1), (1, 1)]


@pytest.mark.parametrize("framework", frameworks())
def test_evaluations_reset_each_environment_by_itself(framework):
    agent = with_settings(summing(framework, partial(Counting, 4)))
    evaluation = agent.evaluate(5)
    assert evaluation.lengths.tolist() == [4] * 5
    assert [state["steps"].tolist() for state in agent.states] == [[number % 4] * 5 for number in range(4)]
    assert [state["sum"][0, 0] for state in agent.states] == [2, 3, 5, 8]


def dtypes(state):
    return {name: values.dtype for name, values in state.items()}


@pytest.mark.parametrize("framework", frameworks())
def test_predict_gives_the_state_back_to_its_caller(framework):
    agent = with_settings(summing(framework, Counting))
    obs = np.array([[0.0, 7.0], [4.0, 7.0]], np.float32)
    actions, state = agent.predict(obs)
    assert actions.tolist() == [1, 1]  # 2 + 0 + 1, 2 + 4 + 1
    assert {name: values.tolist() for name, values in state.items()} == {"sum": [[3.0], [7.0]], "steps": [1, 1]}
    actions, state = agent.predict(obs, state)
    assert state["sum"].tolist() == [[4.0], [12.0]]
    plain = {name: values.tolist() for name, values in state.items()}  # as it comes back from JSON
    assert dtypes(agent.predict(obs, plain)[1]) == dtypes(state)
    _, state = agent.predict(obs, state, episode_start=[False, True])
    assert (state["sum"].tolist(), state["steps"].tolist()) == ([[5.0], [7.0]], [3, 1])
    _, anew = agent.predict(obs)
    assert anew["steps"].tolist() == [1, 1]
    action, one = agent.predict(obs[0], deterministic=False)
    assert (int(action), one["sum"].tolist()) == (1, [[3.0]])
    with pytest.raises(SettingsError, match=r"for 1 observations, {sum: \[1, 1\], steps: \[1\]}.*got {sum: \[2, 1\]"):
        agent.predict(obs[0], state)


def test_a_stateless_agent_has_none():
    from note_rl.agents.pytorch import DQN

    agent = DQN(hidden_size=4)
    assert agent.predict(np.zeros(4, np.float32), state={"anything": 1})[1] is None
    assert agent.learner.act(np.zeros((2, 4), np.float32), None, np.ones(2, bool)).shape == (2, 2)


@pytest.mark.parametrize("framework", frameworks())
def test_a_resumed_run_goes_on_within_episodes(framework, tmp_path):
    def made():
        return with_settings(summing(framework, [partial(Counting, length) for length in (5, 7)]), learning_starts=1000)

    whole, first, second = made(), made(), made()
    stop = LambdaCallback(on_phase_end=lambda phase, logs: setattr(first, "stop_training", True))
    train(framework, whole, 72)
    train(framework, first, 72, [stop])
    first.save(tmp_path / "a")
    arrays, _ = read_checkpoint(tmp_path / "a")
    assert arrays["trainer/collector/recurrent/steps"].tolist() == [12 % 5, 12 % 7]
    second.restore(tmp_path / "a")
    train(framework, second, 72)
    np.testing.assert_array_equal(assert_pool_acted_by_its_state(second, 2), assert_pool_acted_by_its_state(whole, 2))


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"action": lambda self, s: s}, r"action takes \(s\), but is called with \(s, state\)"),
        ({"action": lambda self, s, state: s}, "must return a pair, its answers and the next state by name"),
        (
            {"action": lambda self, s, state: (s, {"sum": state["sum"]})},
            r"returned the state {sum: \[\d, 1\]} behind one of {sum: \[\d, 1\], steps: \[\d\]}: both must be alike",
        ),
        ({"initial_state": lambda self, num: {"sum": np.zeros(7)}}, r"must give arrays with \d rows by name"),
    ],
)
def test_what_breaks_the_contract_is_refused_in_words(methods, message):
    (framework,) = frameworks()[0].values
    agent = with_settings(summing(framework, Counting, **methods))
    with pytest.raises(AgentContractError, match=message):
        agent.evaluate(1)


@pytest.mark.parametrize("framework", frameworks())
def test_a_policy_is_exported_with_its_state_in_rows_of_single_precision(framework, tmp_path):
    def action(self, s, state):
        total = state["sum"] + s[:, :1]
        return joined(framework, 5 - total, total * self.weight), {"sum": total, "steps": state["steps"] + 1}

    agent = with_settings(summing(framework, Counting, action=action))
    run = exported(agent, tmp_path)
    obs, junk = np.array([[1.0, 7.0], [4.0, 7.0]], np.float32), np.full((2, 1), 9.0, np.float32)
    given = run({"observation": obs, "sum": junk, "steps": junk, "episode_start": np.array([True, False])})
    assert (given["next_sum"].tolist(), given["next_steps"].tolist()) == ([[3.0], [13.0]], [[1.0], [10.0]])
    assert given["scores"].tolist() == [[2.0, 3.0], [-8.0, 13.0]]
    assert {given[name].dtype.name for name in ("next_sum", "next_steps")} == {"float32"}


def test_a_state_that_has_the_name_of_another_input_is_not_exported(tmp_path):
    (framework,) = frameworks()[0].values
    named = {"initial_state": lambda self, num: {"scores": np.zeros((num, 1), np.float32)}}
    agent = with_settings(summing(framework, Counting, **named, action=lambda self, s, state: (s, dict(state))))
    with pytest.raises(AgentContractError, match="an array called scores, and an exported policy has scores already"):
        agent.export(tmp_path / "a.onnx")
    assert not list(tmp_path.iterdir())
