"""PPO and A2C with a memory: they learn from what they did, wherever they acted; and what does not go with it."""

import re
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorWrapper

from note_rl.collect.collector import Collector
from note_rl.collect.policy_runner import PolicyRunner
from note_rl.environments import training_environments
from note_rl.errors import AgentContractError, SettingsError
from note_rl.policy import GSDEPolicy, SoftmaxPolicy
from note_rl.replay.experience.experience_factory import agent_view
from note_rl.replay.whole_sequences import SequencedRollout
from note_rl.settings import GSDE, Adaptive
from note_rl.training.callbacks import LambdaCallback
from note_rl.types import STATE_BEFORE
from tests.note_rl.frameworks import Framework, frameworks
from tests.note_rl.small_environments import Counting

BOTH = pytest.mark.parametrize("framework", frameworks())
LENGTHS = (3, 4, 6)
SETTINGS = {"policy": SoftmaxPolicy(), "PPO": True, "rollout_steps": 8, "batch": 16, "num_envs": 2, "seed": 1}
SMALL = {"units": 3, "hidden_sizes": (4,)}


def network(framework, **settings):
    return partial(framework.module("shared/recurrent").recurrent_network, **{**SMALL, **settings})


def made(framework, env, kind="PPO", numbers=None, **memory):
    agent = getattr(framework.agents, kind)(env=env, network=network(framework, **memory), **(numbers or {}))
    spread(framework, agent)
    return agent


def spread(framework, agent):
    """Other weights than those at the start, with which all actions are nearly as likely."""
    rng = np.random.default_rng(5)
    for parameter in [one for group in agent.param for one in group]:
        values = rng.normal(0.0, 0.5, tuple(parameter.shape)).astype(np.float32)
        if framework.package == "pytorch":
            import torch

            parameter.data.copy_(torch.from_numpy(values))
        else:
            parameter.assign(values)


def ready(agent, **settings):
    agent.set(**{**SETTINGS, **settings})
    return agent


def train(framework, agent, total_steps, callbacks=(), **options):
    optimizer = framework.optimizers.adam(agent.param, 1e-2) if agent.optimizer is None else None
    return agent.train(optimizer=optimizer, total_steps=total_steps, callbacks=list(callbacks), p=0, **options)


def collect(agent, env, num_envs, num_steps):
    envs = training_environments(env, num_envs, seed=4)
    collector = Collector(envs, SoftmaxPolicy(), np.random.default_rng(0), reads=type(agent).batch_attributes)
    act = PolicyRunner(agent.learner, agent.obs_normaliser)
    collector.collect(act, 5)  # so that the rollout begins within episodes
    return collector.collect(act, num_steps)[0]


def one_by_one(agent, steps):
    """Probabilities and values [T, E] of an agent that steps through each environment, from the first stored state."""
    shares, values, following = np.zeros(steps.ended.shape), np.zeros(steps.ended.shape), np.zeros(steps.ended.shape)
    zeros = agent.initial_state(1)
    for env in range(steps.ended.shape[1]):
        first = np.split(steps.extras[STATE_BEFORE][0, env], len(zeros))
        state = {name: part[None] for name, part in zip(sorted(zeros), first, strict=True)}
        for t in range(len(steps.ended)):
            answers, after = agent.learner._evaluate_from("action", steps.obs[t, env][None], state)
            shares[t, env] = answers[0, steps.action[t, env]]
            values[t, env] = agent.learner.value_from(steps.obs[t, env][None], state)[0][0]
            following[t, env] = agent.learner.value_from(steps.next_obs[t, env][None], after)[0][0]
            state = zeros if steps.ended[t, env] else after
    return np.log(shares), values, following


def in_a_loss(framework, agent, sample):
    """Log-probabilities and values of the first minibatch, as the loss has them."""
    if framework.package == "pytorch":
        import torch

        as_tensor = torch.from_numpy
    else:
        import tensorflow as tf

        as_tensor = tf.constant
    agent.state_before = as_tensor(sample.extras["state_before"][0])
    agent.episode_start = as_tensor(sample.extras["episode_start"][0])
    log_prob, _, value = agent.log_prob_entropy_and_value(as_tensor(sample.obs[0]), as_tensor(sample.action[0]))
    return framework.array(log_prob), framework.array(value)


def assert_sequences_are_what_was_done(framework, agent, steps, length=4):
    """The passes over sequences against steps one by one, and against what was stored."""
    rollout = SequencedRollout(steps, 0.9, None, length)
    view = agent_view(agent, agent.learner, agent._settings or ready(agent).settings, None, None)
    log_prob, values, following = one_by_one(agent, steps)
    np.testing.assert_allclose(log_prob, steps.log_prob, atol=1e-6)
    np.testing.assert_allclose(rollout._values(view.value_from)[0].reshape(values.shape), values, atol=1e-6)
    np.testing.assert_allclose(rollout._values(view.value_from)[1].reshape(values.shape), following, atol=1e-6)
    sample = rollout.sample(1, len(rollout), np.random.default_rng(0))
    found, judged = in_a_loss(framework, agent, sample)
    np.testing.assert_allclose(found, sample.extras["log_prob_old"][0], atol=1e-6)
    np.testing.assert_allclose(judged, values.ravel()[sample.slots[0]], atol=1e-6)


@pytest.mark.slow_in_keras(True)
@BOTH
@pytest.mark.parametrize(("cell", "shared"), [("lstm", False), ("gru", False), ("lstm", True)])
def test_sequences_give_what_steps_one_by_one_give(framework, cell, shared):
    agent = made(framework, [partial(Counting, length) for length in LENGTHS], cell=cell, shared=shared)
    steps = collect(agent, agent.env, None, 16)
    assert (steps.ended.sum(0) > 1).all()
    assert_sequences_are_what_was_done(framework, agent, steps)


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
@pytest.mark.parametrize("by_time", [False, True])
@pytest.mark.parametrize("as_it_is", [True, False])
def test_every_autoreset_mode(mode, by_time, as_it_is):
    """Behind a wrapper it takes no seeds, so the steps that NEXT_STEP spends on resets are run."""
    (framework,) = frameworks()[0].values
    vector = SyncVectorEnv([partial(Counting, length, by_time) for length in LENGTHS], autoreset_mode=mode)
    vector = vector if as_it_is else VectorWrapper(vector)
    agent = made(framework, partial(Counting, 3))
    steps = collect(agent, vector, None, 16)
    assert (steps.ended.sum(0) > 1).all()
    assert steps.terminated.any() is np.bool_(not by_time)
    assert_sequences_are_what_was_done(framework, agent, steps)


def test_a_border_of_one_environment_leaves_the_states_of_the_others():
    (framework,) = frameworks()[0].values
    agent = made(framework, [partial(Counting, length) for length in LENGTHS])
    steps = collect(agent, agent.env, None, 16)
    states = steps.extras[STATE_BEFORE]
    begins = np.concatenate([np.zeros((1, 3), bool), steps.ended[:-1]])
    assert (begins.any(1) & ~begins.all(1)).sum() > 2
    assert (states[begins] == 0.0).all()
    assert (np.abs(states[1:][~begins[1:]]).min(-1) > 0.0).all()


@BOTH
@pytest.mark.parametrize("kind", ["PPO", "A2C"])
def test_the_first_gradient_step_is_on_the_policy_that_acted(framework, kind):
    """One pass over whole rollouts, some of which begin within episodes."""
    seen = []
    agent = ready(made(framework, Counting, kind), batch="rollout", num_epochs=1, num_envs=3)
    note = LambdaCallback(on_phase_end=lambda phase, logs: seen.append(dict(agent.reported)))
    train(framework, agent, 96, [note])
    assert len(seen) == 4
    if kind == "PPO":
        assert max(one["approx_kl"] for one in seen) < 1e-9
        assert all(one["clip_fraction"] == 0.0 for one in seen)
    assert all(np.isfinite(one["value_loss"]) for one in seen)


@BOTH
def test_gsde_takes_its_features_from_behind_the_memory(framework):
    agent = framework.agents.PPO(env="Pendulum-v1", network=network(framework, head_sizes=(5,)), gsde=GSDE())
    assert tuple(agent.log_std.shape) == (5, 1)
    ready(agent, policy=GSDEPolicy(), batch="rollout", num_epochs=1)
    train(framework, agent, 16)
    assert agent.reported["approx_kl"] < 1e-7


@pytest.mark.parametrize("overlapping", [pytest.param(False, marks=pytest.mark.slow), True])
def test_worker_processes_send_the_states_with_the_steps(overlapping):
    (framework,) = frameworks()[0].values
    agent = ready(made(framework, Counting), batch="rollout", num_epochs=1, num_envs=3)
    train(framework, agent, 48, pool_network=True, processes=2, parallel_store_and_training=overlapping)
    assert agent.reported["approx_kl"] < (1e-9 if not overlapping else 0.1)
    assert agent.reported["approx_kl"] > 1e-12 or not overlapping


@pytest.mark.slow_in_keras("A2C", "gru")  # both cells have one state, as it is stored
@BOTH
@pytest.mark.parametrize(("kind", "cell"), [("PPO", "lstm"), ("PPO", "gru"), ("A2C", "gru")])
def test_a_run_resumed_within_episodes_is_the_undisturbed_one(framework, kind, cell, tmp_path):
    def prepared():
        env = [partial(gymnasium.make, "CartPole-v1") for _ in range(2)]
        return ready(made(framework, env, kind, cell=cell), num_epochs=2, num_envs=None)

    whole, first, second = prepared(), prepared(), prepared()
    stop = LambdaCallback(on_phase_end=lambda phase, logs: setattr(first, "stop_training", phase == 2))
    train(framework, whole, 64)
    train(framework, first, 64, [stop])
    assert first.num_env_steps == 32
    first.save(tmp_path / "a")
    second.restore(tmp_path / "a")
    train(framework, second, 64)
    for mine, other in zip(framework.parameters(second), framework.parameters(whole), strict=True):
        np.testing.assert_array_equal(mine, other)
    assert any((a != b).any() for a, b in zip(framework.parameters(first), framework.parameters(whole), strict=True))


@BOTH
def test_predict_hands_the_state_to_its_caller(framework):
    agent = ready(made(framework, Counting))
    obs = np.array([[1.0, 7.0], [2.0, 7.0]], np.float32)
    _, state = agent.predict(obs)
    assert {name: values.shape for name, values in state.items()} == {"policy": (2, 6), "value": (2, 6)}
    _, after = agent.predict(obs, state)
    _, anew = agent.predict(obs, after, episode_start=[True, False])
    np.testing.assert_array_equal(anew["policy"][0], state["policy"][0])
    assert (anew["policy"][1] != state["policy"][1]).any()
    assert agent.evaluate(2).lengths.tolist() == [3, 3]
    with pytest.raises(SettingsError, match=r"state\['policy'\] holds NaN"):
        agent.predict(obs, {**after, "policy": after["policy"] * np.nan})


@BOTH
def test_predict_without_a_state_keeps_no_frames_of_the_episode_before(framework):
    agent = ready(made(framework, Counting, numbers={"frame_stack": 3}), frame_stack=3)
    first, second = np.array([[1.0, 7.0]], np.float32), np.array([[2.0, 7.0]], np.float32)
    agent.predict(first)
    _, begun = agent.predict(second)
    _, told = agent.predict(second, episode_start=True)
    for name, values in begun.items():
        np.testing.assert_array_equal(values, told[name])


@BOTH
def test_agents_without_a_place_for_states_refuse_the_network(framework):
    for kind in ("TRPO", "GAIL", "BC"):
        with pytest.raises(
            SettingsError, match=f"{kind} has no place for the state.*choose another network.*PPO, A2C or R2D2"
        ):
            getattr(framework.agents, kind)(env="CartPole-v1", network=network(framework))
    dqn = framework.agents.DQN(env="CartPole-v1", network=network(framework))
    with pytest.raises(SettingsError, match="DQN has no place for the state of a network with a memory"):
        dqn.evaluate(1)
    with pytest.raises(AgentContractError, match="A network with a memory was called with observations alone"):
        dqn.predict(np.zeros(4, np.float32))
    with pytest.raises(SettingsError, match="gives the value a memory, too; leave critic_network out"):
        framework.agents.PPO(env="CartPole-v1", network=network(framework), critic_network=network(framework))


@BOTH
@pytest.mark.parametrize(
    ("called", "by"),
    [
        ("distribution(s)", lambda agent, s, a: agent.distribution(s)),
        ("log_prob_and_entropy(s, a)", lambda agent, s, a: agent.log_prob_and_entropy(s, a)),
    ],
)
def test_a_loss_that_leaves_the_state_out_is_shown_what_to_call(framework, called, by):
    class Own(framework.agents.PPO):
        def __call__(self, s, a, next_s, r, d):
            return by(self, s, a)

    agent = ready(Own(env=Counting, network=network(framework)))
    expected = rf"Own\.{re.escape(called)} was called with observations alone.*log_prob_entropy_and_value\(s, a\)"
    with pytest.raises(AgentContractError, match=expected):
        train(framework, agent, 16)


def test_settings_that_do_not_go_with_sequences_are_refused():
    (framework,) = frameworks()[0].values
    for settings, message in (
        ({"PR": True}, "PR=True draws single transitions.*leave PR=True out"),
        ({"rollout_steps": 5, "batch": 12, "num_envs": 8}, "rollout of 5 steps.*have none in common"),
        ({"sequence_length": 3}, "sequence_length=3"),
    ):
        agent = ready(made(framework, Counting), **settings)
        with pytest.raises(SettingsError, match=message):
            train(framework, agent, 64)
    plain = ready(framework.agents.PPO(env=Counting), sequence_length=4)
    with pytest.raises(SettingsError, match="sequence_length=4 is about agents with a memory, and this one has none"):
        train(framework, plain, 64)


def test_replicas_and_measured_gradients_are_refused():
    (framework,) = frameworks()[0].values
    adaptive = Adaptive(signals=["gradient_noise"], parameters={"clip": {}})
    agent = ready(made(framework, Counting), num_envs=2, adaptive=adaptive)
    with pytest.raises(AgentContractError, match=r"PPO learns from whole sequences.*choose other signals"):
        train(framework, agent, 32)
    agent = ready(made(framework, Counting))
    with pytest.raises(AgentContractError, match=r"PPO has a memory \(initial_state\)"):
        agent.distributed_training(optimizer=framework.optimizers.adam(agent.param, 1e-3), total_steps=32, replicas=2)


@pytest.mark.traced
def test_keras_traces_the_updates_of_a_memory():
    """A loss that meets another object at each look at `memories` stays eager, at a hundred times the cost."""
    framework = Framework("keras")
    agent = ready(made(framework, Counting()))
    train(framework, agent, 16 * 14)
    assert agent.learner.num_traces == 1
    assert "keeps changing" not in str(agent.how_steps_are_taken())
