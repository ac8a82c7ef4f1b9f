"""What the manuals show is typed here, with few episodes: every snippet of 000 and 002 that needs no cluster.

`Note_rl`, `Note` and `nn` are read as note_rl, gym as gymnasium, CartPole-v0 as CartPole-v1. Where a snippet does not
run (or cannot learn) as it is printed, the table says the smallest correction and why. What is left out of 000 and 002:
`distributed_training` (a cluster, or several devices) and the three finders, which come with issues of their own;
the agent of "Building a Custom Agent" has its tests in test_custom_agent.py.
"""

import importlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from note_rl.errors import SettingsError
from note_rl.examples.environments import PointReach
from note_rl.noise import GaussianWhiteNoiseProcess
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy

DQN_SET = {"pool_size": 10000, "batch": 64, "update_steps": 10}
POOL_SET = {"pool_size": 10000, "batch": 64, "update_batches": 17}
PPO_SET = {"pool_size": 10000, "batch": 64, "update_steps": 1000, "PPO": True}
HER_SET = {"pool_size": 10000, "batch": 256, "trial_count": 10, "HER": True}
STOP = {"trial_count": 10, "criterion": 200.0}

NO_ROBOT = "FetchReach needs MuJoCo: the default is a goal environment of our own; env='FetchReach-v4' gives the robot"
TWO_AGENTS = "the manual names no environment: the default is our coordination game"


@dataclass(frozen=True)
class Snippet:
    """One snippet: agent and arguments as printed, then set(), train() and what is corrected."""

    agent: str
    arguments: tuple[Any, ...] | dict[str, Any]
    settings: dict[str, Any]
    explore: str  # eps, softmax or noise
    train: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    frameworks: tuple[str, ...] = ("keras", "pytorch")
    correction: str = "none"


SNIPPETS = {
    "DQN": Snippet(
        "DQN",
        (4, 128, 2),
        DQN_SET,
        "eps",
        {"pool_network": False},
        correction="to learn: num_updates=30 and 200 episodes, as the printed settings move the target after each pass "
        "over a pool of a few minibatches, and Q-values diverge",
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
    ),
    "DQN in a pool": Snippet(
        "pool_network.DQN",
        (4, 128, 2, 7),
        POOL_SET,
        "eps",
        {"pool_network": True, "processes": 7},
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
    "train() with everything": Snippet(
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
FEWER = {"save_freq": 2, "trial_count": 2}
EXPLORE = {
    "eps": lambda: {"policy": EpsGreedyQPolicy(0.01)},
    "softmax": lambda: {"policy": SoftmaxPolicy()},
    "noise": lambda: {"noise": GaussianWhiteNoiseProcess()},
}


def build(framework: str, snippet: Snippet) -> Any:
    module = importlib.import_module(f"note_rl.examples.{framework}.{snippet.agent}")
    make = getattr(module, snippet.agent.rpartition(".")[2].partition("_")[0].replace("MADDPG", "DDPG"))
    given = snippet.arguments
    model = make(**given) if isinstance(given, dict) else make(*given)
    model.set(**EXPLORE[snippet.explore](), **snippet.settings)
    for name, value in snippet.attributes.items():
        setattr(model, name, value)
    return model


def train(framework: str, model: Any, episodes: int, **options: Any) -> Any:
    """As the manuals call it: Keras begins with the metric, PyTorch with the optimizer."""
    several = isinstance(model.param[0], list)
    if framework == "pytorch":
        adam = importlib.import_module("torch").optim.Adam
        return model.train(
            [adam(group) for group in model.param] if several else adam(model.param), episodes, **options
        )
    keras = importlib.import_module("keras")
    train_loss = keras.metrics.Mean(name="train_loss")
    optimizer = [keras.optimizers.Adam() for _ in model.param] if several else keras.optimizers.Adam()
    result = model.train(train_loss, optimizer, episodes, **options)
    assert (float(train_loss.result()) != 0.0) == (result.num_gradient_steps > 0)
    return result


@pytest.mark.parametrize(
    ("name", "framework"),
    [(name, framework) for name, snippet in SNIPPETS.items() for framework in snippet.frameworks],
)
def test_snippet(name, framework, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    snippet = SNIPPETS[name]
    model = build(framework, snippet)
    if snippet.attributes:
        model.save_freq = FEWER["save_freq"]
    if "best" in name:
        model.set(trial_count=FEWER["trial_count"])
    options = {"jit_compile": False, "p": 0} | snippet.train if framework == "keras" else snippet.train
    result = train(framework, model, 4, **options)
    assert len(result.returns) >= 4
    files = sorted(path.name for path in Path.cwd().iterdir())
    if "best" in name:
        assert files == ["model.dat"]
    elif snippet.attributes:
        stem = snippet.attributes["path"].removesuffix(".dat")
        assert files == [f"{stem}-2.dat", f"{stem}-4.dat"]


def test_every_correction_has_a_reason():
    assert all(snippet.correction for snippet in SNIPPETS.values())


@pytest.mark.parametrize("framework", ["keras", "pytorch"])
def test_looking_saving_and_restoring(framework, tmp_path, monkeypatch):
    """Correction: none; windows need a display, so files are written here.

    The manuals' own way to save with pickle is not offered: reading such a file runs whatever it says.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    model = build(framework, SNIPPETS["DQN"])
    model.set(num_updates=4)
    train(framework, model, 30, p=0)
    model.visualize_loss("loss.png")
    model.visualize_reward("reward.png")
    model.visualize_reward_loss("both.png")
    model.animate_agent(200, "film.gif")
    model.save_param("param.dat")
    model.save("model.dat")
    restored = build(framework, SNIPPETS["DQN"])
    restored.restore("model.dat")
    assert restored.num_episodes == 30
    other = build(framework, SNIPPETS["DQN"])
    other.restore_param("param.dat")
    obs = np.ones((3, 4), np.float32)
    for one in (restored, other):
        np.testing.assert_array_equal(one.learner.act(obs), model.learner.act(obs))
    from note_rl import nn

    assert set(nn.restore_param("param.dat")) == set(nn.restore_param("model.dat"))
    assert issubclass(type(model), nn.RL if framework == "keras" else nn.RL_pytorch)


def test_the_example_of_set():
    """Corrections: SoftmaxPolicy, as PPO needs the probability of what was done; num_epochs instead of num_updates."""
    model = build("pytorch", SNIPPETS["PPO"])
    printed = {"noise": None, "pool_size": 100000, "batch": 64, "PPO": True, "PR": True, "trial_count": 100}
    fresh = type(model)(4, 128, 2)
    with pytest.raises(SettingsError, match="num_updates=4 belongs to replay"):
        fresh.set(policy=EpsGreedyQPolicy(eps=0.1), num_updates=4, criterion=500.0, **printed)
    fresh.set(policy=SoftmaxPolicy(), num_epochs=4, rollout_steps=128, criterion=500.0, **printed)
    assert train("pytorch", fresh, 4, p=0).num_gradient_steps > 0


def test_hindsight_with_a_reward_of_ones_own():
    """Corrections: gym.make('FetchReach-v1') as for HER, and set() needs to know how to explore.

    The reward function as printed takes one pair of goals at a time (`if` on an array); it is then called row by row.
    """
    agents = importlib.import_module("note_rl.agents.pytorch")

    class Reaching(agents.DDPG):
        def reward_done_func(self, achieved_goal, desired_goal):
            done = np.linalg.norm(achieved_goal - desired_goal, axis=-1) < 0.05
            return (0.0 if done else -1.0), done

    model = Reaching(32, env=PointReach)
    with pytest.raises(SettingsError, match="needs a policy"):
        model.set(HER=True, batch=256, pool_size=100000)
    model.set(HER=True, batch=32, pool_size=100000, noise=GaussianWhiteNoiseProcess(), num_updates=2)
    assert train("pytorch", model, 3, p=0).num_gradient_steps > 0


def test_several_agents_with_a_reward_of_ones_own():
    """Correction: set() needs to know how to explore."""
    module = importlib.import_module("note_rl.examples.pytorch.MADDPG")

    class Team(module.DDPG):
        def reward_done_func_ma(self, rewards, dones):
            return rewards, dones

    model = Team(32)
    model.set(MARL=True, batch=64, policy=SoftmaxPolicy(), num_updates=2)
    assert train("pytorch", model, 8, p=0).num_gradient_steps > 0


@pytest.mark.parametrize("framework", ["keras", "pytorch"])
def test_the_learning_rate_of_the_constructor_is_that_of_the_optimizers_not_given(framework):
    model = build(framework, SNIPPETS["HER"])
    rates = [
        one.param_groups[0]["lr"] if framework == "pytorch" else float(one.learning_rate) for one in model.optimizer
    ]
    np.testing.assert_allclose(rates, [0.005, 0.005], rtol=1e-6)
    model.set(batch=8, num_updates=1)
    assert model.train(episodes=1, p=0, jit_compile=False).num_gradient_steps > 0


def test_an_environment_without_its_time_limit_is_allowed():
    """`gym.make('CartPole-v0').env` takes the limit of 200 steps away; training goes on, episodes only get longer."""
    module = importlib.import_module("note_rl.examples.pytorch.DQN")
    model = module.DQN(4, 8, 2, env=gymnasium.make("CartPole-v1").env)
    model.set(policy=EpsGreedyQPolicy(0.5), num_updates=1, **DQN_SET)
    assert len(train("pytorch", model, 3, p=0).returns) == 3
