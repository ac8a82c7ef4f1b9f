"""The snippets of manual 001, an older one, with few episodes: what they need beyond the corrections of the others.

- `from Note.RL import rl`, then `rl.X`: policies are in note_rl.policy, noises in note_rl.noise (note_rl.RL is the base
  class of agents, so no package can have that name).
- `Note.models.docs_example.RL.note`, `.keras` and `.pytorch` are note_rl.examples.keras and note_rl.examples.pytorch;
  the agents of `.note` are those of `.keras`. `pool_network.DQN_PR` is `pool_network.DQN_pr`.
- `MA=True` is `MARL=True`; `epsilon` of set() is that of the policy, whose argument is `eps`.
- `shuffle=` of train() is gone: minibatches are drawn at random always.
- `DQN(hidden_dim=...)` is `hidden_size`.
"""

import pytest

from note_rl.errors import SettingsError
from tests.note_rl.manuals.snippets import (
    DQN_SET,
    HER_SET,
    NO_ROBOT,
    PPO_SET,
    STOP,
    TWO_AGENTS,
    Snippet,
    build,
    run_short,
    train,
)

POOL = {"pool_network": True, "processes": 7}
POOL_SET = {"pool_size": 10000, "update_batches": 17}

SNIPPETS = {
    "DQN": Snippet("DQN", (4, 128, 2), DQN_SET, "eps"),
    "DQN, stopped by a criterion": Snippet("DQN", (4, 128, 2), {**DQN_SET, **STOP}, "eps"),
    "DQN, prioritized": Snippet(
        "DQN",
        (4, 128, 2),
        {**DQN_SET, **STOP, "PR": True, "initial_TD": 7, "alpha": 0.7},
        "eps",
        frameworks=("pytorch",),
    ),
    "PPO": Snippet("PPO", (4, 128, 2, 0.7, 0.7), PPO_SET, "softmax", frameworks=("keras",)),
    "HER": Snippet("DDPG_HER", (128, 0.1, 0.98, 0.005), {**HER_SET, "criterion": -5}, "noise", correction=NO_ROBOT),
    "MADDPG": Snippet(
        "MADDPG",
        (128, 0.1, 0.98, 0.005),
        {"pool_size": 3000, "batch": 32, "trial_count": 10, "MARL": True},
        "softmax",
        correction=f"MARL=True for MA=True; {TWO_AGENTS}",
    ),
    "DQN in a pool": Snippet("pool_network.DQN", (4, 128, 2, 7), POOL_SET, "eps", POOL),
    "HER in a pool": Snippet(
        "pool_network.DDPG_HER",
        (128, 0.1, 0.98, 0.005, 7),
        {"pool_size": 10000, "trial_count": 10, "HER": True},
        "noise",
        {**POOL, "processes_her": 4},
        correction=f"{NO_ROBOT}; for PyTorch train_loss is no argument of train()",
    ),
    "DQN in a pool, prioritized": Snippet(
        "pool_network.DQN_pr",
        (4, 128, 2, 7),
        {**POOL_SET, "PR": True},
        "eps",
        {**POOL, "processes_pr": 4},
        frameworks=("keras",),
        correction="DQN_pr for DQN_PR; PR=True, without which processes_pr has nothing to prepare",
    ),
    "train() by keywords": Snippet(
        "pool_network.DQN", (4, 128, 2, 8), POOL_SET, "eps", {**POOL, "processes": 8}, frameworks=("keras",)
    ),
}
SLOWER = {"DQN in a pool", "HER in a pool", "DQN in a pool, prioritized", "train() by keywords"}  # as those of 000


def _cases():
    for name, snippet in SNIPPETS.items():
        for framework in snippet.frameworks:
            marks = [pytest.mark.slow] if name in SLOWER else []
            yield pytest.param(name, framework, marks=marks, id=f"{name}-{framework}")


@pytest.mark.parametrize(("name", "framework"), list(_cases()))
def test_snippet(name, framework, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_short(framework, name, SNIPPETS[name])


def test_the_usage_example_of_set():
    """Corrections: hidden_size for hidden_dim, eps for epsilon."""
    snippet = Snippet(
        "DQN",
        {"state_dim": 4, "hidden_size": 128, "action_dim": 2},
        {**DQN_SET, "trial_count": 100, "criterion": 200.0, "PR": True, "initial_TD": 7.0, "alpha": 0.7},
        "eps",
    )
    model = build("pytorch", snippet)
    assert train("pytorch", model, 15, p=0).num_gradient_steps > 0


def test_what_is_corrected_is_refused_in_words():
    model = build("pytorch", SNIPPETS["DQN"])
    with pytest.raises(SettingsError, match=r"set\(\) has no argument 'epsilon'"):
        model.set(epsilon=0.01)
    with pytest.raises(SettingsError, match=r"train\(\) has no argument 'shuffle'"):
        model.train(episodes=1, shuffle=True)
    with pytest.raises(SettingsError, match="processes_pr=4 prepares prioritized batches; add PR=True"):
        train("pytorch", model, 1, processes_pr=4)
