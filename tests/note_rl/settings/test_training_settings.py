import pytest

from note_rl.errors import SettingsError
from note_rl.policy import EpsGreedyQPolicy, GreedyQPolicy, NoisyPolicy, PolicyPerAgent, SoftmaxPolicy
from note_rl.policy.noise import GaussianWhiteNoiseProcess
from note_rl.settings import (
    Budget,
    Hindsight,
    Priority,
    ReplaySettings,
    RolloutPriority,
    Settings,
    Window,
    with_train_arguments,
)
from note_rl.settings.demonstrations import Demonstrations
from note_rl.settings.set_arguments import settings_from_set


def test_the_manuals_names_become_clear_ones():
    settings = settings_from_set(policy=GreedyQPolicy(), pool_size=500, batch=8, num_updates=3, update_batches=7)
    assert settings.experience == ReplaySettings(
        capacity=500, batch_size=8, train_freq=None, gradient_steps=3, target_update_interval=7
    )


def test_on_policy_rollouts_are_as_long_as_update_steps_of_all_environments_together():
    experience = on_policy(pool_size=10000, batch=64, update_steps=1000)
    assert (experience.batch_size, experience.num_epochs) == (64, 10)
    assert [experience.steps_per_env(number) for number in (1, 4, 3, 2000)] == [1000, 250, 333, 1]
    assert [on_policy(rollout_steps=128).steps_per_env(number) for number in (1, 4)] == [128, 128]
    assert on_policy().steps_per_env(4) == 2048


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pool_size": 10, "batch": 4}, "needs a policy"),
        ({"policy": GreedyQPolicy(), "pool_size": 10, "batch": 20}, "more than the pool holds"),
        (
            {"policy": GreedyQPolicy(), "pool_size": 10, "batch": 2, "update_batches": 1, "update_steps": 1},
            "one of them",
        ),
        ({"policy": GreedyQPolicy(), "pool_size": 10, "batch": 2, "rollout_steps": 5}, "PPO=True"),
        ({"policy": GreedyQPolicy(), "PPO": True, "gradient_steps": 5}, "belongs to replay"),
        (
            {"policy": GreedyQPolicy(), "PPO": True, "rollout_steps": 8, "batch": 16, "num_envs": 1},
            "8 steps of each of 1 environments",
        ),
        ({"policy": GreedyQPolicy(), "pool_size": 10, "batch": 2, "criterion": 5.0}, "needs trial_count"),
        ({"policy": GreedyQPolicy(), "pool_size": 10, "batch": 2, "max_grad_norm": 0.0}, "max_grad_norm"),
        ({"policy": GreedyQPolicy(), "pool_size": 0, "batch": 2}, "pool_size must be at least 1, got 0"),
    ],
)
def test_contradictions_are_refused_with_the_reason(arguments, message):
    with pytest.raises(SettingsError, match=message):
        settings_from_set(**arguments)


def test_budget():
    assert Budget(total_steps=200).progress(50, 0) == 0.25
    assert Budget(episodes=4).progress(999, 1) == 0.25
    assert Budget().progress(999, 999) == 0.0
    with pytest.raises(SettingsError, match="both say how long"):
        Budget(total_steps=1, episodes=1)


def test_settings_can_be_made_directly():
    settings = Settings(experience=ReplaySettings(), policy=GreedyQPolicy())
    assert settings.schedules == {}


def replay(**arguments):
    return settings_from_set(policy=GreedyQPolicy(), pool_size=100, batch=8, **arguments).experience


def on_policy(**arguments):
    return settings_from_set(policy=SoftmaxPolicy(), PPO=True, **arguments).experience


def test_what_the_manuals_leave_out_has_a_default():
    experience = settings_from_set(policy=GreedyQPolicy()).experience
    assert (experience.capacity, experience.batch_size) == (10_000, 64)
    assert settings_from_set(policy=GreedyQPolicy(), pool_size=20).experience.batch_size == 20


@pytest.mark.parametrize(
    ("arguments", "attribute", "expected"),
    [
        ({"PR": True}, "priority", Priority(alpha=0.7, beta=0.4, initial_td=7.0)),
        (
            {"PR": True, "initial_TD": 3, "alpha": 0.5, "beta": 0.6},
            "priority",
            Priority(alpha=0.5, beta=0.6, initial_td=3),
        ),
        ({"PR": Priority(alpha=0.2), "initial_TD": 2.0}, "priority", Priority(alpha=0.2, initial_td=2.0)),
        ({"HER": True}, "hindsight", Hindsight(strategy="future", fraction=0.8)),
        ({"HER": "final"}, "hindsight", Hindsight(strategy="final")),
        ({"HER": Hindsight(fraction=0.5)}, "hindsight", Hindsight(fraction=0.5)),
        ({"TRL": True}, "trajectories", True),
        ({"IRL": True}, "learned_reward", True),
        ({"num_steps": 3}, "num_steps", 3),
        ({"gradient_steps": 5}, "gradient_steps", 5),
        ({"frame_stack": 4}, "frame_stack", 4),
    ],
)
def test_each_flag_becomes_an_object(arguments, attribute, expected):
    assert getattr(replay(**arguments), attribute) == expected


def test_flags_of_prioritized_rollouts():
    experience = on_policy(PR=True, initial_ratio=0.9, initial_TD=2.0, lambda_=0.25, alpha=0.5, update_batches=17)
    assert experience.priority == RolloutPriority(initial_ratio=0.9, initial_td=2.0, lambda_=0.25, alpha=0.5)
    assert experience.target_update_interval == 17
    assert on_policy(PR=RolloutPriority(alpha=0.1)).priority.alpha == 0.1


def test_noise_explores_for_actions_that_are_numbers():
    assert isinstance(settings_from_set(noise=GaussianWhiteNoiseProcess()).policy, NoisyPolicy)
    several = settings_from_set(policy=[EpsGreedyQPolicy(0.1), EpsGreedyQPolicy(0.2)], MARL=True)
    assert isinstance(several.policy, PolicyPerAgent)
    assert several.multi_agent


def test_what_else_users_of_other_libraries_expect():
    settings = settings_from_set(
        policy=SoftmaxPolicy(),
        PPO=True,
        gamma=0.98,
        gae_lambda=0.8,
        device="cpu",
        normalise_obs=True,
        normalise_reward=True,
    )
    assert (settings.gamma, settings.gae_lambda, settings.device) == (0.98, 0.8, "cpu")
    assert settings.normalise_obs
    assert settings.normalise_reward


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"HER": True, "TRL": True}, "HER and TRL cannot be combined"),
        ({"HER": True, "num_steps": 3}, "HER and num_steps above 1 cannot be combined: only the first reward"),
        ({"HER": True, "IRL": True}, "HER and IRL cannot be combined: both say"),
        ({"HER": True, "frame_stack": 4}, "no place for a goal"),
        ({"TRL": True, "PR": True}, "TRL and PR cannot be combined: a priority belongs to one transition"),
        ({"TRL": True, "num_steps": 3}, "TRL and num_steps above 1"),
        ({"TRL": True, "IRL": True}, "TRL and IRL"),
        ({"IRL": True, "num_steps": 3}, "IRL and num_steps above 1"),
        ({"HER": "later"}, "strategy must be one of future, final, episode, got 'later'"),
        ({"PR": RolloutPriority()}, "is for PPO=True"),
        ({"alpha": 0.5}, "alpha=0.5 needs PR=True"),
        ({"initial_TD": 5.0}, "initial_TD=5.0 needs PR=True"),
        ({"PR": True, "alpha": 1.5}, "alpha must lie between 0 and 1, got 1.5"),
        ({"PR": True, "initial_TD": 0.0}, "initial_TD/initial_td=0.0 must be above 0"),
        ({"lambda_": 0.3}, "lambda_=0.3 belongs to on-policy"),
        ({"gae_lambda": 0.3}, "gae_lambda=0.3 belongs to on-policy"),
        ({"num_updates": 3, "gradient_steps": 4}, "two names of one thing"),
        ({"num_steps": 0}, "num_steps must be at least 1, got 0"),
        ({"gamma": 1.5}, "gamma must lie between 0 and 1, got 1.5"),
        ({"MARL": True, "HER": True}, "MARL and HER cannot be combined"),
        ({"MARL": True, "IRL": True}, "MARL and IRL cannot be combined"),
        ({"MARL": True, "TRL": True}, "MARL and TRL cannot be combined"),
        ({"frame_stack": 4, "normalise_obs": True}, "divide by 255"),
        ({"noise": GaussianWhiteNoiseProcess()}, "both say how to explore"),
    ],
)
def test_flags_that_cannot_be_combined_are_refused_with_the_reason(arguments, message):
    with pytest.raises(SettingsError, match=message):
        replay(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"HER": True}, "HER=True reads old transitions"),
        ({"TRL": True}, "TRL=True reads old transitions"),
        ({"num_steps": 3}, "use gae_lambda"),
        ({"MARL": True}, "MARL and PPO cannot be combined"),
        ({"initial_ratio": 2.0}, "initial_ratio=2.0 needs PR=True"),
        ({"PR": True, "beta": 0.5}, "beta=0.5 anneals"),
        ({"PR": Priority()}, "is for replay"),
        ({"num_epochs": 0}, "num_epochs must be at least 1, got 0"),
        ({"batch": 0}, "batch must be at least 1, got 0"),
    ],
)
def test_what_does_not_go_with_rollouts_is_refused(arguments, message):
    with pytest.raises(SettingsError, match=message):
        on_policy(**arguments)


def test_windows_are_arguments_of_train():
    experience = with_train_arguments(
        replay(PR=True), window_size=50, clearing_freq=40, window_size_=20, window_size_pr=30
    )
    assert experience.window == Window(size=50, clearing_freq=40, clear_size=20, on_sync=30)
    asked = len
    assert with_train_arguments(replay(), window_size_func=asked).window == Window(on_sync=asked)
    assert with_train_arguments(replay(PR=True), window_size_pr=9, window_size_func=asked).window.on_sync is asked
    assert with_train_arguments(on_policy(PR=True), window_size_ppo=90).window == 90
    assert with_train_arguments(on_policy(), window_size_func=asked).window is None  # nothing has priority
    unchanged = replay()
    assert with_train_arguments(unchanged) is unchanged


@pytest.mark.parametrize(
    ("experience", "arguments", "message"),
    [
        (replay(), {"window_size": 1.5}, "is a share"),
        (replay(), {"window_size": 0}, "window_size must be at least 1, got 0"),
        (replay(), {"window_size": 7}, "leaves 7 transitions of the pool, less than a minibatch"),
        (replay(), {"window_size": 0.05}, "leaves 5 transitions"),
        (replay(), {"clearing_freq": 10}, "belong together"),
        (replay(), {"window_size_": 10}, "belong together"),
        (replay(), {"clearing_freq": 10, "window_size_": 10}, "would empty the pool"),
        (replay(), {"window_size_ppo": 10}, "add PPO=True and PR=True"),
        (replay(), {"window_size_pr": 10}, "keeps what has priority; add PR=True"),
        (on_policy(), {"window_size": 100}, "trims a pool, and PPO=True has none"),
        (on_policy(), {"clearing_freq": 100}, "trims a pool"),
        (on_policy(), {"window_size_pr": 100}, "trims a pool"),
        (on_policy(), {"window_size_ppo": 100}, "there are none; add PR=True"),
    ],
)
def test_windows_and_workers_that_do_not_fit_are_refused(experience, arguments, message):
    with pytest.raises(SettingsError, match=message):
        with_train_arguments(experience, **arguments)


def test_settings_with_demonstrations_can_be_compared():
    experts = Demonstrations([[0.0]], [0])
    assert replay(IRL=True, expert=experts) == replay(IRL=True, expert=experts)
    assert replay(IRL=True, expert=experts) != replay(IRL=True)
