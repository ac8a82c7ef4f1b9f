"""restore_param() takes along the scales that the parameters were learned in."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.optim import Adagrad

from note_rl.agents.pytorch import PPO
from note_rl.agents.pytorch.recurrent import recurrent_network
from note_rl.errors import CheckpointError, SettingsError
from note_rl.optimizers.pytorch import adam
from note_rl.policy import SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.training.callbacks import LambdaCallback
from note_rl.training.checkpoint import read_checkpoint, write_checkpoint
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting
from tests.note_rl.training.short_runs import dqn, quietly


def make(**settings: Any) -> PPO:
    seed_everything(2)
    agent = PPO(hidden_size=(8,), env="CartPole-v1")
    agent.set(policy=SoftmaxPolicy(), PPO=True, rollout_steps=32, batch=16, num_epochs=1, seed=2, **settings)
    return agent


def trained(num_steps: int) -> PPO:
    agent = make(normalise_obs=True, normalise_reward=True)
    agent.train(adam(agent.param, 1e-3), total_steps=num_steps, p=0)
    return agent


@pytest.mark.parametrize("whole", [True, False], ids=["save", "save_param"])
def test_rewards_are_scaled_from_the_beginning_as_they_were(tmp_path: Path, whole: bool) -> None:
    former, path = trained(96), tmp_path / "former"
    if whole:
        former.save(path)
    else:
        former.save_param(path)
    moments = former._trainer.state.reward_normaliser.moments  # type: ignore[union-attr]
    agent = make(normalise_obs=True, normalise_reward=True)
    agent.restore_param(path)
    scales: list[float] = []
    agent.train(adam(agent.param, 1e-3), total_steps=32, p=0, callbacks=Noting(scales))
    now = agent._trainer.state.reward_normaliser.moments  # type: ignore[union-attr]
    assert scales == [float(moments.std)]
    assert now.count == moments.count + 32
    assert agent.obs_normaliser.moments is not None
    assert agent.obs_normaliser.moments.count == 96 + 32
    assert agent.num_env_steps == 32


class Noting:
    """The deviation of rewards when training begins."""

    def __init__(self, scales: list[float]) -> None:
        self.scales = scales

    def set_agent(self, agent: Any) -> None:
        self.agent = agent

    def on_train_begin(self, logs: Any) -> None:
        self.scales.append(float(self.agent._trainer.state.reward_normaliser.moments.std))


def test_an_agent_that_does_not_scale_rewards_begins_without_a_reward_normaliser(tmp_path: Path) -> None:
    trained(32).save_param(tmp_path / "former")
    agent = make()
    agent.restore_param(tmp_path / "former")
    agent.train(adam(agent.param, 1e-3), total_steps=32, p=0)
    assert agent._trainer.state.reward_normaliser is None  # type: ignore[union-attr]


def test_damaged_moments_are_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    trained(32).save_param(tmp_path / "former")
    arrays, head = read_checkpoint(tmp_path / "former")
    write_checkpoint(tmp_path / "bad", {**arrays, "reward_normaliser/count": np.zeros(3)}, head)
    agent = make(normalise_reward=True)
    before = agent.learner.get_state()
    with pytest.raises(CheckpointError, match="damaged"):
        agent.restore_param(tmp_path / "bad")
    for name, values in agent.learner.get_state().items():
        np.testing.assert_array_equal(values, before[name])


@pytest.mark.parametrize("framework", frameworks())
def test_a_restored_agent_can_be_saved_without_its_replay_pool(framework: Any, tmp_path: Path) -> None:
    """Before it is trained again, when what was restored still waits."""
    former, optimizer = dqn(framework)
    former.train(optimizer=optimizer, total_steps=80, **quietly(framework))
    former.save(tmp_path / "whole")
    agent, _ = dqn(framework)
    agent.restore(tmp_path / "whole")
    agent.save(tmp_path / "small", save_data=False)
    whole, small = (set(read_checkpoint(tmp_path / name)[0]) for name in ("whole", "small"))
    assert {name for name in whole if name.startswith("trainer/experience/")} == whole - small != set()
    other, _ = dqn(framework)
    other.restore(tmp_path / "small")
    assert other.num_env_steps == agent.num_env_steps == 80


def test_training_may_go_on_with_another_optimizer(tmp_path: Path) -> None:
    """Adagrad makes its sums of squares when it is made: they are not in a file of Adam, and begin anew."""
    former, path = trained(64), tmp_path / "former"
    former.save(path)
    agent = make(normalise_obs=True, normalise_reward=True)
    agent.restore(path)
    optimizer = Adagrad([parameter for group in agent.param for parameter in group], 1e-3)
    agent.train(optimizer, total_steps=96, p=0)
    assert agent.num_env_steps == 96
    assert all((state["sum"] > 0.0).any() for state in optimizer.state.values())


OUTPUTS = {
    "values": ({"num_atoms": 5, "values": "categorical"}, {"num_quantiles": 5, "values": "quantiles"}),
    "v_max": ({"values": "categorical"}, {"values": "categorical", "v_max": 200.0}),
    "v_min": ({"values": "categorical"}, {"values": "categorical", "v_min": np.float64(-10.0)}),
}


@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize("name", OUTPUTS)
def test_parameters_that_mean_something_else_are_refused(framework: Any, name: str, tmp_path: Path) -> None:
    """Their shapes are the same: outputs would be read as other values."""
    former, agent = (framework.agents.DQN(hidden_size=(4,), **options) for options in OUTPUTS[name])
    former.save_param(tmp_path / "former")
    before = agent.learner.get_state()
    with pytest.raises(CheckpointError, match=rf"of another agent: {name} is \S+ there and \S+ here"):
        agent.restore_param(tmp_path / "former")
    for key, values in agent.learner.get_state().items():
        np.testing.assert_array_equal(values, before[key])
    arrays, head = read_checkpoint(tmp_path / "former")
    assert head.pop("meaning")["values"] == "categorical"
    write_checkpoint(tmp_path / "older", arrays, head)  # which says nothing of it
    agent.restore_param(tmp_path / "older")


@pytest.mark.parametrize("shared", [False, True])
def test_a_memory_of_policy_and_value_is_no_memory_for_each(shared: bool, tmp_path: Path) -> None:
    former, agent = (
        PPO(network=partial(recurrent_network, units=3, hidden_sizes=(4,), shared=one)) for one in (shared, not shared)
    )
    former.save(tmp_path / "former")
    with pytest.raises(CheckpointError, match=r"of another agent: its state is \{'policy'.* there and \{'policy'"):
        agent.restore(tmp_path / "former")


class Far(Counting):
    """Shows numbers far from 0."""

    def _observation(self) -> Any:
        return 1000.0 + super()._observation()


@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize("by", ["set", "restore", "restore_param"])
def test_weights_that_know_normalised_observations_learn_from_such(framework: Any, by: str, tmp_path: Path) -> None:
    """The agent that goes on with them does not ask for it: acting is as before, and losses see the same."""

    def made(**settings: Any) -> tuple[Any, Any]:
        return dqn(framework, env=partial(Far, 10), **settings)

    former, optimizer = made(normalise_obs=True)
    former.train(optimizer=optimizer, total_steps=80, **quietly(framework))
    former.save(tmp_path / "former")
    agent, optimizer = (former, None) if by == "set" else made()
    if by == "set":
        agent.settings = replace(agent.settings, normalise_obs=False)
    else:
        getattr(agent, by)(tmp_path / "former")
    moments = agent.obs_normaliser.get_state()
    seen = []
    update = agent.learner.update
    agent.learner.update = lambda sample, told: (seen.append(sample.obs), update(sample, told))[1]
    agent.train(optimizer=optimizer, total_steps=160, **quietly(framework))
    assert np.abs(np.concatenate([obs.ravel() for obs in seen])).max() <= 10.0
    for name, values in agent.obs_normaliser.get_state().items():
        np.testing.assert_array_equal(values, moments[name])


@pytest.mark.parametrize("call", ["restore", "train"])
def test_a_callback_cannot_take_the_run_away_from_train(call: str, tmp_path: Path) -> None:
    agent = trained(32)
    agent.save(tmp_path / "file")
    asked = {"restore": lambda: agent.restore(tmp_path / "file"), "train": lambda: agent.train(total_steps=96, p=0)}
    callback = LambdaCallback(on_phase_end=lambda *_: asked[call]())
    with pytest.raises(SettingsError, match=rf"^{call}\(\) was called while train\(\) runs"):
        agent.train(total_steps=64, p=0, callbacks=[callback])
    asked[call]()
    agent.train(total_steps=96, p=0)
    assert agent.num_env_steps == 96
