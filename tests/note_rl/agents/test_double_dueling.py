"""Double, dueling and prioritized DQN against NumPy, in both frameworks."""

import numpy as np
import pytest

from note_rl.policy import EpsGreedyQPolicy
from note_rl.seeding import seed_everything
from note_rl.settings import Priority, ReplaySettings, Settings
from tests.note_rl.frameworks import frameworks
from tests.note_rl.samples import ready, sample
from tests.note_rl.small_environments import Corridor, Counting

pytestmark = pytest.mark.parametrize("framework", frameworks())


def made(framework, name, **options):
    seed_everything(0)
    return getattr(framework.agents, name)(hidden_size=(8,), env=Counting, **options)


def values(framework, network, obs):
    """Q-values [B, A] by the framework itself."""
    if framework.package == "pytorch":
        import torch

        return framework.array(network(torch.from_numpy(obs)))
    return framework.array(network(obs))


def picked(table, index):
    return np.take_along_axis(table, index[:, None], 1)[:, 0]


def huber(error):
    return np.where(np.abs(error) < 1, 0.5 * error**2, np.abs(error) - 0.5)


def test_the_online_network_chooses_and_the_target_network_values(framework):
    agent = made(framework, "DoubleDQN")
    learner = ready(framework, agent, framework.optimizers.sgd(agent.param, 1.0))
    learner.update(sample(3), {})  # the two networks differ from here on
    batch = sample(1, 32, seed=1)
    online = values(framework, agent.q_net, batch.next_obs[0])
    target = values(framework, agent.target_q_net, batch.next_obs[0])
    assert (online.argmax(1) != target.argmax(1)).any()
    worth = batch.reward[0] + batch.discount[0] * picked(target, online.argmax(1))
    error = worth - picked(values(framework, agent.q_net, batch.obs[0]), batch.action[0])
    update = learner.update(batch, {})
    np.testing.assert_allclose(update.td_error[0], error, rtol=1e-4, atol=1e-5)
    assert update.loss[0, 0] == pytest.approx(huber(error).mean(), rel=1e-4)


def test_only_the_chosen_action_is_pulled(framework):
    """The next state's online values choose but are not trained."""
    batch = sample(1, 8)
    results = []
    for _ in range(2):
        agent = made(framework, "DoubleDQN")
        moved = ready(framework, agent)
        moved.update(batch, {})
        results.append(framework.parameters(agent))
    plain = made(framework, "DQN")  # the networks are equal at first, hence the same choice and the same step
    ready(framework, plain).update(batch, {})
    for mine, again, theirs in zip(*results, framework.parameters(plain), strict=True):
        np.testing.assert_array_equal(mine, again)
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-7)


def test_dueling_values_are_value_plus_centred_advantage(framework):
    agent = made(framework, "DuelingDQN", stream_size=4)
    obs = sample(1, 16).obs[0]
    net = agent.q_net
    hidden = np.maximum(values(framework, net.shared, obs), 0)
    assert hidden.shape == (16, 8)
    value, advantage = (head_of(framework, head) for head in (net.value, net.advantage))
    a = hidden[:, 4:] @ advantage[0] + advantage[1]
    expected = hidden[:, :4] @ value[0] + value[1] + a - a.mean(1, keepdims=True)
    np.testing.assert_allclose(values(framework, net, obs), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(agent.learner.act(obs), expected, rtol=1e-4, atol=1e-5)
    assert agent.learner.actor.is_mirrored()  # acting in NumPy, where both streams are one layer


def head_of(framework, layer):
    """Kernel [in, out] and bias of a linear layer."""
    if framework.package == "pytorch":
        return framework.array(layer.weight).T, framework.array(layer.bias)
    return framework.array(layer.kernel), framework.array(layer.bias)


def test_every_part_of_a_dueling_network_is_trained_copied_and_stored(framework):
    agent = made(framework, "DuelingDQN", stream_size=4, tau=1.0)
    assert [p.shape for p in framework.parameters(agent)] == [
        (p.shape) for p in framework.parameters(made(framework, "DuelingDQN", stream_size=4))
    ]
    before = framework.parameters(agent)
    assert len(before) == 8  # two layers of the shared part, two heads; kernel and bias each
    ready(framework, agent).update(sample(2, sync=True), {})
    assert all((now != then).any() for now, then in zip(framework.parameters(agent), before, strict=True))
    obs = sample(1, 5).obs[0]
    copied = values(framework, agent.target_q_net, obs)
    np.testing.assert_allclose(values(framework, agent.q_net, obs), copied, rtol=1e-5)
    other = made(framework, "DuelingDQN", stream_size=4)
    other.learner.set_state(agent.learner.get_state())
    np.testing.assert_allclose(values(framework, other.q_net, obs), copied, rtol=1e-5)


def test_double_and_dueling_go_together(framework):
    mlp, dueling = framework.module("shared/networks").MLP, framework.module("dueling_dqn").dueling
    agent = made(framework, "DoubleDQN", network=dueling(mlp, stream_size=3))
    assert ready(framework, agent).update(sample(2), {}).td_error.shape == (2, 4)


def test_a_refusal_names_the_agent(framework):
    for name in ("DoubleDQN", "DuelingDQN"):
        with pytest.raises(ValueError, match=f"{name} chooses one of several actions"):
            getattr(framework.agents, name)(env="Pendulum-v1")


@pytest.mark.xla
@pytest.mark.slow_in_keras
@pytest.mark.parametrize(
    ("name", "further"),
    [
        pytest.param("DoubleDQN", {}, marks=pytest.mark.slow),
        pytest.param("DuelingDQN", {}, marks=pytest.mark.slow),
        pytest.param("DQN", {"priority": Priority()}, marks=pytest.mark.slow),
        ("DoubleDQN", {"num_steps": 3}),  # DuelingDQN and priorities learn in environments/test_action_masks.py
    ],
)
def test_the_corridor_is_learned(framework, name, further):
    seed_everything(3)
    agent = getattr(framework.agents, name)(hidden_size=(16,), env=Corridor, gamma=0.9)
    replay = {"capacity": 500, "batch_size": 16, "learning_starts": 32, "train_freq": 8, "gradient_steps": 4}
    experience = ReplaySettings(**replay, target_update_interval=6, **further)
    agent.settings = Settings(experience=experience, policy=EpsGreedyQPolicy(0.3), seed=3)
    agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-2), total_steps=1500, p=0)
    assert agent.evaluate(5).returns.tolist() == [1.0] * 5
