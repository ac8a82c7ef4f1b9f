"""R2D2: its loss against a loop over steps, its states against those that it acted in, and what does not go with it."""

from functools import partial

import gymnasium
import numpy as np
import pytest

from note_rl.agents.r2d2 import steps_of_burn_in
from note_rl.collect.collector import Collector
from note_rl.collect.policy_runner import PolicyRunner
from note_rl.environments import training_environments
from note_rl.errors import AgentContractError, SettingsError
from note_rl.learners.numpy_policy import dense_layers_of
from note_rl.learners.pytorch.step_graph.compiler import has_compiler
from note_rl.learners.recurrence import packed
from note_rl.policy import EpsGreedyQPolicy
from note_rl.replay.experience import AgentView, Clock, SequenceExperience
from note_rl.settings import Adaptive, SequenceSettings
from note_rl.training.callbacks import LambdaCallback
from note_rl.types import EPISODE_START, STATE_BEFORE, Sample
from tests.note_rl.agents.test_memory_agents import LENGTHS, network
from tests.note_rl.exported_policies import exported
from tests.note_rl.frameworks import Framework, frameworks
from tests.note_rl.learners.test_modes import spying_network
from tests.note_rl.small_environments import Counting

BOTH = pytest.mark.parametrize("framework", frameworks())
needs_compiler = pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
NUM_SEQUENCES, LENGTH = 3, 6
SMALL = {"sequence_length": 6, "batch": 4, "replay_ratio": 3.0, "pool_size": 48, "learning_starts": 12}


def made(framework, env=Counting, memory=None, **settings):
    """One whose two networks differ, with weights that depend on their shapes and are the same in both frameworks."""
    agent = framework.agents.R2D2(env=env, network=network(framework, **(memory or {})), **settings)
    for index, net in enumerate((agent.q_net, agent.target_q_net)):
        for parameter, turned in weights_of(framework, net):
            shape = tuple(parameter.shape)[::-1] if turned else tuple(parameter.shape)
            values = np.random.default_rng([index, *shape]).normal(0.0, 0.7, shape).astype(np.float32)
            if framework.package == "pytorch":
                import torch

                parameter.data.copy_(torch.from_numpy(values.T if turned else values))
            else:
                parameter.assign(values)
    return agent


def weights_of(framework, net):
    """Each with whether it is stored as [outputs, inputs]."""
    if framework.package == "pytorch":
        return [(one, one.ndim == 2 and "recurrent" not in name) for name, one in net.named_parameters()]
    return [(one, False) for one in net.trainable_variables]


def ready(agent, **settings):
    agent.set(**{"policy": EpsGreedyQPolicy(0.3), "num_envs": 2, "seed": 1, **SMALL, **settings})
    return agent


def train(framework, agent, total_steps, callbacks=(), **options):
    optimizer = framework.optimizers.adam(agent.param, 1e-2) if agent.optimizer is None else None
    return agent.train(optimizer=optimizer, total_steps=total_steps, callbacks=list(callbacks), p=0, **options)


def minibatch(seed=0):
    """Sequences within which episodes end: of the first one by the task, of the second by time, of the third never."""
    rng = np.random.default_rng(seed)
    shape = (NUM_SEQUENCES, LENGTH)
    obs, next_obs = (rng.normal(size=(*shape, 2)).astype(np.float32) for _ in range(2))
    next_obs[:, :-1] = obs[:, 1:]
    starts, discount, ended = np.zeros(shape, np.float32), np.full(shape, 0.9, np.float32), np.zeros(shape, np.bool_)
    for sequence, last in ((0, 3), (1, 3), (0, 5)):
        next_obs[sequence, last] = rng.normal(size=2)
        ended[sequence, last] = True
        starts[sequence, last + 1 : last + 2] = 1.0
    discount[0, 3] = 0.0
    starts[2, 1], ended[2, 0] = 1.0, True  # within the burn-in
    return {
        "obs": obs,
        "action": rng.integers(0, 2, shape).astype(np.int32),
        "next_obs": next_obs,
        "reward": rng.normal(0.0, 3.0, shape).astype(np.float32),
        "terminated": (discount == 0.0).astype(np.float32),
        "discount": discount,
        "ended": ended.astype(np.float32),
        EPISODE_START: starts,
        "state_before": rng.normal(size=(NUM_SEQUENCES, 6)).astype(np.float32),
    }


def tensors(framework, batch):
    if framework.package == "pytorch":
        import torch

        return {name: torch.from_numpy(values.copy()) for name, values in batch.items()}
    import tensorflow as tf

    return {name: tf.constant(values) for name, values in batch.items()}


def losses(framework, agent, batch):
    """Losses [B], as they are asked for in training; the minibatch may consist of tensors already."""
    given = batch if not isinstance(batch["obs"], np.ndarray) else tensors(framework, batch)
    for name in ("discount", "ended", EPISODE_START, STATE_BEFORE, "next_action_mask"):
        setattr(agent, name, given.get(name))
    return agent(*(given[name] for name in ("obs", "action", "next_obs", "reward", "terminated")))


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def through(layers, x):
    for kernel, bias, activation in layers:
        x = x @ kernel.astype(np.float64) + bias
        x = np.tanh(x) if activation == "tanh" else x
    return x


def one_step(net, obs, state):
    """Q-values and the state behind, in double precision, after the equations of `note_rl.agents.shared.memories`."""
    cell = net.memory.acting_cell()
    units, recurrent = len(cell.recurrent), cell.recurrent.astype(np.float64)
    gates, hidden = through(cell.encoder, obs), state[:units]
    if cell.kind == "lstm":
        i, f, o, n = np.split(gates + hidden @ recurrent, 4)
        memory = sigmoid(f) * state[units:] + sigmoid(i) * np.tanh(n)
        after = np.concatenate([sigmoid(o) * np.tanh(memory), memory])
    else:
        (r, z, n), (of_r, of_z, of_n) = np.split(gates, 3), np.split(hidden @ recurrent, 3)
        z = sigmoid(z + of_z)
        after = z * hidden + (1 - z) * np.tanh(n + sigmoid(r + of_r) * of_n)
    return through(dense_layers_of(net.head), after[:units]), after


def naive_losses(agent, batch, num_first, to=lambda x: x, back=lambda x: x):
    """Step by step; `to` and `back` are the scale on which values are learned."""
    found = []
    for b in range(len(batch["obs"])):
        online = target = batch[STATE_BEFORE][b].astype(np.float64)
        learned, values, errors = [], [], []
        for t in range(LENGTH):
            if batch[EPISODE_START][b, t]:
                online, target = np.zeros_like(online), np.zeros_like(target)
            q, online = one_step(agent.q_net, batch["obs"][b, t], online)
            _, target = one_step(agent.target_q_net, batch["obs"][b, t], target)
            allowed = batch["next_action_mask"][b, t] > 0.0 if "next_action_mask" in batch else [True, True]
            best = np.argmax(np.where(allowed, one_step(agent.q_net, batch["next_obs"][b, t], online)[0], -np.inf))
            values.append(back(one_step(agent.target_q_net, batch["next_obs"][b, t], target)[0][best]))
            learned.append(q[batch["action"][b, t]])
        for t in range(LENGTH):
            aim, factor = 0.0, 1.0
            for k in range(t, min(t + agent.return_steps, LENGTH)):
                aim, factor = aim + factor * batch["reward"][b, k], factor * batch["discount"][b, k]
                if batch["ended"][b, k]:
                    break
            distance = learned[t] - to(aim + factor * values[k])
            errors.append(0.5 * distance**2)
        found.append(np.mean(errors[num_first:]))
    return np.array(found)


@BOTH
@pytest.mark.parametrize(
    ("cell", "burn_in", "num_first", "return_steps"),
    [("lstm", 0.34, 2, 1), ("gru", 0.0, 0, 3), ("lstm", 0.9, 5, 5), ("lstm", 0.0, 0, 9)],
)
def test_the_loss_is_that_of_a_loop_over_steps(framework, cell, burn_in, num_first, return_steps):
    agent = made(framework, memory={"cell": cell}, burn_in=burn_in, return_steps=return_steps)
    batch = minibatch()
    if cell == "gru":
        batch[STATE_BEFORE] = batch[STATE_BEFORE][:, :3].copy()
    expected = naive_losses(agent, batch, num_first)
    assert expected.min() > 0.01
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(framework.array(losses(framework, agent, batch)), expected, rtol=1e-5)


def q_reported(framework, agent, batch):
    """Values whose mean is `q_mean`."""
    reported = {}
    agent.report = lambda **values: reported.update(values)
    losses(framework, agent, batch)
    return framework.array(reported["q_mean"])


@BOTH
def test_rescaled_values(framework):
    def to(x):
        return np.sign(x) * (np.sqrt(abs(x) + 1) - 1) + 1e-3 * x

    def back(x):
        return np.sign(x) * (((np.sqrt(1 + 4e-3 * (abs(x) + 1 + 1e-3)) - 1) / 2e-3) ** 2 - 1)

    assert back(to(-700.0)) == pytest.approx(-700.0)
    agent, batch = made(framework, burn_in=0.34, rescale=True), minibatch()
    expected = naive_losses(agent, batch, 2, to, back)
    np.testing.assert_allclose(framework.array(losses(framework, agent, batch)), expected, rtol=1e-5)
    assert np.abs(expected - naive_losses(agent, batch, 2)).max() > 0.1
    as_learned, as_values = (q_reported(framework, one, batch) for one in (made(framework, burn_in=0.34), agent))
    np.testing.assert_allclose(as_values, back(as_learned.astype(np.float64)), rtol=1e-5)
    assert np.abs(as_values - as_learned).max() > 0.1


@BOTH
def test_actions_that_are_not_allowed_next_are_not_chosen(framework):
    agent, batch = made(framework, burn_in=0.34), minibatch()
    free = framework.array(losses(framework, agent, batch))
    mask = np.ones((NUM_SEQUENCES, LENGTH, 2), np.float32)
    np.testing.assert_array_equal(framework.array(losses(framework, agent, {**batch, "next_action_mask": mask})), free)
    mask[:, ::2, 0] = mask[:, 1::2, 1] = 0.0
    some = {**batch, "next_action_mask": mask}
    found = framework.array(losses(framework, agent, some))
    np.testing.assert_allclose(found, naive_losses(agent, some, 2), rtol=1e-5)
    assert (found != free).all()


def slopes(framework, agent, batch, names):
    """Derivatives of the loss by parts of the minibatch."""
    given = tensors(framework, batch)
    if framework.package == "pytorch":
        for name in names:
            given[name].requires_grad_(True)
        losses(framework, agent, given).sum().backward()
        found = [given[name].grad for name in names]
        return [
            np.zeros(batch[name].shape) if one is None else one.numpy() for name, one in zip(names, found, strict=True)
        ]
    import tensorflow as tf

    with tf.GradientTape() as tape:
        for name in names:
            tape.watch(given[name])
        loss = tf.reduce_sum(losses(framework, agent, given))
    wanted = [given[name] for name in names]
    return [one.numpy() for one in tape.gradient(loss, wanted, unconnected_gradients="zero")]


@BOTH
def test_steps_of_the_burn_in_bring_states_up_to_date_and_nothing_else(framework):
    agent, batch = made(framework, burn_in=0.34), minibatch()
    before = losses(framework, agent, batch)
    by_obs, by_state, by_next = slopes(framework, agent, batch, ("obs", STATE_BEFORE, "next_obs"))
    assert not by_obs[:, :2].any()
    assert not by_state.any()
    assert not by_next.any(), "targets are not to be learned"
    assert (np.abs(by_obs[:, 2:]).sum(-1) > 0.0).all()
    for name, changes in (("reward", False), ("next_obs", False), ("discount", False), ("obs", True)):
        others = {**batch, name: batch[name].copy()}
        others[name][:, :2] += 0.5
        after = framework.array(losses(framework, agent, others)) != framework.array(before)
        assert after[:2].all() == changes, name
    whole = made(framework, burn_in=0.0)
    assert np.abs(slopes(framework, whole, batch, (STATE_BEFORE,))[0]).min() > 0.0


@BOTH
def test_nothing_is_remembered_over_the_end_of_an_episode(framework):
    agent, batch = made(framework, burn_in=0.0), minibatch()
    before = framework.array(losses(framework, agent, batch))
    by_obs = slopes(framework, agent, batch, ("obs",))[0]
    late = {**batch, "reward": batch["reward"].copy()}
    late["reward"][:, 4:] = 0.0
    assert (np.abs(by_obs) > 0.0).all()
    forgotten = {**late, STATE_BEFORE: batch[STATE_BEFORE] + 1.0}
    for name in ("obs", "next_obs"):
        forgotten[name] = batch[name].copy()
        forgotten[name][:2, :4] += 1.0
    only_late = made(framework, burn_in=4 / LENGTH)  # learns from the steps 4 and 5, behind the ends
    np.testing.assert_array_equal(
        framework.array(losses(framework, only_late, forgotten))[:2],
        framework.array(losses(framework, only_late, late))[:2],
    )
    assert (
        framework.array(losses(framework, agent, {**batch, STATE_BEFORE: batch[STATE_BEFORE] + 1.0})) != before
    ).all()


@BOTH
def test_targets_are_worked_out_in_eval_mode(framework):
    """The online network says which action the target network is asked for."""
    seen = {}
    head = spying_network(framework, seen)

    def memory_and_spy(input_shape, num_outputs):
        made = network(framework)(input_shape, num_outputs)
        made.head = head((made.memory.units,), num_outputs)
        return made

    agent = framework.agents.R2D2(env=Counting, network=memory_and_spy)
    agent.couples_samples = True  # no check, which would add eval mode to what is seen
    batch = {name: values[None] for name, values in minibatch().items()}
    columns = {name: batch.pop(name) for name in ("obs", "action", "next_obs", "reward", "terminated", "discount")}
    agent.learner.prepare(framework.optimizers.sgd(agent.param, 0.1), None, (), False)
    agent.learner.update(Sample(**columns, sync=np.ones(1, np.bool_), extras=batch), {})
    assert seen == {agent.q_net.head.number: {True, False}, agent.target_q_net.head.number: {False}}


def test_both_frameworks_have_the_same_loss():
    batch = minibatch(1)
    one, other = (
        framework.array(losses(framework, made(framework, burn_in=0.34), batch))
        for framework in map(Framework, ("pytorch", "keras"))
    )
    np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize(
    ("share", "num_steps", "num_first"), [(0.5, 40, 20), (0.29, 100, 29), (0.9, 4, 3), (0.5, 1, 0)]
)
def test_a_step_at_least_is_learned_from(share, num_steps, num_first):
    assert steps_of_burn_in(share, num_steps) == num_first


@BOTH
def test_the_pool_has_the_states_in_which_the_agent_acted(framework):
    """Against an agent that steps through each environment by itself, also over the end of the ring."""
    agent = made(framework, [partial(Counting, length, by_time=length == 4) for length in LENGTHS])
    collector = Collector(
        training_environments(agent.env, None, seed=4),
        EpsGreedyQPolicy(0.5),
        np.random.default_rng(0),
        reads=type(agent).batch_attributes,
    )
    act = PolicyRunner(agent.learner, agent.obs_normaliser)
    settings = SequenceSettings(num_steps=6, capacity=50, batch_size=7, replay_ratio=5.0).for_envs(len(LENGTHS))
    experience = SequenceExperience(settings, AgentView(gamma=lambda: 0.9), np.random.default_rng(0))
    zeros, states, seen = agent.initial_state(1), {}, 0
    running = [zeros] * len(LENGTHS)
    for rollout in range(6):
        steps, _ = collector.collect(act, 6)
        experience.store(steps)
        for t, e in np.ndindex(steps.ended.shape):
            states[rollout * 6 + t, e] = packed(running[e])[0]
            _, after = agent.learner._evaluate_from("action", steps.obs[t, e][None], running[e])
            running[e] = zeros if steps.ended[t, e] else after
        for sample in experience.update_blocks(Clock(num_env_steps=10**6)):
            assert sample.extras[STATE_BEFORE].shape == (*sample.reward.shape[:2], 6)
            assert sample.extras[EPISODE_START].dtype == np.float32
            first = sample.obs[..., 0] == 0.0  # Counting shows the number of the step
            np.testing.assert_array_equal(sample.extras[EPISODE_START], first)
            ages = experience.buffer.ring.ages(sample.slots)
            for place in np.ndindex(sample.slots.shape):
                number = (rollout + 1) * 18 - len(experience.buffer) + int(ages[place])
                np.testing.assert_allclose(sample.extras[STATE_BEFORE][place], states[divmod(number, 3)], atol=1e-6)
                seen += 1
    assert seen > 60


@pytest.mark.slow_in_keras
@BOTH
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_run_resumed_within_episodes_is_the_undisturbed_one(framework, cell, tmp_path):
    def prepared():
        env = [partial(gymnasium.make, "CartPole-v1") for _ in range(2)]
        return ready(made(framework, env, {"cell": cell}), num_envs=None, pool_size=24)

    whole, first, second = prepared(), prepared(), prepared()
    stop = LambdaCallback(on_phase_end=lambda phase, logs: setattr(first, "stop_training", phase == 2))
    train(framework, whole, 60)
    train(framework, first, 60, [stop])
    assert first.num_env_steps == 24
    first.save(tmp_path / "a")
    second.restore(tmp_path / "a")
    train(framework, second, 60)
    assert second.num_gradient_steps == whole.num_gradient_steps > first.num_gradient_steps + 10
    for mine, other in zip(framework.parameters(second), framework.parameters(whole), strict=True):
        np.testing.assert_array_equal(mine, other)
    assert any((a != b).any() for a, b in zip(framework.parameters(first), framework.parameters(whole), strict=True))


@BOTH
def test_it_acts_with_its_memory_and_the_target_network_follows(framework):
    agent = ready(made(framework, tau=0.5))
    obs = np.array([[1.0, 7.0], [2.0, 7.0]], np.float32)
    _, state = agent.predict(obs)
    assert {name: values.shape for name, values in state.items()} == {"memory": (2, 6)}
    _, after = agent.predict(obs, state)
    _, anew = agent.predict(obs, after, episode_start=[True, False])
    np.testing.assert_array_equal(anew["memory"][0], state["memory"][0])
    assert (anew["memory"][1] != state["memory"][1]).any()
    assert agent.evaluate(2).lengths.tolist() == [3, 3]
    online, target = (framework.array(weights_of(framework, net)[0][0]) for net in (agent.q_net, agent.target_q_net))
    agent.update_param()
    after = framework.array(weights_of(framework, agent.target_q_net)[0][0])
    np.testing.assert_allclose(after, 0.5 * (online + target), atol=1e-6)


def test_worker_processes_send_the_states_with_the_steps():
    (framework,) = frameworks()[0].values
    agent = ready(made(framework), num_envs=3)
    train(framework, agent, 90, pool_network=True, processes=2)
    assert agent.num_gradient_steps > 5
    assert np.isfinite(agent.reported["q_mean"])


@pytest.mark.parametrize(("package", "cell", "width"), [("pytorch", "lstm", 6), ("keras", "gru", 3)])
def test_an_exported_policy_acts_as_predict_does(package, cell, width, tmp_path):
    agent = made(Framework(package), memory={"cell": cell})
    run, state, memory = exported(agent, tmp_path), None, np.full((2, width), 7.0, np.float32)
    rng, starts = np.random.default_rng(0), np.array([True, True])
    for _ in range(4):
        obs = rng.normal(size=(2, 2)).astype(np.float32)
        wanted, state = agent.predict(obs, state, episode_start=starts)
        given = run({"observation": obs, "memory": memory, "episode_start": starts})
        memory, starts = given["next_memory"], np.array([False, True])
        np.testing.assert_array_equal(given["action"], wanted)
        np.testing.assert_allclose(memory, state["memory"], atol=1e-6)


@pytest.mark.parametrize(
    ("package", "jit", "way"),
    [
        ("pytorch", "auto", "replayed"),
        pytest.param("pytorch", True, "compiled", marks=[pytest.mark.slow, needs_compiler]),
        pytest.param("keras", True, "whole", marks=[pytest.mark.slow, pytest.mark.xla]),
    ],
)
def test_gradient_steps_taken_otherwise_are_the_eager_ones(monkeypatch, package, jit, way):
    monkeypatch.setattr("note_rl.learners.pytorch.step_graph.choice._WORTH_RECORDING", 30)
    framework = Framework(package)
    start = framework.parameters(made(framework))
    found = []
    for asked in (False, jit):
        agent = ready(made(framework), replay_ratio=10.0)
        plain = framework.optimizers.sgd(agent.param, 0.05)  # Adam makes steps of what rounding leaves of a gradient
        agent.train(optimizer=plain, total_steps=12 * 6, p=0, jit_compile=asked)
        found.append((framework.parameters(agent), agent.how_steps_are_taken().way, agent.learner.num_traces))
    (eager, way_of_eager, num_eager), (others, way_of_others, num_others) = found
    assert way_of_eager == {"pytorch": "eager", "keras": "traced"}[package]
    assert way_of_others == way
    assert num_others > (num_eager if package == "pytorch" else 0)
    for one, other, before in zip(eager, others, start, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
        assert np.abs(one - before).max() > 1e-2
    assert agent.num_gradient_steps > 40


@BOTH
def test_what_does_not_go_with_it_is_refused(framework):
    with pytest.raises(SettingsError, match=r"R2D2 learns from what its network remembers.*has no memory"):
        framework.agents.R2D2(network=framework.module("shared/networks").mlp((8,)))
    with pytest.raises(SettingsError, match=r"^burn_in must be at least 0 and below 1, got 20$"):
        framework.agents.R2D2(burn_in=20)
    for settings, message in (
        ({"sequences": False}, "add sequences=True"),
        ({"PPO": True}, "PPO=True"),
        ({"PR": True}, "PR=True"),
    ):
        with pytest.raises((AgentContractError, SettingsError), match=message):
            train(framework, ready(made(framework), **settings), 24)


def test_replicas_and_measured_gradients_are_refused():
    (framework,) = frameworks()[0].values
    adaptive = Adaptive(signals=["gradient_noise"], parameters={"batch_size": {}})
    with pytest.raises(AgentContractError, match=r"R2D2 learns from whole sequences.*choose other signals"):
        train(framework, ready(made(framework), adaptive=adaptive), 24)
    agent = ready(made(framework))
    optimizer = framework.optimizers.adam(agent.param, 1e-3)
    with pytest.raises(AgentContractError, match=r"R2D2 has a memory \(initial_state\)"):
        agent.distributed_training(optimizer=optimizer, total_steps=24, replicas=2)


@pytest.mark.slow  # test_memory_agents.py has one that is not
@pytest.mark.traced
def test_keras_traces_its_updates():
    framework = Framework("keras")
    agent = ready(made(framework), sequence_length=3)
    train(framework, agent, 12 * 10)
    assert "keeps changing" not in str(agent.how_steps_are_taken())
