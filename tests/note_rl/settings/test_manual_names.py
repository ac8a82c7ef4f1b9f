"""Names, defaults and attributes that the manuals document, beside their snippets."""

import pytest

from note_rl import rl
from note_rl.errors import SettingsError
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.policy.noise import GaussianWhiteNoiseProcess
from note_rl.settings.replay_choices import Priority, RolloutPriority
from note_rl.settings.set_arguments import settings_from_set
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_dqn import ONCE, dqn, train


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


def test_keras_callbacks_get_logs():
    """They want them everywhere, at the beginning and the end of training too."""
    import keras

    framework, told = frameworks()[1].values[0], []
    callback = keras.callbacks.LambdaCallback(
        on_train_begin=lambda logs: told.append(dict(logs)), on_train_end=lambda logs: told.append(dict(logs))
    )
    train(framework, dqn(framework), 1, callbacks=[callback])
    assert told == [{"num_env_steps": 0.0}, {"num_env_steps": 5.0}]
