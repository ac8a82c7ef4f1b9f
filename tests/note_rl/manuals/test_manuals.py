"""Snippets of the manuals, with few episodes: every one of 000, 002 and 003 that needs no cluster.

`Note_rl`, `Note` and `nn` are read as note_rl, gym as gymnasium, CartPole-v0 as CartPole-v1. Where a snippet does not
run (or cannot learn) as it is printed, the table says the smallest correction and why; 003 prints those of 002 again,
and those of 001 are in test_manual_001.py. What is left out: `distributed_training` (a cluster, or several devices) and
the three finders, which come with issues of their own; the agent of "Building a Custom Agent" has its tests in
test_custom_agent.py. `from Note.RL import rl`, which 000 still has in places, is note_rl.policy and note_rl.noise.
"""

import pytest

from tests.note_rl.manuals.snippets import (
    DQN_SET,
    HER_SET,
    NO_ROBOT,
    POOL_SET,
    PPO_SET,
    STOP,
    TWO_AGENTS,
    Learning,
    Snippet,
    run_short,
    run_to_learn,
)

COMPILED = "train() with everything"  # for a quarter of a minute; tests of recordings compile less
SNIPPETS = {
    "DQN": Snippet(
        "DQN",
        (4, 128, 2),
        DQN_SET,
        "eps",
        {"pool_network": False},
        correction="to learn: num_updates=60 and 300 episodes, as the printed settings move the target after each pass "
        "over a pool of a few minibatches, and Q-values diverge",
        learning=Learning(300, 150.0, {"num_updates": 60}),
    ),
    "DQN by keywords, stopped by a criterion": Snippet(
        "DQN",
        {"state_dim": 4, "hidden_size": 128, "action_dim": 2},
        {**DQN_SET, **STOP},
        "eps",
        {"pool_network": False},
    ),
    "DQN, prioritized": Snippet(
        "DQN", (4, 128, 2), {**DQN_SET, "PR": True, "initial_TD": 7, "alpha": 0.7}, "eps", frameworks=("pytorch",)
    ),
    "DQN, saved at intervals": Snippet(
        "DQN",
        (4, 128, 2),
        DQN_SET,
        "eps",
        attributes={"path": "model.dat", "save_freq": 10, "max_save_files": 2},
        frameworks=("pytorch",),
        correction="save_freq 2 instead of 10, as only 4 episodes are played here",
    ),
    "DQN, parameters saved": Snippet(
        "DQN",
        (4, 128, 2),
        DQN_SET,
        "eps",
        attributes={"path": "param.dat", "save_freq": 10, "max_save_files": 2, "save_param_only": True},
        frameworks=("pytorch",),
        correction="save_freq 2 instead of 10, as only 4 episodes are played here",
    ),
    "DQN, best saved": Snippet(
        "DQN",
        (4, 128, 2),
        {**DQN_SET, **STOP},
        "eps",
        attributes={"path": "model.dat", "save_best_only": True},
        frameworks=("pytorch",),
        correction="trial_count 2 instead of 10, as only 4 episodes are played here",
    ),
    "PPO": Snippet(
        "PPO",
        (4, 128, 2, 0.7, 0.7),
        PPO_SET,
        "softmax",
        {"pool_network": False},
        correction="to learn: entropy_coef 0.01, as 0.7 outweighs every advantage and keeps the policy uniform",
        learning=Learning(300, 150.0, attributes={"entropy_coef": 0.01}, learning_rates=(1e-4, 5e-3)),
    ),
    "PPO by keywords": Snippet(
        "PPO",
        {"state_dim": 4, "hidden_size": 128, "action_dim": 2, "clip": 0.7, "entropy_coef": 0.7},
        PPO_SET,
        "softmax",
        frameworks=("pytorch",),
        correction="to learn: entropy_coef 0.01, clip 0.2",
    ),
    "HER": Snippet(
        "DDPG_HER",
        (128, 0.1, 0.98, 0.005),
        {**HER_SET, "criterion": -5},
        "noise",
        correction=NO_ROBOT,
        learning=Learning(150, -6.0, {"num_updates": 40}),
    ),
    "HER by keywords, in a pool": Snippet(
        "pool_network.DDPG_HER",
        {"hidden_size": 128, "tau": 0.1, "gamma": 0.98, "lr": 0.005, "processes": 7},
        HER_SET,
        "noise",
        {"pool_network": True, "processes": 7, "processes_her": 4},
        correction=f"{NO_ROBOT}; 002 passes train_loss to a PyTorch agent, whose train() begins with the optimizer",
    ),
    "MADDPG": Snippet(
        "MADDPG",
        (128, 0.1, 0.98, 0.005),
        {"pool_size": 3000, "batch": 32, "trial_count": 10, "MARL": True},
        "softmax",
        correction=TWO_AGENTS,
        learning=Learning(600, 10.0, {"num_updates": 10}),
    ),
    "DQN in a pool": Snippet(
        "pool_network.DQN",
        (4, 128, 2, 7),
        POOL_SET,
        "eps",
        {"pool_network": True, "processes": 7},
        frameworks=("pytorch",),
        correction="none; in Keras it is that of 001, whose train() is called by keywords",
    ),
    "DQN in a pool, no batch": Snippet(
        "pool_network.DQN",
        (4, 128, 2, 7),
        {"pool_size": 10000, "update_batches": 17},
        "eps",
        {"pool_network": True, "processes": 7},
        frameworks=("pytorch",),
        correction="none; 002 leaves the batch out, which is 64 then",
    ),
    "DQN in a pool, prioritized": Snippet(
        "pool_network.DQN_pr",
        {"state_dim": 4, "hidden_size": 128, "action_dim": 2, "processes": 7},
        {**POOL_SET, "PR": True},
        "eps",
        {"pool_network": True, "processes": 7, "processes_pr": 4},
    ),
    "PPO in a pool, prioritized": Snippet(
        "pool_network.PPO_pr",
        (4, 128, 2, 0.7, 0.7, 7),
        {**PPO_SET, "PR": True, "initial_ratio": 1.0, "lambda_": 0.5, "update_steps": 700},
        "softmax",
        {"pool_network": True, "processes": 7, "window_size_ppo": 350},
        frameworks=("pytorch",),
        correction="the manual only links this agent; its constructor is that of PPO with processes added",
    ),
    COMPILED: Snippet(
        "pool_network.DQN",
        (4, 128, 2, 12),
        POOL_SET,
        "eps",
        {
            **{"pool_network": True, "parallel_store_and_training": True, "parallel_training_and_save": True},
            **{"processes": 12, "jit_compile": True, "p": 50},
        },
        frameworks=("pytorch",),
    ),
}


@pytest.mark.slow_in_keras(
    *("DQN by keywords, stopped by a criterion", "HER by keywords, in a pool", "MADDPG", "DQN in a pool, prioritized")
)
@pytest.mark.parametrize(
    ("name", "framework"),
    [
        pytest.param(name, framework, marks=[pytest.mark.slow] * (name == COMPILED), id=f"{name}-{framework}")
        for name, snippet in SNIPPETS.items()
        for framework in snippet.frameworks
    ],
)
def test_snippet(name, framework, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_short(framework, name, SNIPPETS[name])


def test_every_correction_has_a_reason():
    assert all(snippet.correction for snippet in SNIPPETS.values())


LEARNERS = [(name, framework) for name, one in SNIPPETS.items() if one.learning for framework in one.frameworks]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "framework"), LEARNERS)
def test_those_that_can_learn_do(name, framework):
    """Two of three seeds at least."""
    snippet = SNIPPETS[name]
    reached = [run_to_learn(framework, snippet, seed) for seed in (1, 2, 3)]
    assert sum(one >= snippet.learning.reaches for one in reached) >= 2, reached
