"""Values of the wrong kind are refused in the names that were typed, and harmless ones are taken for what they mean."""

import logging
import math

import numpy as np
import pytest

from note_rl import errors
from note_rl.collect.evaluation import random_policy_returns
from note_rl.errors import SettingsError
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.policy.noise import GaussianWhiteNoiseProcess
from note_rl.settings import Budget, ReplaySettings, RolloutSettings, WorkerSettings
from note_rl.settings.schedules import Linear
from note_rl.settings.set_arguments import settings_from_set
from note_rl.settings.settings_table import arguments_of_set
from note_rl.settings.window_functions import kept
from note_rl.support.setting_fields import fields_of
from note_rl.training.callbacks import Callback, LambdaCallback, as_callbacks
from note_rl.training.train_options import TrainOptions, train_options
from tests.note_rl.small_dqn import ONCE, dqn
from tests.note_rl.small_environments import Counting

COUNTED = [
    *("pool_size", "batch", "num_updates", "gradient_steps", "num_steps", "train_freq", "learning_starts"),
    *("update_batches", "update_steps", "trial_count", "frame_stack", "num_envs", "seed"),
]
COUNTED_ON_POLICY = ["rollout_steps", "num_epochs", "update_steps", "batch", "pool_size"]
COUNTED_BY_TRAIN = ["processes", "processes_her", "processes_pr", "num_store", "clearing_freq", "window_size_", "p"]
NO_COUNT = [2.5, "8", True, np.bool_(True), math.nan, math.inf, -1, [3], 3j]


def replay(**arguments):
    return settings_from_set(policy=EpsGreedyQPolicy(0.1), **arguments)


def on_policy(**arguments):
    return settings_from_set(policy=SoftmaxPolicy(), PPO=True, **arguments)


@pytest.mark.parametrize(
    ("door", "name"),
    [
        *((replay, name) for name in COUNTED),
        *((on_policy, name) for name in COUNTED_ON_POLICY),
        *((lambda **told: train_options(told), name) for name in COUNTED_BY_TRAIN),
        *((lambda **told: Budget(**told), name) for name in ("episodes", "total_steps")),
        (lambda **told: ReplaySettings(**told), "capacity"),
        (lambda **told: RolloutSettings(**told), "num_env_steps"),
        (lambda **told: WorkerSettings(**told), "processes"),
        (lambda **told: random_policy_returns(Counting, seed=0, **told), "num_episodes"),
    ],
)
def test_what_counts_something_is_a_whole_number(door, name):
    for value in NO_COUNT:
        with pytest.raises(SettingsError, match=rf"^{name} must be "):
            door(**{name: value})


@pytest.mark.parametrize("value", [300, 300.0, np.int64(300), np.float32(300), np.uint16(300)], ids=repr)
def test_whole_numbers_may_be_of_any_type(value):
    experience = replay(pool_size=value, train_freq=value).experience
    assert [experience.capacity, experience.train_freq] == [300, 300]
    assert [type(number) for number in (experience.capacity, experience.train_freq)] == [int, int]
    assert repr(Budget(total_steps=value).total_steps) == repr(replay(seed=value).seed) == "300"


@pytest.mark.parametrize(
    ("door", "name"), [(replay, "frame_stack"), (replay, "update_steps"), (on_policy, "rollout_steps")]
)
def test_nothing_at_all_does_not_stand_for_the_default(door, name):
    with pytest.raises(SettingsError, match=f"{name} must be at least 1, got 0"):
        door(**{name: 0})


@pytest.mark.parametrize(
    ("door", "arguments", "message"),
    [
        (replay, {"gamma": "0.9"}, "gamma must be a finite number, got '0.9'"),
        (replay, {"gamma": math.nan}, "gamma must be a finite number, got nan"),
        (replay, {"criterion": "200", "trial_count": 3}, "criterion must be a finite number, got '200'"),
        (replay, {"max_grad_norm": math.nan}, "max_grad_norm must be a finite number, got nan; leave it out"),
        (replay, {"max_grad_norm": -1}, "max_grad_norm must be above 0, got -1; leave it out for no clipping"),
        (replay, {"PR": True, "alpha": "x"}, "alpha must be a finite number"),
        (replay, {"PR": True, "beta": 2}, "beta must lie between 0 and 1, got 2"),
        (on_policy, {"gae_lambda": "x"}, "gae_lambda must be a finite number"),
        (on_policy, {"PR": True, "initial_ratio": -1}, "initial_ratio must be at least 0, got -1"),
        (replay, {"PR": "yes"}, "PR must be True or False, got 'yes'"),
        (on_policy, {"PR": 1}, "PR must be True or False, got 1"),
        (replay, {"HER": 1}, "HER must be True or False, got 1"),
        (replay, {"TRL": "x"}, "TRL must be True or False, got 'x'"),
        (replay, {"normalise_obs": "x"}, "normalise_obs must be True or False"),
        (replay, {"PPO": "x"}, "PPO must be True or False"),
        (replay, {"schedules": {"eps": 0.1}}, r"schedules\['eps'\] must be a schedule such as Linear"),
        (replay, {"schedules": {"eps": Linear}}, r"schedules\['eps'\] must be a schedule"),
        (replay, {"schedules": [1]}, r"schedules must be a dict such as"),
        (replay, {"expert": 3}, "expert must be Demonstrations"),
        (replay, {"seed": -1}, "seed must be at least 0, got -1"),
        (replay, {"device": 3}, "device must be a name such as 'cpu'"),
        (replay, {"num_envs": "many"}, "num_envs must be a number or 'auto', got 'many'"),
        (replay, {"pool_size": 10, "batch": 20}, r"batch/batch_size=20 is more than the pool holds \(pool_size/capac"),
        (replay, {"polcy": 1}, r"set\(\) has no argument 'polcy'; did you mean policy\?"),
        (replay, {"epsilon": 1}, r"set\(\) has no argument 'epsilon'; epsilon belongs to the policy: EpsGreedyQPolicy"),
        (on_policy, {"rollout_steps": 64, "update_steps": 64}, "both say how long a rollout is"),
    ],
)
def test_wrong_values_are_refused_in_the_words_of_set(door, arguments, message):
    with pytest.raises(SettingsError, match=message):
        door(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window_size": "x"}, "window_size must be a number of transitions"),
        ({"window_size": True}, "window_size must be a number of transitions"),
        ({"window_size": 1.5}, "window_size=1.5 is a share"),
        ({"jit_compile": 2}, "jit_compile must be True, False or 'auto', got 2"),
        ({"save_data": "x"}, "save_data must be True or False"),
        ({"random": "x"}, "random must be True or False"),
        ({"callbacks": 3}, "callbacks must hold objects with a method such as on_episode_end, got 3"),
        ({"callbacks": [None]}, "callbacks must hold objects"),
        ({"callbacks": [Callback]}, r"got the class Callback: write Callback\(\)"),
        ({"windowsize": 1}, r"train\(\) has no argument 'windowsize'; did you mean window_size\?"),
    ],
)
def test_wrong_values_are_refused_in_the_words_of_train(arguments, message):
    with pytest.raises(SettingsError, match=message):
        train_options(arguments)


def test_none_is_as_if_it_were_not_said():
    policy = EpsGreedyQPolicy(0.1)
    told = settings_from_set(policy=policy, noise=None, pool_size=None, PR=None, HER=None, seed=None)
    assert told == settings_from_set(policy=policy)


def test_one_callback_needs_no_list():
    one = LambdaCallback(on_episode_end=lambda: None)
    assert train_options({"callbacks": one}).callbacks == as_callbacks([one]) == as_callbacks((one,)) == [one]
    assert as_callbacks(None) == []


def test_every_name_that_is_typed_as_a_number_or_truth_value_has_a_kind():
    without = {"policy", "noise", "schedules", "callbacks", "adaptive"}
    fields = [*arguments_of_set().values(), *fields_of(TrainOptions)]
    assert {one.name for one in fields if one.kind is None} == without


def test_a_pool_of_ppo_is_said_to_have_no_effect_once(caplog, monkeypatch):
    monkeypatch.setattr(errors, "_said", set())
    with caplog.at_level(logging.WARNING, logger="note_rl"):
        on_policy(pool_size=500)
        on_policy(pool_size=500)
    assert [record.message.split(":")[0] for record in caplog.records] == ["pool_size=500 has no effect with PPO=True"]


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (50, 50),
        (0.5, 100),
        (lambda: 50, 50),
        (lambda p: np.int64(50), 50),
        (lambda: 0.5, 100),
        (lambda: 3, 8),
        (lambda: 0, 8),
        (lambda: 0.01, 8),
        (lambda: 1e6, 1_000_000),
    ],
)
def test_a_window_keeps_what_it_says_and_at_least_a_minibatch(size, expected, caplog, monkeypatch):
    monkeypatch.setattr(errors, "_said", set())
    with caplog.at_level(logging.WARNING, logger="note_rl"):
        assert [kept(size, capacity=200, fewest=8) for _ in range(3)] == [expected] * 3
    said = ["a window leaves less than a minibatch of 8 transitions: a minibatch is kept"]
    assert [record.message for record in caplog.records] == (said if expected == 8 else [])


@pytest.mark.parametrize("given", [-3, "x", None, math.nan, True], ids=repr)
def test_a_window_function_that_gives_no_number_is_refused(given):
    with pytest.raises(SettingsError, match="what the window function gives"):
        kept(lambda: given, capacity=200, fewest=8)


def test_noise_is_still_taken_for_a_policy():
    assert settings_from_set(noise=GaussianWhiteNoiseProcess(), policy=None).num_envs is None


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
