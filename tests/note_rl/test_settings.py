import pytest

from note_rl.errors import SettingsError
from note_rl.policy import GreedyQPolicy, SoftmaxPolicy
from note_rl.settings import Budget, ReplaySettings, RolloutSettings, Settings, settings_from_set


def test_the_manuals_names_become_clear_ones():
    settings = settings_from_set(policy=GreedyQPolicy(), pool_size=500, batch=8, num_updates=3, update_batches=7)
    assert settings.experience == ReplaySettings(
        capacity=500, batch_size=8, train_freq=None, gradient_steps=3, target_update_interval=7
    )


def test_on_policy_rollouts_are_as_long_as_update_steps_where_nothing_else_is_said():
    settings = settings_from_set(
        policy=SoftmaxPolicy(), PPO=True, pool_size=10000, batch=64, update_steps=1000, num_envs=4
    )
    assert settings.experience == RolloutSettings(num_steps=250, batch_size=64, num_epochs=10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pool_size": 10, "batch": 4}, "needs a policy"),
        ({"policy": GreedyQPolicy(), "pool_size": 10}, "pool_size and batch"),
        ({"policy": GreedyQPolicy(), "pool_size": 10, "batch": 20}, "more than the pool holds"),
        (
            {"policy": GreedyQPolicy(), "pool_size": 10, "batch": 2, "update_batches": 1, "update_steps": 1},
            "one of them",
        ),
        ({"policy": GreedyQPolicy(), "pool_size": 10, "batch": 2, "rollout_steps": 5}, "PPO=True"),
        ({"policy": GreedyQPolicy(), "PPO": True, "num_updates": 5}, "belongs to replay"),
        ({"policy": GreedyQPolicy(), "PPO": True, "rollout_steps": 8, "batch": 16, "num_envs": 1}, "8 x num_envs=1"),
        ({"policy": GreedyQPolicy(), "pool_size": 10, "batch": 2, "criterion": 5.0}, "needs trial_count"),
        ({"policy": GreedyQPolicy(), "pool_size": 10, "batch": 2, "max_grad_norm": 0.0}, "max_grad_norm"),
        ({"policy": GreedyQPolicy(), "pool_size": 0, "batch": 2}, "capacity must be at least 1, got 0"),
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
