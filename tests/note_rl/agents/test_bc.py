"""Behaviour cloning: its loss by hand, and that it does what it was shown."""

from dataclasses import replace

import numpy as np
import pytest

from note_rl.examples.experts import cartpole_recording, recorded
from note_rl.policy import GaussianPolicy, SoftmaxPolicy
from tests.note_rl.frameworks import frameworks
from tests.note_rl.samples import ready, sample


@pytest.mark.parametrize("framework", frameworks())
def test_the_loss_is_how_unlikely_the_expert_s_actions_are(framework) -> None:
    given = sample(1, 8)
    agent = framework.agents.BC(2, 4, 2, entropy_coef=0.1)
    probs = agent.learner.act(given.obs[0])
    entropy = -(probs * np.log(probs)).sum(1)
    expected = np.mean(-np.log(probs[np.arange(8), given.action[0]]) - 0.1 * entropy)
    assert ready(framework, agent).loss_of(given)[0, 0] == pytest.approx(expected, rel=1e-4)

    agent = framework.agents.BC(env="Pendulum-v1", hidden_size=4, initial_log_std=-0.5)
    rng = np.random.default_rng(0)
    obs, action = rng.normal(size=(1, 8, 3)).astype(np.float32), rng.normal(size=(1, 8, 1)).astype(np.float32)
    numbers = {"obs": obs, "next_obs": obs, "action": action}
    mean = agent.learner.act(obs[0])[:, :1]
    density = -0.5 * ((action[0] - mean) / np.exp(-0.5)) ** 2 + 0.5 - 0.5 * np.log(2 * np.pi)
    loss = ready(framework, agent).loss_of(replace(given, **numbers))[0, 0]
    assert loss == pytest.approx(-density.mean(), rel=1e-4)


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("framework", frameworks())
def test_it_does_what_an_expert_did(framework) -> None:
    from note_rl.seeding import seed_everything

    seed_everything(0)
    steps = cartpole_recording(num_episodes=2)
    agent = framework.agents.BC(hidden_size=16)
    agent.set(policy=SoftmaxPolicy(), dataset=steps, seed=0)
    critic = [values.copy() for key, values in agent.learner.get_state().items() if key.startswith("agent/critic")]
    agent.train(optimizer=framework.optimizers.adam(agent.param, 3e-3), total_steps=600, p=0, jit_compile=False)
    assert agent.num_gradient_steps == 600
    assert np.mean(agent.predict(steps.obs)[0] == steps.action) > 0.9
    assert agent.evaluate(3, seed=5).mean >= 475
    for before, after in zip(
        critic,
        (values for key, values in agent.learner.get_state().items() if key.startswith("agent/critic")),
        strict=True,
    ):
        np.testing.assert_array_equal(before, after)


def test_actions_that_are_numbers(tmp_path) -> None:
    import torch

    from note_rl.agents.pytorch import BC, PPO
    from note_rl.seeding import seed_everything

    seed_everything(0)
    steps = recorded(lambda obs: (2.0 * obs[1:2]).clip(-2, 2), "Pendulum-v1", 2)
    agent = BC(env="Pendulum-v1", hidden_size=16)
    agent.set(policy=GaussianPolicy(), dataset=steps, seed=0)
    agent.train(torch.optim.Adam(agent.param, 1e-2), total_steps=600, p=0, jit_compile=False)
    agent.save_param(tmp_path / "weights")
    goes_on = PPO(env="Pendulum-v1", hidden_size=16)
    goes_on.restore_param(tmp_path / "weights")
    np.testing.assert_array_equal(goes_on.predict(steps.obs)[0], agent.predict(steps.obs)[0])
    assert np.abs(agent.predict(steps.obs)[0] - steps.action).mean() < 0.1
    assert float(agent.log_std.detach()) < -1.0, "it knows how sure it may be"
