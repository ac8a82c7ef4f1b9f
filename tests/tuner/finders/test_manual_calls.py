"""The finders as the manuals call them: few episodes, small networks and one seed, and all in this process."""

from pathlib import Path
from typing import Any

import keras
import pytest

from note_rl.lr_finder import LRFinder
from note_rl.opt_finder import OptFinder
from note_rl.parallel_finder import ParallelFinder
from note_rl.policy import EpsGreedyQPolicy
from tests.note_rl.conftest import eager_updates
from tests.note_rl.frameworks import Framework, frameworks
from tests.tuner.finders.agents import REPLAY, inline

__all__ = ["eager_updates"]

few_steps = pytest.mark.usefixtures("eager_updates")  # of each agent: tracing would be most of the time
FRAMEWORKS = pytest.mark.parametrize("framework", frameworks())


def agent_of(framework: Framework) -> Any:
    agent = framework.agents.DQN(hidden_size=8)
    agent.set(policy=EpsGreedyQPolicy(0.5), **{**REPLAY, "learning_starts": 20})
    agent.optimizer = framework.optimizers.adam(agent.param, 1e-3)
    return agent


def optimizers_of(framework: Framework, agent: Any) -> list[Any]:
    if framework.package == "keras":
        return [keras.optimizers.Adam(), keras.optimizers.AdamW()]
    import torch

    parameters = list(agent.param)
    return [torch.optim.Adam(parameters), torch.optim.AdamW(parameters)]


@pytest.mark.slow_in_keras
@FRAMEWORKS
def test_lr_finder(framework: Framework, tmp_path: Path) -> None:
    train_loss = keras.metrics.Mean()
    lr_finder = LRFinder(agent_of(framework), inline(tmp_path))
    lr_finder.find(
        train_loss,
        pool_network=False,
        N=7,
        window_size=2,
        start_lr=0.0001,
        end_lr=1,
        episodes=8,
        num_seeds=1,
        jit_compile=False,
    )
    assert lr_finder.lrs[:2] == pytest.approx([1e-4, 1e-4 * (1 / 1e-4) ** (1 / 7)])
    lr_finder.plot_reward(n_skip_beginning=1, n_skip_end=1, path=tmp_path / "reward.png")
    lr_finder.plot_reward_change(sma=2, n_skip_beginning=1, n_skip_end=1, y_lim=(-1, 1), path=tmp_path / "change.png")
    assert (tmp_path / "reward.png").exists()


@pytest.mark.slow_in_keras  # test_parallel_finder has optimizers of Keras
@few_steps
@FRAMEWORKS
def test_opt_finder(framework: Framework, tmp_path: Path) -> None:
    agent = agent_of(framework)
    optimizers = optimizers_of(framework, agent)
    opt_finder = OptFinder(agent, optimizers, inline(tmp_path))
    opt_finder.find(keras.metrics.Mean(), pool_network=False, episodes=2, num_seeds=1, jit_compile=False)
    assert opt_finder.logs["best_opt"] in optimizers
    assert opt_finder.logs["best_reward"] > 0


@few_steps
@pytest.mark.parametrize(
    ("framework", "metrics"),
    [(one.values[0], metrics) for one, metrics in zip(frameworks(), ("reward", "loss"), strict=True)],
)
def test_parallel_finder(framework: Framework, metrics: str, tmp_path: Path) -> None:
    agents = [agent_of(framework), agent_of(framework)]
    optimizers = [optimizers_of(framework, agent)[0] for agent in agents]
    parallel_finder = ParallelFinder(agents, optimizers, inline(tmp_path))
    parallel_finder.find(
        train_loss=keras.metrics.Mean(),
        pool_network=True,
        processes=1,
        processes_her=2,
        processes_pr=2,
        strategy=None,
        episodes=2,
        metrics=metrics,
        jit_compile=False,
        num_seeds=1,
    )
    assert parallel_finder.logs["best_opt"] in optimizers
    assert parallel_finder.logs[f"best_{metrics}"] is not None
