"""The contract of learners, over both frameworks, against NumPy and numbers by hand."""

import numpy as np
import pytest

from note_rl.errors import AgentContractError, CheckpointError
from note_rl.learners.base import num_parameters
from note_rl.seeding import seed_everything
from tests.note_rl.frameworks import frameworks
from tests.note_rl.learners.dqn_agents import dqn
from tests.note_rl.samples import part_of, ready, sample
from tests.note_rl.small_environments import Counting

pytestmark = pytest.mark.parametrize("framework", frameworks())


def perceptron(layers, x):
    for kernel, bias, activation in layers:
        x = x @ kernel + bias
        x = np.maximum(x, 0) if activation == "relu" else np.tanh(x) if activation == "tanh" else x
    return x


def copied(layers):
    return [(kernel.copy(), bias.copy(), activation) for kernel, bias, activation in layers]


def test_dqn_loss_is_the_huber_distance_to_the_target(framework):
    agent = dqn(framework)
    online, batch = copied(agent.q_net.dense_layers()), sample(1, 16)
    target_layers = copied(agent.target_q_net.dense_layers())
    q = np.take_along_axis(perceptron(online, batch.obs[0]), batch.action[0][:, None], 1)[:, 0]
    target = batch.reward[0] + batch.discount[0] * perceptron(target_layers, batch.next_obs[0]).max(1)
    error = np.abs(q - target)
    expected = np.where(error < 1, 0.5 * error**2, error - 0.5).mean()
    assert (error > 1).any()
    assert (error < 1).any()
    loss = ready(framework, agent).update(batch, {}).loss
    assert loss.shape == (1, 1)
    assert loss[0, 0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.usefixtures("eager_updates")
def test_ppo_loss_is_the_clipped_surrogate(framework):
    seed_everything(0)
    agent = framework.agents.PPO(hidden_size=(8,), env=Counting, clip=0.1, entropy_coef=0.3, value_coef=0.7)
    batch = sample(1, 32, log_prob_old=1, advantage=1, return_=1, value_old=1)
    batch.extras["log_prob_old"][:] = np.log(0.5) + 0.2 * batch.extras["log_prob_old"]
    logits = perceptron(agent.actor.dense_layers(), batch.obs[0])
    log_probs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    ratio = np.exp(np.take_along_axis(log_probs, batch.action[0][:, None], 1)[:, 0] - batch.extras["log_prob_old"][0])
    advantage = batch.extras["advantage"][0]
    surrogate = np.minimum(ratio * advantage, np.clip(ratio, 0.9, 1.1) * advantage)
    entropy = -(np.exp(log_probs) * log_probs).sum(1)
    value = perceptron(agent.critic.dense_layers(), batch.obs[0])[:, 0]
    expected = (-surrogate + 0.7 * (value - batch.extras["return_"][0]) ** 2 - 0.3 * entropy).mean()
    assert ready(framework, agent).update(batch, {}).loss.sum() == pytest.approx(expected, rel=1e-4)


def test_a_burst_is_the_same_as_its_steps_one_by_one(framework):
    whole = sample(6, sync=True)
    burst, single = dqn(framework), dqn(framework)
    losses = ready(framework, burst).update(whole, {}).loss
    learner = ready(framework, single)
    one_by_one = np.concatenate([learner.update(part_of(whole, k), {}).loss for k in range(6)])
    np.testing.assert_allclose(losses, one_by_one, rtol=1e-5)
    for mine, theirs in zip(framework.parameters(burst), framework.parameters(single), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.usefixtures("eager_updates")
def test_targets_move_only_where_sync_says_so_and_by_tau(framework):
    agent = dqn(framework, tau=0.25)
    learner = ready(framework, agent)
    before = copied(agent.target_q_net.dense_layers())[0][0]
    learner.update(sample(2), {})
    np.testing.assert_array_equal(agent.target_q_net.dense_layers()[0][0], before)
    learner.update(sample(1, sync=True), {})
    online = agent.q_net.dense_layers()[0][0]
    np.testing.assert_allclose(agent.target_q_net.dense_layers()[0][0], 0.75 * before + 0.25 * online, rtol=1e-5)


def test_target_network_is_not_trained(framework):
    agent = dqn(framework)
    assert not any(p is t for p in agent.param for t in getattr(agent.target_q_net, "variables", []))
    before = copied(agent.target_q_net.dense_layers())
    ready(framework, agent).update(sample(5), {})
    for (kernel, bias, _), (old_kernel, old_bias, _) in zip(agent.target_q_net.dense_layers(), before, strict=True):
        np.testing.assert_array_equal(kernel, old_kernel)
        np.testing.assert_array_equal(bias, old_bias)


@pytest.mark.usefixtures("eager_updates")
def test_the_scheduled_learning_rate_is_the_one_used(framework):
    moved = {}
    for rate in (0.1, 0.2):
        agent = dqn(framework)
        before = framework.parameters(agent)
        ready(framework, agent, names=["learning_rate"]).update(sample(1), {"learning_rate": rate})
        moved[rate] = [a - b for a, b in zip(framework.parameters(agent), before, strict=True)]
    for small, large in zip(moved[0.1], moved[0.2], strict=True):
        np.testing.assert_allclose(2 * small, large, rtol=1e-3, atol=1e-6)


def test_gradients_are_clipped_to_their_global_norm(framework):
    agent = dqn(framework)
    before = framework.parameters(agent)
    ready(framework, agent, framework.optimizers.sgd(agent.param, 1.0), clip=0.01).update(sample(1, 16), {})
    change = [a - b for a, b in zip(framework.parameters(agent), before, strict=True)]
    assert np.sqrt(sum((c**2).sum() for c in change)) == pytest.approx(0.01, rel=1e-3)


def test_changing_hyperparameters_takes_effect_without_compiling_again(framework):
    seed_everything(0)
    agent = framework.agents.PPO(hidden_size=(8,), env=Counting, value_coef=0.0)
    batch = sample(1, 32, log_prob_old=1, advantage=1, return_=1, value_old=1)
    learner = ready(framework, agent, framework.optimizers.sgd(agent.param, 0.0), names=["clip", "learning_rate"])
    losses = []
    for clip in (0.01, 0.5, 0.01):
        agent.clip = clip
        losses.append(learner.update(batch, {"clip": clip, "learning_rate": 0.0}).loss.sum())
    assert losses[0] == losses[2] != losses[1]
    assert learner.num_traces == (0 if framework.package == "pytorch" else 1)  # three steps are not worth recording


def test_training_again_compiles_again_only_where_something_has_changed(framework):
    seed_everything(0)

    class Scaled(framework.agents.DQN):
        options = None

        def __call__(self, s, a, next_s, r, d):
            return self.options["scale"][0] * super().__call__(s, a, next_s, r, d)

    agent = Scaled(hidden_size=(8,), env=Counting, gamma=0.5)
    agent.options = {"scale": [1.0]}
    optimizer, batch = framework.optimizers.sgd(agent.param, 0.0), sample(1, 16)
    learner = ready(framework, agent, optimizer)
    first = learner.update(batch, {}).loss.item()
    traces = learner.num_traces
    learner.prepare(optimizer, None, [], "auto")
    assert learner.update(batch, {}).loss.item() == first
    assert learner.num_traces == traces
    agent.options["scale"][0] = 3.0
    learner.prepare(None, None, [], "auto")
    assert learner.update(batch, {}).loss.item() == pytest.approx(3.0 * first, rel=1e-5)
    learner.prepare(framework.optimizers.sgd(agent.param, 0.1), None, [], "auto")
    before = framework.parameters(agent)
    learner.update(batch, {})
    assert any((now != then).any() for now, then in zip(framework.parameters(agent), before, strict=True))


class Weighed:
    """Its action() and its loss are multiplied by attributes; its optimizer does nothing."""

    def build(self, framework):
        class Agent(framework.base()):
            def __init__(self):
                super().__init__()
                self.one = framework.variable([1.0])
                self.param, self.options, self.scale, self.offset, self.diary = [self.one], {"scale": [1.0]}, 1.0, 1, []

            def action(self, s):
                return s * self.scale

            def __call__(self, s, a, next_s, r, d):
                return self.one[0] * self.options["scale"][0] * self.scale + self.offset

        return Agent()


def test_a_number_changed_while_training_counts_from_the_next_update_on(framework, caplog):
    agent = Weighed().build(framework)
    learner, batch = ready(framework, agent, framework.optimizers.sgd(agent.param, 0.0)), sample(1)
    assert learner.update(batch, {}).loss.item() == 2
    traces = learner.num_traces
    agent.diary.append(3.0)  # which the loss does not look at
    assert learner.update(batch, {}).loss.item() == 2
    assert learner.num_traces == traces
    agent.options["scale"][0] = 3.0
    assert learner.update(batch, {}).loss.item() == 4
    agent.scale, agent.offset = 2.0, 0
    assert learner.update(batch, {}).loss.item() == 6
    assert not caplog.records


def test_what_never_comes_to_rest_is_warned_of_where_it_is_compiled(framework, caplog, monkeypatch):
    monkeypatch.setattr("note_rl.learners.keras.update._MOST_RECOMPILED", 2)
    agent = Weighed().build(framework)
    learner, batch = ready(framework, agent, framework.optimizers.sgd(agent.param, 0.0)), sample(1)
    losses = []
    for agent.offset in range(5):
        losses.append(learner.update(batch, {}).loss.item())
    assert losses == [1, 2, 3, 4, 5]
    said = [record.getMessage().partition(",")[0] for record in caplog.records]
    assert said == ([] if framework.package == "pytorch" else ["Agent reads offset"])


def test_a_number_changed_while_acting_counts_at_once_however_often(framework):
    agent = Weighed().build(framework)
    obs = np.ones((2, 3), np.float32)
    for agent.scale in range(9):
        np.testing.assert_array_equal(agent.learner.act(obs), np.full((2, 3), agent.scale))


class TwoLosses:
    """Each loss would also pull on the other group; only its own may move."""

    def build(self, framework):
        class Agent(framework.base()):
            def __init__(self):
                super().__init__()
                self.first, self.second = framework.variable([1.0]), framework.variable([1.0])
                self.param = [[self.first], [self.second]]

            def action(self, s):
                return s

            def __call__(self, s, a, next_s, r, d):
                product = (self.first * self.second)[0]
                return [3.0 * product, 5.0 * product]

        return Agent()


def test_each_group_is_trained_by_its_own_loss_only(framework):
    agent = TwoLosses().build(framework)
    make = framework.optimizers.sgd
    ready(framework, agent, [make(agent.param[0], 0.1), make(agent.param[1], 0.01)]).update(sample(1), {})
    assert framework.array(agent.first)[0] == pytest.approx(1.0 - 0.1 * 3.0)
    assert framework.array(agent.second)[0] == pytest.approx(1.0 - 0.01 * 5.0)


def test_one_optimizer_trains_each_group_by_its_own_loss_only(framework):
    agent = TwoLosses().build(framework)
    update = ready(framework, agent, framework.optimizers.sgd(agent.param, 0.1)).update(sample(1), {})
    assert framework.array(agent.first)[0] == pytest.approx(1.0 - 0.1 * 3.0)
    assert framework.array(agent.second)[0] == pytest.approx(1.0 - 0.1 * 5.0)
    assert update.loss.tolist() == [[8.0]]


@pytest.mark.parametrize("num_optimizers", [1, 2])
def test_groups_may_wait_for_the_steps_that_move_the_targets(framework, num_optimizers):
    agent = TwoLosses().build(framework)
    agent.groups_at_sync = (0,)
    make = framework.optimizers.adam
    optimizers = [make(group, 0.1) for group in agent.param] if num_optimizers == 2 else make(agent.param, 0.1)
    learner = ready(framework, agent, optimizers)
    moved = []
    for sync in (False, True, False, False, True, True):
        before = [framework.array(agent.first)[0], framework.array(agent.second)[0]]
        learner.update(sample(1, sync=sync), {})
        after = [framework.array(agent.first)[0], framework.array(agent.second)[0]]
        moved.append([bool(one != other) for one, other in zip(before, after, strict=True)])
    assert moved == [[False, True], [True, True], [False, True], [False, True], [True, True], [True, True]]


def test_as_many_optimizers_as_groups_are_needed(framework):
    agent = TwoLosses().build(framework)
    with pytest.raises(AgentContractError, match="3 optimizers for 2 parameter groups"):
        ready(framework, agent, [framework.optimizers.sgd(agent.param, 0.1)] * 3)


@pytest.mark.usefixtures("eager_updates")
def test_state_round_trip_gives_the_same_next_updates(framework):
    agent, other = dqn(framework, seed=0), dqn(framework, seed=1)
    first = ready(framework, agent, framework.optimizers.adam(agent.param, 0.01))
    second = ready(framework, other, framework.optimizers.adam(other.param, 0.01))
    first.update(sample(4, sync=True), {})
    second.update(sample(1), {})
    second.set_state({name: values.copy() for name, values in first.get_state().items()})
    losses = [learner.update(sample(4, seed=5, sync=True), {}).loss for learner in (first, second)]
    np.testing.assert_array_equal(*losses)
    for mine, theirs in zip(framework.parameters(agent), framework.parameters(other), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_state_of_another_agent_is_refused_and_changes_nothing(framework):
    seed_everything(0)
    larger = framework.agents.DQN(hidden_size=(16,), env=Counting)
    agent = dqn(framework)
    before = framework.parameters(agent)
    with pytest.raises(CheckpointError, match="of another agent"):
        agent.learner.set_state(larger.learner.get_state())
    for mine, theirs in zip(framework.parameters(agent), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_the_number_of_parameters_is_that_of_all_groups(framework):
    weight, bias = framework.variable([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), framework.variable([1.0, 1.0, 1.0])
    assert num_parameters([weight, bias]) == 9
    assert num_parameters([[weight, bias], [framework.variable(1.0)]]) == 10
    with pytest.raises(AgentContractError, match=r"agent\.param is empty"):
        num_parameters([])
