"""The snippets of manual 001, an older one, with few episodes: what they need beyond the corrections of the others.

- `from Note.RL import rl` is `from note_rl import rl` (note_rl.RL is the base class of agents, so no package can have
  that name).
- `Note.models.docs_example.RL.note`, `.keras` and `.pytorch` are note_rl.examples.keras and note_rl.examples.pytorch;
  the agents of `.note` are those of `.keras`.
- `epsilon` of set() is that of the policy.
- `shuffle=` of train() is gone: minibatches are drawn at random always.
- `DQN(hidden_dim=...)` is `hidden_size`.
- PyTorch: train() begins with the optimizer.

Its distributed_training() is in test_distributed_training.py.
"""

import importlib
import pickle

import keras
import numpy as np
import pytest
import torch

from note_rl import errors, nn, rl
from note_rl.errors import CheckpointError, SettingsError
from tests.note_rl.manuals.snippets import (
    DQN_SET,
    NO_ROBOT,
    STOP,
    TWO_AGENTS,
    Snippet,
    build,
    run_short,
    train,
)

POOL = {"pool_network": True, "processes": 7}
POOL_SET = {"pool_size": 10000, "update_batches": 17}

SNIPPETS = {  # those of 002 again, but for these: test_manuals.py has plain DQN, PPO and HER, with the same settings
    "DQN, prioritized": Snippet(
        "DQN",
        (4, 128, 2),
        {**DQN_SET, **STOP, "PR": True, "initial_TD": 7, "alpha": 0.7},
        "eps",
        frameworks=("pytorch",),
    ),
    "MADDPG": Snippet(
        "MADDPG",
        (128, 0.1, 0.98, 0.005),
        {"pool_size": 3000, "batch": 32, "trial_count": 10, "MA": True},
        "softmax",
        frameworks=("pytorch",),
        correction=TWO_AGENTS,
    ),
    "HER in a pool": Snippet(
        "pool_network.DDPG_HER",
        (128, 0.1, 0.98, 0.005, 7),
        {"pool_size": 10000, "trial_count": 10, "HER": True},
        "noise",
        {**POOL, "processes_her": 4},
        frameworks=("pytorch",),
        correction=f"{NO_ROBOT}; for PyTorch train_loss is no argument of train()",
    ),
    "DQN in a pool, prioritized": Snippet(
        "pool_network.DQN_PR",
        (4, 128, 2, 7),
        POOL_SET,
        "eps",
        {**POOL, "processes_pr": 4},
        frameworks=("pytorch",),
    ),
    "train() by keywords": Snippet(
        "pool_network.DQN", (4, 128, 2, 8), POOL_SET, "eps", {**POOL, "processes": 8}, frameworks=("keras",)
    ),
}
DQN = Snippet("DQN", (4, 128, 2), DQN_SET, "eps")
HINDSIGHT = Snippet("DDPG_HER", (128, 0.1, 0.98, 0.005), {"pool_size": 10000, "batch": 256, "HER": True}, "noise")


@pytest.mark.parametrize(
    ("name", "framework"), [(name, framework) for name, one in SNIPPETS.items() for framework in one.frameworks]
)
def test_snippet(name, framework, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_short(framework, name, SNIPPETS[name])


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("framework", ["keras", "pytorch"])
def test_the_usage_example_of_set(framework):
    """Correction: hidden_size for hidden_dim."""
    snippet = Snippet("DQN", {"state_dim": 4, "hidden_size": 128, "action_dim": 2}, {}, "eps")
    model = build(framework, snippet)
    model.set(
        policy=rl.EpsGreedyQPolicy(epsilon=0.01),
        pool_size=10000,
        batch=64,
        update_steps=10,
        trial_count=100,
        criterion=200.0,
        PR=True,
        initial_TD=7.0,
        alpha=0.7,
    )
    assert model.settings.policy.eps == 0.01
    assert train(framework, model, 15, p=0).num_gradient_steps > 0


@pytest.mark.parametrize("framework", ["keras", "pytorch"])
def test_dqn_pr_is_prioritized_by_itself(framework):
    """The manual's set() for DQN_PR does not say PR."""
    model = build(framework, SNIPPETS["DQN in a pool, prioritized"])
    assert model.settings.experience.priority is not None
    model.set(PR=False)
    assert model.settings.experience.priority is None


def test_synonyms_are_two_names_of_one_thing():
    model = build("pytorch", SNIPPETS["MADDPG"])
    assert model.settings.multi_agent
    model.set(MARL=True, num_updates=3)  # a later call may say it by the other name
    model.set(gradient_steps=2)
    assert model.settings.experience.gradient_steps == 2
    with pytest.raises(SettingsError, match="are two names of one thing; give one"):
        model.set(MA=True, MARL=True)
    with pytest.raises(SettingsError, match="epsilon must be a probability, between 0 and 1, got 2"):
        rl.EpsGreedyQPolicy(epsilon=2)


def test_what_is_corrected_is_refused_in_words():
    model = build("pytorch", DQN)
    with pytest.raises(SettingsError, match=r"set\(\) has no argument 'epsilon'"):
        model.set(epsilon=0.01)
    with pytest.raises(SettingsError, match=r"train\(\) has no argument 'shuffle'"):
        model.train(episodes=1, shuffle=True)
    train_loss, optimizer = keras.metrics.Mean(), object()
    for printed in ((train_loss, optimizer, 100), (train_loss, optimizer), (None, optimizer, 100)):
        with pytest.raises(SettingsError, match="in PyTorch takes no train_loss: begin with the optimizer"):
            model.train(*printed, pool_network=True, processes=7, processes_her=4)


@pytest.mark.parametrize("framework", ["keras", "pytorch"])
@pytest.mark.parametrize("snippet", [DQN, SNIPPETS["DQN, prioritized"], HINDSIGHT], ids=["DQN", "PR", "HER"])
def test_processes_that_prepare_minibatches_are_taken_without_a_word(framework, snippet, caplog, monkeypatch):
    monkeypatch.setattr(errors, "_said", set())
    model = build(framework, snippet)
    with caplog.at_level("WARNING", logger="note_rl"):
        train(framework, model, 2, p=0, processes_her=4, processes_pr=4)
    assert caplog.records == []


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_parameters_in_a_pickle_are_named_as_such(tmp_path, protocol):
    """The manuals' pickle.dump(model.param): reading such a file would run what stands in it."""
    (tmp_path / "param.dat").write_bytes(pickle.dumps([np.ones(3)], protocol))
    torch.save({"layer": torch.ones(2)}, tmp_path / "param.pt")
    model = build("pytorch", DQN)
    for name in ("param.dat", "param.pt"):
        for read in (model.restore_param, model.restore, nn.restore_param):
            with pytest.raises(CheckpointError, match=f"{name} is a pickle, or was written by torch.save, which is"):
                read(tmp_path / name)
    (tmp_path / "param.dat").write_bytes(b"\x80\x04 and no more")
    with pytest.raises(CheckpointError, match="is damaged or no checkpoint"):
        model.restore_param(tmp_path / "param.dat")


@pytest.mark.parametrize("framework", ["keras", "pytorch"])
@pytest.mark.parametrize(
    "policy",
    [
        "EpsGreedyQPolicy(eps=0.05)",
        "GreedyQPolicy()",
        "BoltzmannQPolicy(tau=0.5)",
        "MaxBoltzmannQPolicy(eps=0.1, tau=0.5)",
        "BoltzmannGumbelQPolicy(C=1.0)",
        "GumbelSoftmaxPolicy(temperature=0.5, eps=0.01)",
    ],
)
def test_each_policy_as_it_is_printed_explores(framework, policy):
    model = importlib.import_module(f"note_rl.examples.{framework}.DQN").DQN(4, 4, 2)
    policy = eval(f"rl.{policy}")
    model.set(policy=policy)
    assert type(model.settings.policy) is type(policy)
    train(framework, model, 1, p=0)
    assert len(model.reward_list) == 1


@pytest.mark.parametrize("framework", ["keras", "pytorch"])
@pytest.mark.parametrize(
    "noise",
    [
        "GaussianWhiteNoiseProcess(mu=0., sigma=1., sigma_min=0.1, n_steps_annealing=1000, size=1)",
        "OrnsteinUhlenbeckProcess(theta=0.15, mu=0., sigma=0.3, dt=1e-2, size=1)",
    ],
)
def test_each_noise_as_it_is_printed_explores(framework, noise):
    model = importlib.import_module(f"note_rl.examples.{framework}.DDPG_HER").DDPG(4, 0.1, 0.98, 0.005)
    noise = eval(f"rl.{noise}")
    model.set(noise=noise)
    assert type(model.settings.policy.noise) is type(noise)
