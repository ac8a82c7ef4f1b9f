"""SAC's losses against NumPy and the weight of its entropy, in both frameworks."""

import numpy as np
import pytest

from note_rl.errors import SettingsError
from note_rl.policy import SquashedGaussianPolicy, SquashedGSDEPolicy
from note_rl.settings import GSDE
from note_rl.settings.schedules import Linear
from tests.note_rl.agents.continuous import CENTRE, SCALE, Target, columns, losses, make, perceptron, q, ready, sample
from tests.note_rl.frameworks import frameworks

pytestmark = pytest.mark.parametrize("framework", frameworks())


def squashed(agent, s, noise):
    """Actions, and their log-density in [-1, 1]: that of the normal divided by the slope of tanh."""
    mean, log_std = np.split(perceptron(agent.actor.dense_layers(), s), 2, axis=1)
    u = mean + np.exp(log_std) * noise
    log_normal = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi)
    return CENTRE + SCALE * np.tanh(u), (log_normal - np.log(1 - np.tanh(u) ** 2)).sum(1)


@pytest.mark.parametrize("alpha", [None, 0.3])
def test_sac_losses(framework, alpha):
    agent = make(framework, "SAC", alpha=alpha)
    batch = sample(agent)
    s, a, r, next_s, discount = columns(batch)
    weight = 1.0 if alpha is None else alpha
    next_a, next_log_prob = squashed(agent, next_s, batch.extras["next_noise"][0])
    next_q = np.minimum(q(agent.target_critic_1, next_s, next_a), q(agent.target_critic_2, next_s, next_a))
    target = r + discount * (next_q - weight * next_log_prob)
    errors = [q(critic, s, a) - target for critic in (agent.critic_1, agent.critic_2)]
    new_a, log_prob = squashed(agent, s, batch.extras["noise"][0])
    new_q = np.minimum(q(agent.critic_1, s, new_a), q(agent.critic_2, s, new_a))
    expected = [(weight * log_prob - new_q).mean(), (errors[0] ** 2 + errors[1] ** 2).mean()]
    if alpha is None:
        expected.append(0.0)  # -log alpha * (...), and log alpha starts at 0
    np.testing.assert_allclose(losses(framework, agent, batch).loss[0], expected, rtol=1e-4, atol=1e-6)


def test_alpha_moves_towards_the_entropy_wanted(framework):
    # d loss / d log alpha = -(log pi + target): the entropy is below the target, so alpha must rise
    agent = make(framework, "SAC", target_entropy=50.0)
    batch = sample(agent)
    _, log_prob = squashed(agent, batch.obs[0], batch.extras["noise"][0])
    ready(agent, framework.optimizers.sgd(agent.param, 0.01)).update(batch, {})
    moved = framework.array(agent.log_alpha)[0]
    assert moved == pytest.approx(0.01 * (log_prob.mean() + 50.0), rel=1e-4)


def test_a_learned_alpha_starts_at_initial_alpha(framework):
    assert framework.array(make(framework, "SAC", initial_alpha=0.1).log_alpha)[0] == pytest.approx(np.log(0.1))
    fixed = make(framework, "SAC", alpha=0.3, initial_alpha=0.1)
    assert framework.array(fixed.log_alpha)[0] == pytest.approx(np.log(0.3))
    assert fixed.entropy_weight() == pytest.approx(0.3)


@pytest.mark.parametrize("name", ["SAC", "TQC", "CrossQ"])
def test_losses_follow_alpha_where_it_is_moved(framework, name):
    """Also where it is learned: a number that is given then holds in place of the learned one."""
    made_so, still = make(framework, name, alpha=0.5), make(framework, name, alpha=0.2)
    batch = sample(made_so, sync=True)
    expected, other = (losses(framework, agent, batch).loss[0] for agent in (made_so, still))
    assert abs(expected - other).min() > 1e-3
    moved, learned = make(framework, name, alpha=0.2), make(framework, name)
    moved.alpha = learned.alpha = 0.5
    np.testing.assert_allclose(losses(framework, moved, batch).loss[0], expected)
    np.testing.assert_allclose(losses(framework, learned, batch).loss[0][:2], expected)


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("options", [{"alpha": 0.2}, {}])
def test_a_schedule_moves_alpha(framework, options):
    """In steps that are recorded or traced, too."""

    def trained(schedules, **given):
        agent = make(framework, "SAC", **given)
        agent.set(policy=SquashedGaussianPolicy(), batch=8, pool_size=99, seed=3, schedules=schedules)
        groups = [framework.optimizers.sgd(group, 1e-2) for group in agent.param]
        agent.train(optimizer=groups, total_steps=60, p=0, jit_compile=False)
        return framework.parameters(agent)

    made_so = trained({}, alpha=0.5)
    still, moved = trained({}, **options), trained({"alpha": Linear(0.5, 0.5)}, **options)
    for values, expected, before in zip(moved, made_so, still, strict=False):  # a learned alpha comes last
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-7)
        assert not np.array_equal(values, before)


def test_a_learned_alpha_follows_the_entropy_that_is_wanted_now(framework):
    agent = make(framework, "SAC")
    agent.target_entropy = 50.0
    batch = sample(agent)
    _, log_prob = squashed(agent, batch.obs[0], batch.extras["noise"][0])
    ready(agent, framework.optimizers.sgd(agent.param, 0.01)).update(batch, {})
    assert framework.array(agent.log_alpha)[0] == pytest.approx(0.01 * (log_prob.mean() + 50.0), rel=1e-4)


def test_a_fixed_alpha_is_that_of_the_agent_not_of_its_file(framework, tmp_path):
    former, agent = make(framework, "SAC", alpha=0.2), make(framework, "SAC", alpha=0.5)
    former.save_param(tmp_path / "former")
    agent.restore_param(tmp_path / "former")
    batch = sample(agent)
    assert abs(losses(framework, agent, batch).loss[0] - losses(framework, former, batch).loss[0]).min() > 1e-3
    agent.alpha = 0.2
    np.testing.assert_allclose(losses(framework, agent, batch).loss[0], losses(framework, former, batch).loss[0])
    learned = make(framework, "SAC")
    learned.restore_param(tmp_path / "former")  # begins to learn it from there
    assert framework.array(learned.entropy_weight()) == pytest.approx(0.2)


def by_state(agent, s, noise, clip_mean):
    """Actions, and their log-density, where deviations are those of a sum over features."""
    *hidden, output = agent.actor.means.dense_layers()
    features = perceptron(hidden, s)
    mean = np.clip(perceptron([output], features), -clip_mean, clip_mean)
    deviation = np.sqrt(features**2 @ np.full((8, 2), np.exp(2 * -0.5)) + 1e-6)
    u = mean + deviation * noise
    log_normal = -0.5 * noise**2 - np.log(deviation) - 0.5 * np.log(2 * np.pi)
    return CENTRE + SCALE * np.tanh(u), (log_normal - np.log(1 - np.tanh(u) ** 2)).sum(1)


def test_sac_losses_with_state_dependent_exploration(framework):
    gsde = GSDE(learn_features=True, clip_mean=0.05)
    agent = make(framework, "SAC", alpha=0.3, gsde=gsde, initial_log_std=-0.5)
    assert isinstance(agent.default_policy(), SquashedGSDEPolicy)
    batch = sample(agent)
    s, a, r, next_s, discount = columns(batch)
    next_a, next_log_prob = by_state(agent, next_s, batch.extras["next_noise"][0], 0.05)
    next_q = np.minimum(q(agent.target_critic_1, next_s, next_a), q(agent.target_critic_2, next_s, next_a))
    target = r + discount * (next_q - 0.3 * next_log_prob)
    errors = [q(critic, s, a) - target for critic in (agent.critic_1, agent.critic_2)]
    new_a, log_prob = by_state(agent, s, batch.extras["noise"][0], 0.05)
    new_q = np.minimum(q(agent.critic_1, s, new_a), q(agent.critic_2, s, new_a))
    expected = [(0.3 * log_prob - new_q).mean(), (errors[0] ** 2 + errors[1] ** 2).mean()]
    np.testing.assert_allclose(losses(framework, agent, batch).loss[0], expected, rtol=1e-4, atol=1e-6)
    before = framework.array(agent.log_std)
    ready(agent, [framework.optimizers.sgd(group, 0.1) for group in agent.param]).update(batch, {})
    assert np.abs(framework.array(agent.log_std) - before).max() > 1e-4, "deviations learn with the actor"
    answers = agent.learner.act(s)
    assert agent.learner.actor.is_mirrored()
    assert answers.shape == (6, 2 + 2 * 8)
    assert np.abs(answers[:, :2]).max() <= 0.05 + 1e-7


def test_the_smallest_of_the_drawn_targets_counts_and_the_actor_follows_the_mean(framework):
    agent = make(framework, "SAC", alpha=0.3, num_critics=3, num_target_critics=2)
    batch = sample(agent)
    s, a, r, next_s, discount = columns(batch)
    next_a, next_log_prob = squashed(agent, next_s, batch.extras["next_noise"][0])
    values = np.stack([q(target, next_s, next_a) for target in agent.target_critics()], axis=1)
    order = np.argsort(batch.extras["draws"][0], axis=1)
    assert len(set(map(tuple, np.sort(order[:, :2], axis=1).tolist()))) > 1, "samples have draws of their own"
    next_q = np.take_along_axis(values, order[:, :2], axis=1).min(axis=1)
    target = r + discount * (next_q - 0.3 * next_log_prob)
    errors = [q(critic, s, a) - target for critic in agent.critics()]
    new_a, log_prob = squashed(agent, s, batch.extras["noise"][0])
    new_q = np.mean([q(critic, s, new_a) for critic in agent.critics()], axis=0)
    update = losses(framework, agent, batch)
    expected = [(0.3 * log_prob - new_q).mean(), np.sum(np.square(errors), axis=0).mean()]
    np.testing.assert_allclose(update.loss[0], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(update.td_error[0], np.abs(errors).mean(0), rtol=1e-4)
    assert len(agent.param[1]) == 3 * 4
    assert "draws" not in make(framework, "SAC", num_critics=3).normal_inputs


@pytest.mark.parametrize("name", ["critic", "target_critic"])
def test_critics_and_their_targets_drop_units_in_losses(framework, name):
    """The others give 0 whatever they drop, so that these alone make losses differ from one time to the next."""
    agent = make(framework, "SAC", alpha=0.3, critic_dropout=0.5)
    for still in agent.target_critics() if name == "critic" else agent.critics():
        layer = still.net.output_layer
        if framework.package == "pytorch":
            layer.weight.data.zero_()
        else:
            layer.kernel.assign(np.zeros(layer.kernel.shape))
    batch = sample(agent)
    first, again = (losses(framework, agent, batch).loss[0][1] for _ in range(2))
    assert abs(first - again) > 1e-4


def test_layer_normalisation_of_critics(framework):
    agent = make(framework, "SAC", critic_layer_norm=True)
    assert len(agent.param[1]) == 2 * 6  # two dense layers, a scale and an offset
    ready(agent, [framework.optimizers.sgd(group, 0.1) for group in agent.param]).update(sample(agent), {})


def test_critics_that_cannot_be_are_refused(framework):
    kind = framework.agents.SAC
    with pytest.raises(SettingsError, match="num_target_critics must be at most the number of critics, 2, got 3"):
        kind(env=Target, num_target_critics=3)
    layered = framework.module("shared/layered").layered_network
    with pytest.raises(SettingsError, match=r"critic_dropout and critic_layer_norm put layers into an MLP.*Layered"):
        kind(env=Target, critic_dropout=0.1, network=lambda *sizes: layered(*sizes, layers=[{"dense": 4}]))
