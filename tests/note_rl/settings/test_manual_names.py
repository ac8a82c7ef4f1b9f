"""Names, defaults and attributes that the manuals document, beside their snippets."""

import math

import numpy as np
import pytest

from note_rl import policy as policies
from note_rl import rl
from note_rl.errors import AgentContractError, EnvironmentMismatchError, SettingsError
from note_rl.policy import (
    BoltzmannGumbelQPolicy,
    BoltzmannQPolicy,
    EpsGreedyQPolicy,
    GumbelSoftmaxPolicy,
    SoftmaxPolicy,
)
from note_rl.policy.noise import GaussianWhiteNoiseProcess, OrnsteinUhlenbeckProcess
from note_rl.settings.replay_choices import Priority, RolloutPriority
from note_rl.settings.set_arguments import settings_from_set
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting

BOTH = pytest.mark.parametrize("framework", frameworks())
ONCE = pytest.mark.parametrize("framework", frameworks()[:1])  # what happens outside the frameworks
DISCRETE = [
    *("EpsGreedyQPolicy", "AdaptiveEpsGreedyPolicy", "GreedyQPolicy", "BoltzmannQPolicy", "MaxBoltzmannQPolicy"),
    *("BoltzmannGumbelQPolicy", "GumbelSoftmaxPolicy", "SoftmaxPolicy"),
]
QUIET = {"p": 0, "jit_compile": False}


def dqn(framework, env=lambda: Counting(5), kind=None, **settings):
    agent = (kind or framework.agents.DQN)(hidden_size=(4,), env=env)
    told = {
        "policy": EpsGreedyQPolicy(0.1),
        "pool_size": 50,
        "batch": 4,
        "num_updates": 1,
        "update_batches": 1,
        "seed": 1,
    }
    agent.set(**{**told, **settings})
    return agent


def train(framework, agent, episodes=3, **options):
    return agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-2), episodes=episodes, **QUIET, **options)


def test_gumbel_softmax_takes_single_vectors_and_any_number_of_rows():
    policy = GumbelSoftmaxPolicy(1.0, eps=1.0)
    chosen = np.array([policy.gumbel_softmax(np.zeros(3)) for _ in range(3000)])
    np.testing.assert_array_equal(np.sort(chosen, axis=1), [[0.0, 0.0, 1.0]] * 3000)
    np.testing.assert_allclose(chosen.mean(axis=0), 1 / 3, atol=5 * math.sqrt(2 / 9 / 3000))
    greedy = GumbelSoftmaxPolicy(eps=0.0)
    np.testing.assert_array_equal(greedy.onehot_from_logits([0.0, 5.0, 1.0]), [0.0, 1.0, 0.0])
    assert greedy.gumbel_softmax(np.zeros((2, 4, 3))).sum() == 8
    assert greedy.gumbel_softmax_sample([1.0, 2.0]).sum() == pytest.approx(1.0)
    assert greedy.sample_gumbel(shape=3, eps=1e-20).shape == (3,)


@pytest.mark.parametrize("name", DISCRETE)
def test_every_policy_selects_by_keyword(name):
    policy = getattr(policies, name)()
    scores = [0.0, 0.0, 1.0, 0.0]
    assert {policy.select_action(q_values=np.array(scores)) for _ in range(50)} <= {0, 1, 2, 3}
    assert type(policy.select_action(scores)) is int
    for nothing in (np.zeros((2, 4)), [], None, "scores"):
        with pytest.raises(SettingsError, match="must be one vector of numbers, one per action"):
            policy.select_action(q_values=nothing)


def test_documented_arguments_of_select_action():
    probs = np.array([0.0, 1.0, 0.0])
    policy = SoftmaxPolicy()
    assert policy.select_action(nb_actions=3, probs=probs) == policy.select_action(probs=probs) == 1
    assert policy.select_action(3, probs) == policy.select_action(probs) == policy.select_action(q_values=probs) == 1
    with pytest.raises(SettingsError, match=r"nb_actions=7, but probs has the shape \[3\]"):
        policy.select_action(7, probs)
    gumbel = BoltzmannGumbelQPolicy(C=1e-6)
    assert gumbel.select_action(q_values=probs, step_counter=4) == 1
    assert gumbel.action_counts.sum() == 4
    gumbel.select_action(q_values=probs, step_counter=0)
    assert gumbel.action_counts.sum() == 4


@pytest.mark.parametrize(
    "make",
    [
        *(lambda value, kind=kind: kind(value) for kind in (EpsGreedyQPolicy, BoltzmannQPolicy, GumbelSoftmaxPolicy)),
        lambda value: GaussianWhiteNoiseProcess(mu=value),
        lambda value: GaussianWhiteNoiseProcess(sigma=value),
        lambda value: GaussianWhiteNoiseProcess(n_steps_annealing=value),
        lambda value: OrnsteinUhlenbeckProcess(theta=value),
        lambda value: OrnsteinUhlenbeckProcess(0.15, dt=value),
        lambda value: BoltzmannQPolicy(clip=value),
    ],
)
def test_numbers_of_policies_and_noises_are_numbers(make):
    for value in ("0.1", None, math.nan, [1.0]):
        with pytest.raises(SettingsError, match=" must be "):
            make(value)


@pytest.mark.parametrize("on_policy", [False, True])
def test_documented_defaults_say_nothing(on_policy):
    """set() as the table of the manual has it, word by word; whatever is not the default needs PR=True."""
    documented = {"initial_ratio": 1.0, "initial_TD": 7.0, "lambda_": 0.5, "alpha": 0.7}
    nothing = dict.fromkeys(("noise", "num_updates", "num_steps", "update_batches", "update_steps", "trial_count"))
    told = {"policy": SoftmaxPolicy(), "PPO": on_policy, **nothing, **dict.fromkeys(("HER", "TRL", "MARL"), False)}
    plain = settings_from_set(**told).experience
    assert settings_from_set(**told, **documented, PR=False, IRL=False).experience == plain
    assert plain.priority is None
    expected = RolloutPriority() if on_policy else Priority()
    assert settings_from_set(**told, **documented, PR=True).experience.priority == expected
    for name, value in documented.items():
        with pytest.raises(SettingsError, match=f"{name}={value / 2} (needs PR=True|belongs to on-policy training)"):
            settings_from_set(**told, **{name: value / 2})


@ONCE
@pytest.mark.parametrize("name", ["window_size_func", "window_size_fn"])
def test_window_functions_by_both_names(framework, name):
    kind = type("Own", (framework.agents.DQN,), {name: lambda self, p: 6})
    as_method, as_attribute = dqn(framework, kind=kind), dqn(framework)
    setattr(as_attribute, name, lambda p: 6)
    for agent in (as_method, as_attribute):
        train(framework, agent, 6)
        assert len(agent._trainer.experience.buffer.ring) == 6


@ONCE
def test_window_functions_that_differ_or_are_none(framework):
    agent = dqn(framework)
    agent.window_size_func, agent.window_size_fn = (lambda p: 6), (lambda p: 7)
    with pytest.raises(SettingsError, match="window_size_func and window_size_fn are two names of one thing"):
        train(framework, agent)
    agent.window_size_func, agent.window_size_fn = None, 100
    with pytest.raises(SettingsError, match="window_size_fn must be a function such as"):
        train(framework, agent)


@pytest.mark.slow_in_keras
@BOTH
def test_history_of_a_life_and_of_a_restored_one(framework, tmp_path):
    agent = dqn(framework)
    assert (agent.reward_list, agent.loss_list, agent.total_episode, agent.time) == ([], [], 0, 0.0)
    losses = [train(framework, agent, 3), agent.train(episodes=2, **QUIET)]
    expected = [one for result in losses for one in result.losses]
    agent.save(tmp_path / "life")
    other = dqn(framework)
    other.restore(tmp_path / "life")
    for one in (agent, other):
        assert one.reward_list == one.history.returns == [15.0] * 5
        assert one.history.losses == pytest.approx(expected, nan_ok=True)
        assert one.loss_list == pytest.approx(expected, nan_ok=True)  # here each phase is an episode
        assert (one.total_episode, one.step_counter, one.batch_counter) == (5, 25, agent.num_gradient_steps)
        assert one.batch == 4
    assert 0.0 < losses[0].seconds < agent.time <= losses[0].seconds + losses[1].seconds
    assert other.time == agent.time
    other.train(optimizer=framework.optimizers.adam(other.param, 1e-2), episodes=1, **QUIET)
    assert (len(other.loss_list), other.total_episode) == (6, 6)
    assert other.time > agent.time


@ONCE
def test_losses_of_episodes_are_means_of_their_phases(framework, tmp_path):
    """Episodes of 5 steps, phases of 2 or 12: those that end in the same phase share its loss."""
    for train_freq, shares in [(2, [[0, 1, 2], [3, 4], [5, 6, 7], [8, 9]]), (12, [[0], [0], [1], [1]])]:
        agent = dqn(framework, train_freq=train_freq)
        result = agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-2), total_steps=24, **QUIET)
        expected = [np.nanmean([result.losses[phase] for phase in phases]) for phases in shares]
        assert agent.loss_list == pytest.approx(expected)
        assert len(agent.history.losses) == 24 // train_freq
    agent = dqn(framework, train_freq=2)  # restored in the middle of an episode
    result = agent.train(optimizer=framework.optimizers.adam(agent.param, 1e-2), total_steps=8, **QUIET)
    agent.save(tmp_path / "half")
    other = dqn(framework, train_freq=2)
    other.restore(tmp_path / "half")
    rest = other.train(optimizer=framework.optimizers.adam(other.param, 1e-2), total_steps=10, **QUIET)
    assert other.loss_list[1] == pytest.approx(np.mean([result.losses[3], rest.losses[0]]))


@ONCE
def test_an_agent_may_have_attributes_of_these_names(framework):
    agent = dqn(framework)
    agent.time, agent.history, agent.batch = "noon", ["mine"], 3
    train(framework, agent)
    assert (agent.time, agent.history, agent.batch) == ("noon", ["mine"], 3)
    assert len(agent.reward_list) == 3


@ONCE
def test_effective_sample_sizes_by_the_manuals_names(framework):
    agent = dqn(framework, PR=True)
    assert agent.compute_ess_from_weights([1.0, 1.0, 2.0]) == pytest.approx(16 / 6)
    assert agent.ema_ess is None
    agent.adjust_func = lambda: agent.adjust_window_size(smooth_alpha=1.0)
    train(framework, agent, 5)
    assert agent.ema_ess == pytest.approx(agent.compute_ess_from_weights(agent._trainer.experience.priorities()))


def test_rl_is_what_it_is_in_the_manuals():
    assert rl.EpsGreedyQPolicy is EpsGreedyQPolicy
    assert rl.GaussianWhiteNoiseProcess is GaussianWhiteNoiseProcess
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        rl.Nothing


NEAR = [
    ("train", {"episode": 3}, "did you mean episodes?"),
    ("train", {"num_episodes": 3}, "did you mean episodes?"),
    ("train", {"callback": []}, "here it is callbacks"),
    ("train", {"shuffle": False}, "minibatches are drawn at random always"),
    ("train", {"total_timesteps": 3}, "here it is total_steps"),
    ("train", {"window_size_fn": len}, "attribute of the agent"),
    ("set", {"ppo": True}, "did you mean PPO?"),
    ("set", {"epsilon": 0.1}, "belongs to the policy"),
    ("set", {"buffer_size": 100}, "here it is pool_size"),
    ("set", {"lr": 1e-3}, "is the optimizer's"),
    ("evaluate", {"episodes": 3}, "did you mean num_episodes?"),
    ("save", {"file": "x"}, "here it is path"),
    ("save", {"path": "x", "save_dat": True}, "did you mean save_data?"),
    ("save_param", {"pth": "x"}, "did you mean path?"),
    ("restore", {"filename": "x"}, "here it is path"),
    ("restore_param", {"pat": "x"}, "did you mean path?"),
    ("visualize_reward", {"windows": 3}, "did you mean window?"),
    ("visualize_loss", {"file": "x"}, "here it is path"),
    ("visualize_reward_loss", {"window_size": 3}, "did you mean window?"),
    ("animate_agent", {"steps": 3}, "did you mean max_steps?"),
    ("get_optimal_processes", {"memory": 3}, "did you mean memory_mb?"),
    ("adjust", {"target_es": 3}, "did you mean target_ess?"),
    ("adjust_batch_size", {"batch_param": {}}, "did you mean batch_params?"),
    ("adabatch", {"num_samples": 1, "lr_parms": {}}, "did you mean lr_params?"),
    ("adjust_window_size", {"scal": 1.0}, "did you mean scale?"),
]


@ONCE
@pytest.mark.parametrize(("method", "arguments", "hint"), NEAR)
def test_names_that_are_nearly_right(framework, method, arguments, hint):
    with pytest.raises(SettingsError) as caught:
        getattr(dqn(framework), method)(**arguments)
    *_, wrong = arguments
    assert str(caught.value).startswith(f"{method}() has no argument {wrong!r}; ")
    assert hint in str(caught.value)


@ONCE
@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("save", {}, r"save\(\): missing a required argument: 'path'"),
        ("save", {"path": 3}, "path must be the name of a file, got 3"),
        ("restore", {"path": None}, "path must be the name of a file, got None"),
        ("save", {"path": "x", "save_data": "yes"}, "save_data must be True or False"),
        ("visualize_loss", {"window": "3"}, "window must be a whole number"),
        ("animate_agent", {"max_steps": "200"}, "max_steps must be a whole number"),
        ("adabatch", {"num_samples": "3"}, "num_samples must be a whole number"),
        ("adabatch", {}, "missing a required argument: 'num_samples'"),
        ("adjust_window_size", {"scale": "1"}, "scale must be a finite number"),
        ("adjust", {"target_ess": "1"}, "target_ess must be a finite number"),
        ("get_optimal_processes", {"memory_mb": "1"}, "memory_mb must be a finite number"),
    ],
)
def test_values_of_the_wrong_kind(framework, method, arguments, message):
    with pytest.raises(SettingsError, match=message):
        getattr(dqn(framework), method)(**arguments)


@ONCE
def test_arguments_of_the_constructor(framework):
    with pytest.raises(SettingsError, match=r"DQN\(\) has no argument 'hidden_dim'; here it is hidden_size"):
        framework.agents.DQN(state_dim=4, hidden_dim=128, action_dim=2)
    with pytest.raises(SettingsError, match="state_dim must be a whole number, got '4'"):
        framework.agents.DQN("4", 128, 2)


@BOTH
def test_observations_of_another_size(framework):
    small = framework.agents.DQN(3, (4,), 2, env="CartPole-v1")
    small.set(policy=EpsGreedyQPolicy(0.1), batch=4)
    refusal = r"DQN cannot answer observations of the shape \[4\] \(float32\): its network takes 3 numbers"
    for call in (lambda: train(framework, small), lambda: small.evaluate(1)):
        with pytest.raises(EnvironmentMismatchError, match=refusal):
            call()
    agent = dqn(framework, env="CartPole-v1")
    train(framework, agent)
    with pytest.raises(EnvironmentMismatchError, match=r"shape \[5\] \(float32\): its network takes 4 numbers"):
        agent.learner.act(np.zeros((2, 5), np.float32))
    with pytest.raises(EnvironmentMismatchError, match=r"a batch .* is wanted, obs.None. of a single one"):
        agent.learner.act(np.zeros(4, np.float32))
    assert agent.learner.act(np.zeros((3, 4), np.float32)).shape == (3, 2)


@BOTH
def test_observations_that_an_agents_own_network_does_not_take(framework):
    class Own(framework.base()):
        def __init__(self):
            super().__init__()
            self.env = "CartPole-v1"
            self.weights = framework.variable(np.ones((3, 2)))
            self.param = [self.weights]

        def action(self, s):
            return s @ self.weights

        def __call__(self, s, a, next_s, r, d):
            raise AssertionError

    with pytest.raises(EnvironmentMismatchError, match=r"Own cannot answer .* \[4\] \(float32\): .*(shape|imension)"):
        Own().evaluate(1)


WRONG = {
    "__call__": [lambda self, s, a, next_s, r: 0, lambda self: 0, lambda self, s, a, next_s, r, d, w, more: 0],
    "action": [lambda self: 0, lambda self, s, i: 0],
    "update_param": [lambda self, tau: 0],
    "adjust_func": [lambda self, agent: 0],
    "window_size_func": [lambda self, p, q: 0],
}


@BOTH
@pytest.mark.parametrize("name", WRONG)
def test_methods_with_other_arguments_are_refused_before_the_first_step(framework, name):
    for method in WRONG[name]:
        agent = dqn(framework, kind=type("Own", (framework.agents.DQN,), {name: method}))
        with pytest.raises(AgentContractError, match=rf"Own.{name} takes \(.*\), but is called with \("):
            train(framework, agent)
        assert agent.num_env_steps == 0


@ONCE
def test_methods_that_are_not_called_may_take_what_they_like(framework):
    own = {"value": lambda self: 0, "reward": lambda self: 0, "reward_done_func": lambda self: 0}
    kind = type("Own", (framework.agents.DQN,), {**own, "__call__": lambda self, *batch: framework.agents.DQN.__call__(
        self, *batch[:5])})  # fmt: skip
    assert train(framework, dqn(framework, kind=kind)).num_gradient_steps > 0


@BOTH
def test_triplets_are_for_agents_that_read_them(framework):
    with pytest.raises(AgentContractError, match=r"TRL=True draws triplets.*the loss of DQN reads single transitions"):
        train(framework, dqn(framework, TRL=True))

    class Own(framework.agents.DQN):
        def __call__(self, s, a, next_s, r, d):
            return super().__call__(s, a, next_s, r, d)

    agent = dqn(framework, kind=Own, TRL=True)
    with pytest.raises(AgentContractError, match=r"TRL=True draws triplets.*Own.__call__ fails on them"):
        train(framework, agent)

    class Reading(framework.agents.DQN):
        def __call__(self, s, a, next_s, r, d):
            self.discount = self.discount[:, 0]  # of the first of the two transitions
            return super().__call__(s[:, 0], a[:, 0], next_s[:, 0], r[:, 0], d[:, 0])

    assert train(framework, dqn(framework, kind=Reading, TRL=True)).num_gradient_steps > 0


def test_keras_callbacks_are_told_logs():
    """They want them everywhere, at the beginning and the end of training too."""
    import keras

    framework, told = frameworks()[1].values[0], []
    callback = keras.callbacks.LambdaCallback(
        on_train_begin=lambda logs: told.append(dict(logs)), on_train_end=lambda logs: told.append(dict(logs))
    )
    train(framework, dqn(framework), 1, callbacks=[callback])
    assert told == [{"num_env_steps": 0.0}, {"num_env_steps": 5.0}]
