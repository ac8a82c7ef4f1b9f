"""The parts of Rainbow in DQN, alone and together, against NumPy in both frameworks."""

from functools import partial

import numpy as np
import pytest

from note_rl.collect.policy_runner import PolicyRunner, answers_of
from note_rl.environments.normalise import ObservationNormaliser
from note_rl.errors import EnvironmentMismatchError, SettingsError
from note_rl.learners.recurrence import RecurrentState
from note_rl.policy import EpsGreedyQPolicy, GreedyQPolicy
from note_rl.seeding import seed_everything
from note_rl.settings import Priority, ReplaySettings, Settings
from note_rl.training.normal_inputs import with_normal_inputs
from tests.note_rl.agents.test_double_dueling import huber, values
from tests.note_rl.frameworks import frameworks
from tests.note_rl.samples import ready, sample
from tests.note_rl.small_environments import Corridor, Counting

pytestmark = pytest.mark.parametrize("framework", frameworks())

KINDS = {
    "expected": {},
    "categorical": {"values": "categorical", "num_atoms": 5, "v_min": -2.0, "v_max": 2.0},
    "quantiles": {"values": "quantiles", "num_quantiles": 3},
}
ATOMS = np.linspace(-2.0, 2.0, 5)


def made(framework, **options):
    seed_everything(0)
    return framework.agents.DQN(hidden_size=(8,), env=Counting, **options)


def noisy(framework, **options):
    network = partial(framework.module("shared/networks").MLP, hidden_sizes=(8,), noisy_std=0.5)
    return made(framework, network=network, **options)


def moved(learner):
    """Moves all weights of both networks at random, so that they differ in which action is the best."""
    rng, state = np.random.default_rng(4), learner.get_state()
    learner.set_state(
        {
            name: values + rng.normal(0.0, 0.5, values.shape).astype(np.float32)
            if values.dtype == np.float32
            else values
            for name, values in state.items()
        }
    )


def softmax(x):
    shares = np.exp(x - x.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def at(outputs, action):
    return outputs[np.arange(len(outputs)), action]  # [B, N]


def means(kind, outputs):
    """Q-values [B, A] of outputs [B, A, N]."""
    return softmax(outputs) @ ATOMS if kind == "categorical" else outputs.mean(-1)


def projected(shares, reward, discount):
    """Algorithm 1 of Bellemare et al. 2017, in its loops."""
    target = np.zeros(shares.shape)
    for row in range(len(shares)):
        for share, atom in zip(shares[row], ATOMS, strict=True):
            place = np.clip(reward[row] + discount[row] * atom, -2.0, 2.0) + 2.0
            low, high = int(np.floor(place)), int(np.ceil(place))
            target[row, low] += share * (high - place if high > low else 1.0)
            target[row, high] += share * (place - low)
    return target


def quantile_loss(taken, target):
    """Eq. 10 of Dabney et al. 2018, in its loops."""
    loss, num = np.zeros(len(taken)), taken.shape[1]
    for i in range(num):
        for j in range(num):
            error = target[:, j] - taken[:, i]
            loss += np.abs((i + 0.5) / num - (error < 0)) * huber(error) / num
    return loss


def by_hand(kind, batch, online, next_online, next_target, double):
    """Losses and errors [B] from outputs [B, A, N] of the networks."""
    chosen = means(kind, next_online if double else next_target).argmax(1)
    taken, following = at(online, batch.action[0]), at(next_target, chosen)
    reward, discount = batch.reward[0], batch.discount[0]
    if kind == "categorical":
        target = projected(softmax(following), reward, discount)
        loss = -(target * np.log(softmax(taken))).sum(1)
        return loss, loss + (target * np.log(np.maximum(target, 1e-30))).sum(1)  # the divergence
    target = reward[:, None] + discount[:, None] * following
    if kind == "quantiles":
        return quantile_loss(taken, target), target.mean(1) - taken.mean(1)
    error = (target - taken)[:, 0]
    return huber(error), error


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_errors(framework, kind, double):
    agent = made(framework, double=double, **KINDS[kind])
    learner = ready(framework, agent)
    moved(learner)
    weights = np.random.default_rng(2).random((1, 32)).astype(np.float32)
    batch = sample(1, 32, seed=1, weights=weights)
    online, next_online, next_target = (
        values(framework, network, obs[0]).reshape(32, 2, -1)
        for network, obs in (
            (agent.q_net, batch.obs),
            (agent.q_net, batch.next_obs),
            (agent.target_q_net, batch.next_obs),
        )
    )
    loss, error = by_hand(kind, batch, online, next_online, next_target, double)
    other, _ = by_hand(kind, batch, online, next_online, next_target, not double)
    assert np.abs(loss - other).max() > 1e-3, "some networks differ in what they find best"
    update = learner.update(batch, {})
    np.testing.assert_allclose(np.abs(update.td_error[0]), np.abs(error), rtol=1e-4, atol=1e-5)
    assert update.loss[0, 0] == pytest.approx((weights[0] * loss).mean(), rel=1e-4)


@pytest.mark.parametrize("kind", ["categorical", "quantiles"])
def test_dueling_centres_each_number_over_the_actions(framework, kind):
    agent = made(framework, dueling=True, stream_size=4, **KINDS[kind])
    obs, num = sample(1, 16).obs[0], agent.action_values.num_each
    net = agent.q_net
    hidden = np.maximum(values(framework, net.shared, obs), 0)
    assert hidden.shape == (16, 8)
    (value, value_bias), (advantage, advantage_bias) = (head_of(framework, one) for one in (net.value, net.advantage))
    a = (hidden[:, 4:] @ advantage + advantage_bias).reshape(16, 2, num)
    expected = (hidden[:, :4] @ value + value_bias)[:, None] + a - a.mean(1, keepdims=True)
    np.testing.assert_allclose(values(framework, net, obs).reshape(16, 2, num), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(agent.learner.act(obs), means(kind, expected), rtol=1e-4, atol=1e-4)
    assert agent.learner.actor.is_mirrored()


def head_of(framework, layer):
    if framework.package == "pytorch":
        return framework.array(layer.weight).T, framework.array(layer.bias)
    return framework.array(layer.kernel), framework.array(layer.bias)


def test_bounds_in_the_wrong_order_are_refused(framework):
    with pytest.raises(SettingsError, match=r"v_min=1.0 is the lowest return and v_max=0.5 the highest"):
        made(framework, values="categorical", v_min=1.0, v_max=0.5)


def test_noise_is_drawn_for_each_network_and_once_for_a_minibatch(framework):
    agent = noisy(framework, double=True)
    size = 2 + 8 + 8 + 2
    assert agent.normal_inputs == {"q_noise": (size,), "target_q_noise": (size,), "choice_q_noise": (size,)}
    drawn = with_normal_inputs(sample(2, 5), agent, np.random.default_rng(0)).extras
    for noise in drawn.values():
        assert noise.shape == (2, 5, size)
        np.testing.assert_array_equal(noise, np.broadcast_to(noise[:, :1], noise.shape))
    firsts = np.stack([noise[:, 0] for noise in drawn.values()]).reshape(-1, size)  # of three networks, twice
    assert len(np.unique(firsts[:, 0])) == 6
    assert "choice_q_noise" not in noisy(framework).normal_inputs
    assert made(framework).normal_inputs == {}


@pytest.mark.parametrize("double", [False, True])
def test_loss_with_noise_is_that_of_noisy_outputs(framework, double):
    agent = noisy(framework, double=double)
    learner = ready(framework, agent)
    moved(learner)
    batch = with_normal_inputs(sample(1, 32, seed=1), agent, np.random.default_rng(0))
    online, next_online, next_target = (
        outputs_with(framework, network, obs[0], batch.extras.get(noise, batch.extras["q_noise"])[0])
        for network, obs, noise in (
            *((agent.q_net, batch.obs, "q_noise"), (agent.q_net, batch.next_obs, "choice_q_noise")),
            (agent.target_q_net, batch.next_obs, "target_q_noise"),
        )
    )
    loss, _ = by_hand("expected", batch, online[..., None], next_online[..., None], next_target[..., None], double)
    assert learner.update(batch, {}).loss[0, 0] == pytest.approx(loss.mean(), rel=1e-4)


def outputs_with(framework, network, obs, noise):
    """By layers and weights in NumPy."""
    x, begin = obs, 0
    layers = framework.module("shared/noisy").noisy_layers(network)
    for layer in layers:
        kernel, bias = head_of(framework, layer)
        torch = framework.package == "pytorch"
        std = framework.array(layer.weight_std).T if torch else framework.array(layer.kernel_std)
        bias_std = framework.array(layer.bias_std)
        first, last = begin + len(kernel), begin + len(kernel) + len(bias)
        n_in, n_out = (np.sign(one) * np.sqrt(np.abs(one)) for one in (noise[:, begin:first], noise[:, first:last]))
        whole = kernel + std * n_in[0][:, None] * n_out[0]  # the noise is the same in all rows
        x = x @ whole + bias + bias_std * n_out[0]
        x, begin = (np.maximum(x, 0) if layer is not layers[-1] else x), last
    return x


def test_deviations_learn_and_are_copied_to_the_target(framework):
    agent = noisy(framework, tau=1.0)
    before = framework.parameters(agent)
    assert len(before) == 8  # two layers with kernel, bias and the deviations of both
    learner = ready(framework, agent)
    learner.update(with_normal_inputs(sample(2, sync=True), agent, np.random.default_rng(0)), {})
    assert all((now != then).any() for now, then in zip(framework.parameters(agent), before, strict=True))
    state = learner.get_state()
    for name in state:
        if name.startswith("agent/q_net/"):
            np.testing.assert_allclose(state[name.replace("q_net", "target_q_net", 1)], state[name], rtol=1e-5)


@pytest.mark.parametrize("kind", [{}, {**KINDS["categorical"], "dueling": True, "stream_size": 4}, KINDS["quantiles"]])
def test_exploring_draws_noise_for_each_answer_and_evaluation_none(framework, kind):
    agent = noisy(framework, **kind)
    runner = PolicyRunner(agent.learner, ObservationNormaliser())
    obs = np.repeat(sample(1, 1).obs[0], 3, axis=0)
    starts = np.zeros(3, np.bool_)
    exploring = answers_of(runner, RecurrentState(), np.random.default_rng(0))
    first, second = exploring(obs, starts), exploring(obs, starts)
    assert len(np.unique(np.concatenate([first, second])[:, 0])) == 6, "each environment, and each step"
    silent = answers_of(runner, RecurrentState())(obs, starts)
    np.testing.assert_allclose(silent, runner(obs), rtol=1e-6)
    np.testing.assert_array_equal(silent[0], silent[1])
    assert agent.learner._act_with_noise._layers is not None, "acting in NumPy, which agrees with the framework"
    zero = agent.learner.act_with(obs, np.zeros((3, agent.acting_noise), np.float32))
    np.testing.assert_allclose(zero, silent, rtol=1e-4, atol=1e-5)
    again = answers_of(runner, RecurrentState(), np.random.default_rng(0))(obs, starts)
    np.testing.assert_array_equal(again, first)
    through = agent.learner._framework_act_with(obs, {"noise": np.ones((3, agent.acting_noise), np.float32)})[0]
    in_numpy = agent.learner.act_with(obs, np.ones((3, agent.acting_noise), np.float32))
    np.testing.assert_allclose(in_numpy, through, rtol=1e-4, atol=1e-5)


def test_observations_of_a_wrong_size_are_refused_in_words(framework):
    agent = noisy(framework)
    for _ in range(2):
        with pytest.raises(EnvironmentMismatchError, match=r"shape \[3\] \(float32\): its network takes 2 numbers"):
            agent.learner.act_with(np.zeros((4, 3), np.float32), np.zeros((4, agent.acting_noise), np.float32))
    agent.learner.act_with(np.zeros((4, 2), np.float32), np.zeros((4, agent.acting_noise), np.float32))
    assert agent.learner.actor.examples[None].shape == (1, 2)


def test_predict_explores_by_noise_if_it_is_to_explore(framework):
    agent = noisy(framework)
    moved(agent.learner)
    agent.set(policy=GreedyQPolicy(), pool_size=50, seed=1)
    obs = np.repeat(sample(1, 1).obs[0], 200, axis=0)
    explored, silent = (agent.predict(obs, deterministic=one)[0] for one in (False, True))
    assert len(set(silent)) == 1
    assert len(set(explored)) == 2


RAINBOW = {"double": True, "dueling": True, "stream_size": 8, "values": "categorical", "v_min": 0.0, "v_max": 1.0}


@pytest.mark.xla
@pytest.mark.slow_in_keras
@pytest.mark.parametrize(
    ("parts", "policy"),
    [
        pytest.param({**RAINBOW, "noisy": True}, GreedyQPolicy(), id="all"),
        pytest.param({"values": "quantiles", "num_quantiles": 8}, EpsGreedyQPolicy(0.3), id="quantiles"),
    ],
)
def test_the_corridor_is_learned(framework, parts, policy):
    seed_everything(3)
    parts = dict(parts)
    std = 0.5 if parts.pop("noisy", False) else 0.0
    network = partial(framework.module("shared/networks").MLP, hidden_sizes=(16,), noisy_std=std)
    agent = framework.agents.DQN(network=network, env=Corridor, gamma=0.9, **parts)
    replay = {"capacity": 500, "batch_size": 16, "learning_starts": 32, "train_freq": 8, "gradient_steps": 4}
    experience = ReplaySettings(**replay, target_update_interval=6, num_steps=3, priority=Priority())
    agent.settings = Settings(experience=experience, policy=policy, seed=3)
    agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-2), total_steps=1000, p=0)
    assert agent.evaluate(5).returns.tolist() == [1.0] * 5
