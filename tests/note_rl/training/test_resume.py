"""Training 2N steps is training N, saving, restoring elsewhere and training N more, bit for bit."""

import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

from note_rl.learners.pytorch.step_graph.replay import replay
from note_rl.policy import (
    EpsGreedyQPolicy,
    GaussianPolicy,
    GreedyQPolicy,
    GSDEPolicy,
    NoisyPolicy,
    SoftmaxPolicy,
    SquashedGaussianPolicy,
    SquashedGSDEPolicy,
)
from note_rl.policy.noise import OrnsteinUhlenbeckProcess
from note_rl.seeding import seed_everything
from note_rl.settings import GSDE
from note_rl.training.callbacks import LambdaCallback
from note_rl.training.checkpoint import read_checkpoint
from tests.note_rl.agents.shared.several_choices import dials
from tests.note_rl.environments.test_action_masks import Places
from tests.note_rl.frameworks import frameworks

PYTORCH = next(framework.values[0] for framework in frameworks() if framework.id == "pytorch")
REPLAY = {"pool_size": 300, "batch": 8, "num_updates": 3, "learning_starts": 20, "train_freq": 16}


@dataclass(frozen=True)
class Case:
    agent: str
    env: Any
    settings: dict[str, Any]
    arguments: dict[str, Any] = field(default_factory=dict)
    total_steps: int = 128
    options: dict[str, Any] = field(default_factory=dict)


CASES = {
    "replay": Case("DQN", "CartPole-v1", {"policy": EpsGreedyQPolicy(0.2), "update_batches": 4, **REPLAY}),
    "prioritized": Case("DQN", "CartPole-v1", {"policy": EpsGreedyQPolicy(0.2), "PR": True, **REPLAY}),
    "rainbow": Case(  # all of its parts; noise in the network explores
        "DQN",
        "CartPole-v1",
        {"policy": GreedyQPolicy(), "PR": True, "num_steps": 3, "num_envs": 2, "update_batches": 4, **REPLAY},
        {"noisy_std": 0.5, "double": True, "dueling": True, "stream_size": 4, "values": "categorical", "num_atoms": 5},
    ),
    "quantiles": Case(
        "DQN",
        "CartPole-v1",
        {"policy": EpsGreedyQPolicy(0.2), "num_envs": 2, **REPLAY},
        {"values": "quantiles", "num_quantiles": 5},
    ),
    "n_step_windows": Case(
        "DQN",
        "CartPole-v1",
        {"policy": EpsGreedyQPolicy(0.2), "num_steps": 3, "num_envs": 2, **REPLAY},
        options={"clearing_freq": 50, "window_size_": 20, "num_store": 2},
    ),
    "environments_that_do_not_divide_a_phase": Case(
        "DQN", "CartPole-v1", {"policy": EpsGreedyQPolicy(0.2), "num_envs": 7, **REPLAY}
    ),
    "masked": Case("DQN", Places, {"policy": EpsGreedyQPolicy(0.2), "num_steps": 3, "num_envs": 2, **REPLAY}),
    "rollout": Case(
        "PPO",
        "CartPole-v1",
        {"policy": SoftmaxPolicy(), "PPO": True, "rollout_steps": 16, "batch": 16, "num_epochs": 2, "num_envs": 2},
        {"hidden_size": (8,)},
    ),
    "several_choices": Case(
        "PPO",
        dials,
        {"policy": SoftmaxPolicy(), "PPO": True, "rollout_steps": 16, "batch": 16, "num_epochs": 2, "num_envs": 2},
        {"hidden_size": (8,)},
    ),
    "trust_region": Case(
        "TRPO",
        "Pendulum-v1",
        {"policy": GaussianPolicy(), "rollout_steps": 16, "num_envs": 2},
        {"hidden_size": (8,), "critic_iterations": 2, "critic_batch_size": 12},
    ),
    "sequences": Case(
        "ACER",
        "CartPole-v1",
        {"policy": SoftmaxPolicy(), "num_envs": 2, "sequence_length": 4, "pool_size": 50, "learning_starts": 30},
        {"hidden_size": (8,)},
    ),
    "tree_search": Case(  # with noise at the root
        "AlphaZero",
        "CartPole-v1",
        {"policy": SoftmaxPolicy(), "rollout_steps": 16, "batch": 16, "num_epochs": 2, "num_envs": 2},
        {"hidden_size": (8,), "num_simulations": 4},
    ),
    "normalised_prioritized_gaussian_rollout": Case(
        "PPO",
        "Pendulum-v1",
        {
            "policy": GaussianPolicy(),
            **{"PPO": True, "PR": True, "rollout_steps": 64, "batch": 16, "num_epochs": 2},
            **{"normalise_obs": True, "normalise_reward": True},
        },
        total_steps=512,
    ),
    "state_dependent_rollout": Case(  # a noise matrix lasts from one rollout into the next
        "A2C",
        "Pendulum-v1",
        {"policy": GSDEPolicy(hold=11), "PPO": True, "rollout_steps": 8, "num_envs": 2, "normalise_obs": True},
        {"hidden_size": (8,), "gsde": GSDE()},
    ),
    "state_dependent_noise_in_the_loss": Case(
        "SAC",
        "Pendulum-v1",
        {"policy": SquashedGSDEPolicy(hold=70), **REPLAY, "train_freq": 50},
        {"hidden_size": (8,), "gsde": GSDE(learn_features=True, clip_mean=2.0), "initial_log_std": -1.0},
        total_steps=400,
    ),
    "running_statistics": Case(
        "CrossQ",
        "Pendulum-v1",
        {"policy": SquashedGaussianPolicy(), **REPLAY, "train_freq": 50},
        {"hidden_size": (8,), "critic_hidden_size": (8,)},
        total_steps=400,
    ),
    "critics_that_are_drawn": Case(
        "SAC",
        "Pendulum-v1",
        {"policy": SquashedGaussianPolicy(), **REPLAY, "train_freq": 50},
        {"num_critics": 3, "num_target_critics": 2, "critic_dropout": 0.1, "critic_layer_norm": True},
        total_steps=400,
    ),
    "truncated_quantiles": Case(
        "TQC",
        "Pendulum-v1",
        {
            "policy": SquashedGaussianPolicy(),
            **{"PR": True, "num_steps": 3, "normalise_obs": True, **REPLAY, "train_freq": 50},
        },
        {"num_quantiles": 5},
        total_steps=400,
    ),
    "discrete_entropy": Case("SACDiscrete", "CartPole-v1", {"policy": SoftmaxPolicy(), **REPLAY}),
    "noise_with_a_memory": Case(
        "DDPG",
        "Pendulum-v1",
        {"noise": OrnsteinUhlenbeckProcess(0.15, sigma=0.2), **REPLAY, "train_freq": 50},
        total_steps=400,
    ),
    "one_optimizer_for_groups_that_wait": Case(
        "TD3", "Pendulum-v1", {"policy": NoisyPolicy(), **REPLAY, "train_freq": 50}, total_steps=400
    ),
    "noise_in_the_loss": Case(
        "SAC", "Pendulum-v1", {"policy": SquashedGaussianPolicy(), **REPLAY, "train_freq": 50}, total_steps=400
    ),
}


_ONE_OPTIMIZER = ("PPO", "TD3")


def make(framework, case, seed=3):
    make_agent = getattr(framework.agents, case.agent)  # imports the framework, which is then seeded
    seed_everything(seed)
    arguments = {"hidden_size": (8,), **case.arguments}
    if "noisy_std" in arguments:
        mlp = framework.module("shared/networks").MLP
        arguments["network"] = partial(mlp, hidden_sizes=(8,), noisy_std=arguments.pop("noisy_std"))
    agent = make_agent(**arguments, env=case.env)
    agent.set(seed=seed, **copy.deepcopy(case.settings))  # a policy may remember what it drew
    if isinstance(agent.param[0], (list, tuple)) and case.agent not in _ONE_OPTIMIZER:
        return agent, [framework.optimizers.adam(group, 1e-2) for group in agent.param]
    return agent, framework.optimizers.adam(agent.param, 1e-2)


KERAS = (
    *("prioritized", "trust_region", "state_dependent_rollout", "noise_in_the_loss", "running_statistics"),
    *("critics_that_are_drawn", "truncated_quantiles", "rainbow", "quantiles", "discrete_entropy", "tree_search"),
    *("sequences", "noise_with_a_memory", "one_optimizer_for_groups_that_wait"),
)
"""test_trainer.py has plain DQN and PPO. The other cases keep the same parts of Keras as one of these; what else
they keep is in NumPy, of which PyTorch shows enough."""


@pytest.mark.traced
@pytest.mark.slow_in_keras(
    *("trust_region", "state_dependent_rollout", "noise_in_the_loss", "critics_that_are_drawn", "truncated_quantiles"),
    *("rainbow", "quantiles", "discrete_entropy", "tree_search", "sequences", "noise_with_a_memory"),
    "running_statistics",  # learners/test_modes.py has those of a DQN in Keras
    "one_optimizer_for_groups_that_wait",  # learners/keras/test_waiting_groups.py has its counts in a file
)
@pytest.mark.parametrize(
    ("framework", "name"),
    [
        pytest.param(*framework.values, name, id=f"{framework.id}-{name}")
        for framework in frameworks()
        for name in CASES
        if framework.id == "pytorch" or name in KERAS
    ],
)
def test_in_two_halves_it_is_the_same(framework, name, tmp_path):
    case = CASES[name]
    options = {"jit_compile": False, "p": 0, **case.options}  # compiling would be most of the time
    whole, optimizer = make(framework, case)
    straight = whole.train(optimizer=optimizer, total_steps=case.total_steps, **options)
    first, optimizer = make(framework, case)
    stop = LambdaCallback(
        on_phase_end=lambda phase, logs: setattr(first, "stop_training", 2 * logs["num_env_steps"] >= case.total_steps)
    )
    half = first.train(optimizer=optimizer, total_steps=case.total_steps, callbacks=[stop], **options)
    assert half.stop_reason == "stop_training"
    first.save(tmp_path / "half")
    second, optimizer = make(framework, case, seed=99)  # other weights and seed until it is restored
    second.restore(tmp_path / "half")
    middle = second.evaluate(2)
    assert middle.returns.tolist() == first.evaluate(2).returns.tolist()
    rest = second.train(optimizer=optimizer, total_steps=case.total_steps, **options)
    assert half.returns + rest.returns == straight.returns
    assert rest.num_gradient_steps == straight.num_gradient_steps > half.num_gradient_steps > 0
    files = []
    for agent in (second, whole):
        agent.save(tmp_path / "end")
        files.append(read_checkpoint(tmp_path / "end"))
    (arrays, head), (expected, expected_head) = files
    assert {**head, "seconds": 0.0} == {**expected_head, "seconds": 0.0}  # the checksum of everything is in it, too
    assert arrays.keys() == expected.keys()
    np.testing.assert_array_equal(np.array(half.losses + rest.losses), np.array(straight.losses))


def rounded_otherwise(recording, inputs, matmul):
    """Stands for compiled code: the same, but for the last digits."""
    run = replay(recording, inputs)
    return lambda *values: run(*(tensor * (1 + 1e-6) if tensor.is_floating_point() else tensor for tensor in values))


@pytest.mark.parametrize(("update_batches", "stage"), [(4, 2), (1, 3)])
def test_a_resumed_run_rounds_as_the_one_that_was_not_stopped(tmp_path, monkeypatch, update_batches, stage):
    """Compiling pays or not by the steps to come: compiled for most of the run, and not worth it for the rest of it."""
    monkeypatch.setattr("note_rl.learners.pytorch.step_graph.choice._WORTH_RECORDING", 36)
    monkeypatch.setattr(
        "note_rl.learners.pytorch.step_graph.choice.why_not_compiled",
        lambda recording, expected, device: "" if 76 < expected < 79 else "it takes longer than it saves",
    )
    monkeypatch.setattr("note_rl.learners.pytorch.step_graph.builder.compiled", rounded_otherwise)
    options = {"policy": EpsGreedyQPolicy(0.2), "update_batches": update_batches, **REPLAY}
    case = Case("DQN", "CartPole-v1", options, total_steps=600)
    whole, optimizer = make(PYTORCH, case)
    whole.train(optimizer=optimizer, total_steps=case.total_steps, p=0)
    assert whole.learner.stages == (0, stage)
    first, optimizer = make(PYTORCH, case)
    stops = iter((0.4, 0.7, 0.95))

    def save(phase, logs):
        nonlocal stop_at
        if logs["num_env_steps"] >= stop_at * case.total_steps:
            first.save(tmp_path / str(stop_at))
            stop_at = next(stops, 2.0)
            first.stop_training = stop_at > 1

    stop_at = next(stops)
    first.train(optimizer=optimizer, total_steps=case.total_steps, callbacks=[LambdaCallback(on_phase_end=save)], p=0)
    for stopped in ("0.4", "0.7", "0.95"):
        second, optimizer = make(PYTORCH, case, seed=99)
        second.restore(tmp_path / stopped)
        second.train(optimizer=optimizer, total_steps=case.total_steps, p=0)
        assert second.learner.stages == (0, stage)
        state = second.learner.get_state()
        for name, expected in whole.learner.get_state().items():
            np.testing.assert_array_equal(state[name], expected, err_msg=f"{name}, stopped at {stopped}")
