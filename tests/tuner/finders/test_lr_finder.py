"""LRFinder: known divergence, known change of a policy, what is drawn and refused."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
import torch
from matplotlib import pyplot
from PIL import Image

from note_rl.errors import SettingsError
from note_rl.lr_finder import LRFinder
from note_rl.optimizers.rates import Rates
from note_rl.policy import SoftmaxPolicy
from note_rl.settings import RolloutSettings
from tests.tuner.finders.agents import CURVATURE, Locked, inline, params, quadratic, small_dqn, small_ppo
from tuner.errors import UserError
from tuner.finders.learning_rate.range_test import kl_comb, rate_at_kl
from tuner.finders.learning_rate.search import chosen_mode


def test_the_comb_takes_all_steps_of_a_long_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = small_ppo()
    agent.set(policy=SoftmaxPolicy(), PPO=True, num_envs=2, rollout_steps=64, num_epochs=20, batch=8, seed=1)
    updates: list[int] = []
    taken = type(agent.learner).update
    monkeypatch.setattr(type(agent.learner), "update", lambda *given: updates.append(1) or taken(*given))
    found = kl_comb(agent, torch.optim.SGD(params(agent), lr=1e-3), [1e-5, 1e-3], lambda number, kl: None)
    assert len(updates) == 2 * (20 * 2 * 64 // 8)  # of each rate, more than 200
    assert 0.0 < found["kl"][0] < found["kl"][1]


@pytest.mark.parametrize("curvature", [CURVATURE, 0.37])
def test_a_quadratic_diverges_where_it_must(tmp_path: Path, curvature: float) -> None:
    agent = quadratic(curvature)
    agent.optimizer = torch.optim.SGD(agent.param, lr=0.1)
    finder = LRFinder(agent, inline(tmp_path))
    found = finder.find(N=90, start_lr=1e-4, end_lr=1e3, num_seeds=1)
    (points,) = found.points
    step = (1e3 / 1e-4) ** (1 / 90)
    assert points.diverged
    assert points.stable <= 2.0 / curvature < points.stable * step
    rates, losses = finder.lrs, finder.losses
    w = 3.0
    for rate, loss in zip(rates[:60], losses[:60], strict=True):  # by hand
        w *= 1.0 - rate * curvature
        assert loss == pytest.approx(0.5 * curvature * w * w, rel=1e-4, abs=1e-12)
    suggestion = finder.suggestion()
    assert suggestion.rate is not None
    assert suggestion.rate <= points.stable / 10.0 * 1.01
    assert (suggestion.space["low"], suggestion.space["log"]) == (pytest.approx(suggestion.rate / 10, rel=1e-2), True)


def test_what_was_found_is_in_the_storage_and_is_not_done_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/studies.db"
    agent = quadratic()
    agent.set(learning_starts=40)
    agent.optimizer = torch.optim.SGD(agent.param, lr=0.1)
    first = LRFinder(agent, inline(tmp_path, url)).find(N=20, num_seeds=2)
    (name,) = optuna.get_all_study_names(url)
    study = optuna.load_study(study_name=name, storage=url)
    assert sorted(trial.params["test"] for trial in study.trials) == ["loss 0", "loss 1"]
    assert len(study.trials[0].intermediate_values) == len(first.curves[0]["losses"])
    for trial in study.trials:
        (first.folder / str(trial.number) / "output.log").write_text("untouched")
    again = LRFinder(agent, inline(tmp_path, url)).find(N=20, num_seeds=2)
    assert again == first
    assert len(optuna.get_all_study_names(url)) == 1
    with torch.no_grad():
        agent.w += 1.0  # another agent, another study
    LRFinder(agent, inline(tmp_path, url)).find(N=20, num_seeds=2)
    assert len(optuna.get_all_study_names(url)) == 2


def test_the_change_of_a_policy_decides_for_agents_that_learn_from_rollouts(tmp_path: Path) -> None:
    agent = small_ppo()
    agent.optimizer = torch.optim.Adam(params(agent), lr=1e-3)
    found = LRFinder(agent, inline(tmp_path)).find(num_rates=6, start_lr=1e-5, end_lr=1.0, num_seeds=1)
    (curve,) = found.curves
    assert found.mode == "kl"
    assert all(kl >= 0.0 for kl in curve["kl"])
    assert curve["kl"][0] < 1e-4 < curve["kl"][-2]  # hardly moves, moves
    assert curve["ess"][0] > 0.999
    assert found.suggestion.rate is not None
    assert 1e-4 < found.suggestion.rate < 3e-2


def test_an_agent_that_searches_is_measured_by_its_loss() -> None:
    """Its probabilities are visits of a search, which a network does not give alone."""
    from note_rl.agents.pytorch import PPO, AlphaZero

    experience = RolloutSettings()
    assert chosen_mode("auto", experience, PPO) == "kl"
    assert chosen_mode("auto", experience, AlphaZero) == "loss"
    with pytest.raises(UserError, match="those of AlphaZero are the visits of a search, not those of its network"):
        chosen_mode("kl", experience, AlphaZero)


def test_the_rate_at_a_change_is_between_its_neighbours() -> None:
    rates = [1e-4, 1e-3, 1e-2]
    sure = [1.0, 1.0, 1.0]
    assert rate_at_kl(rates, [0.0, 0.005, 0.025], sure) == pytest.approx(math.sqrt(1e-3 * 1e-2))
    assert rate_at_kl(rates, [0.0, 0.0, 0.0], [1.0, 1.0, 0.91]) == pytest.approx(1e-3 * 10 ** (1 / 3))
    assert rate_at_kl(rates, [0.0, 0.0, math.inf], sure) == 1e-3
    assert rate_at_kl(rates, [0.0, 0.0, 0.0], sure) is None


def test_whole_trainings_maximise_the_return(tmp_path: Path) -> None:
    agent = small_dqn()
    agent.optimizer = torch.optim.Adam(params(agent), lr=1e-3)
    finder = LRFinder(agent, inline(tmp_path))
    found = finder.find(metrics="reward", episodes=3, start_lr=1e-5, end_lr=1e-2, num_rates=3, num_seeds=2)
    assert found.comparison is not None
    scores = [standing.score for standing in found.comparison.standings]
    assert scores == sorted(scores, reverse=True)
    assert finder.lrs == pytest.approx([1e-5, 3.16e-4, 1e-2])


def test_plots_of_the_manuals(tmp_path: Path) -> None:
    agent = small_dqn()
    agent.set(learning_starts=40)
    agent.optimizer = torch.optim.Adam(params(agent), lr=1e-3)
    finder = LRFinder(agent, inline(tmp_path))
    with pytest.raises(UserError, match="call find"):
        finder.plot_loss(path=tmp_path / "none.png")
    finder.find(pool_network=False, N=24, window_size=7, start_lr=0.0001, end_lr=1, episodes=12, num_seeds=1)
    assert len(finder.rewards) == 12
    finder.plot_loss(path=tmp_path / "loss.png")
    finder.plot_reward(n_skip_beginning=3, n_skip_end=2, path=tmp_path / "reward.png")
    finder.plot_reward_change(sma=5, n_skip_beginning=2, n_skip_end=1, y_lim=(-0.1, 0.1), path=tmp_path / "change.png")
    finder.plot_loss_change(sma=3, path=tmp_path / "loss_change.png")
    for name in ("loss", "reward", "change", "loss_change"):
        with Image.open(tmp_path / f"{name}.png") as image:
            colours = image.convert("RGB").getcolors(2**24)
        assert colours is not None
        assert len(colours) > 20
    with pytest.raises(UserError, match="skip fewer"):
        finder.plot_loss(n_skip_beginning=60, path=tmp_path / "none.png")
    assert pyplot.get_fignums() == []


def test_what_cannot_be_made_again_is_refused_by_name(tmp_path: Path) -> None:
    env = Locked()
    agent = quadratic(env=env)
    agent.optimizer = torch.optim.SGD(agent.param, lr=0.1)
    with pytest.raises(SettingsError, match="LRFinder sends the constructor's argument 'env' of Quadratic"):
        LRFinder(agent, inline(tmp_path)).find()
    env.close()
    other = quadratic()
    other.optimizer = torch.optim.SGD(agent.param, lr=0.1)
    with pytest.raises(SettingsError, match=r"SGD holds 1 parameters that agent\.param does not"):
        LRFinder(other, inline(tmp_path)).find()
    other.optimizer = None
    with pytest.raises(SettingsError, match="needs an optimizer"):
        LRFinder(other, inline(tmp_path)).find()
    assert not (tmp_path / "studies").exists()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"start_lr": 1.0, "end_lr": 0.1}, UserError, "start_lr=1.0 must be below end_lr=0.1"),
        ({"N": 2}, UserError, "N=2 must be a whole number, at least 5"),
        ({"metrics": "los"}, UserError, "'los' is unknown; did you mean loss"),
        ({"metrics": "return"}, UserError, "say for how long"),
        ({"num_seed": 2}, SettingsError, "num_seeds"),
        ({"strategy": object()}, SettingsError, "leave strategy out, or give an agent in PyTorch strategy='ddp'"),
        ({"train_loss": 3}, SettingsError, "train_loss is a metric"),
    ],
)
def test_bad_arguments(tmp_path: Path, arguments: dict[str, object], error: type[Exception], message: str) -> None:
    agent = quadratic()
    agent.optimizer = torch.optim.SGD(agent.param, lr=0.1)
    with pytest.raises(error, match=message):
        LRFinder(agent, inline(tmp_path)).find(**arguments)  # type: ignore[arg-type]
    assert not (tmp_path / "studies").exists()


def test_rates_of_several_optimizers_keep_their_ratio() -> None:
    agent = small_ppo()
    several = [torch.optim.Adam(agent.param[0], lr=1e-3), torch.optim.SGD(agent.param[1], lr=4e-3)]
    Rates(several).set(0.5)
    assert [one.param_groups[0]["lr"] for one in several] == [0.5, 2.0]
    Rates(several, only=1).set(0.1)
    assert [one.param_groups[0]["lr"] for one in several] == [0.5, 0.1]
    with pytest.raises(SettingsError, match="optimizer 2 is asked for"):
        Rates(several, only=2)


def test_a_schedule_of_the_rate_does_not_interfere(tmp_path: Path) -> None:
    agent = quadratic()
    agent.settings = replace(agent.settings, schedules={"learning_rate": abs})
    agent.optimizer = torch.optim.SGD(agent.param, lr=0.1)
    found = LRFinder(agent, inline(tmp_path)).find(N=60, start_lr=1e-3, end_lr=1e2, num_seeds=1)
    assert found.points[0].stable <= 0.5 < found.points[0].stable * (1e5) ** (1 / 60)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"window_size": 0}, "window_size=0 must be a whole number, at least 2"),
        ({"start_lr": "a"}, "start_lr=a is not possible: it must be a finite number"),
        ({"metrics": "kl"}, "metrics='kl' is for agents that learn from rollouts"),
    ],
)
def test_what_cannot_be_searched_is_refused(tmp_path: Path, arguments: dict[str, Any], words: str) -> None:
    agent = quadratic()
    agent.optimizer = torch.optim.SGD(params(agent), lr=0.1)
    with pytest.raises(UserError, match=words):
        LRFinder(agent, inline(tmp_path)).find(**arguments)
    assert not (tmp_path / "studies").exists()


def test_what_is_no_agent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="inherit from RL or RL_pytorch; it was given 3"):
        LRFinder(3, inline(tmp_path)).find()
