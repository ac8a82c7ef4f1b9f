"""OptFinder and ParallelFinder: who is best, who ties, and what a candidate that fails does to the others."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
import torch
from PIL import Image

from note_rl.errors import SettingsError
from note_rl.opt_finder import OptFinder
from note_rl.optimizers.optimizer_recipe import recipe_of
from note_rl.parallel_finder import ParallelFinder
from note_rl.policy import EpsGreedyQPolicy
from note_rl.settings import Distributed
from tests.tuner.finders.agents import REPLAY, OtherQuadratic, inline, params, quadratic, small_dqn, small_ppo
from tuner.errors import UserError
from tuner.finders import FinderPlace
from tuner.finders.comparison.verdicts import compare
from tuner.finders.find_arguments import check_call, shared_by, trained
from tuner.finders.finder_study import FinderRun
from tuner.study import StudyStore
from tuner.trial.messages import OUTPUT_FILE, Outcome


def finding(name: str, seed: int, value: float | None, reason: str = "") -> FinderRun:
    outcome = Outcome.CRASHED if value is None else Outcome.COMPLETE
    return FinderRun({"candidate": name, "seed": seed}, outcome, value, reason, 1.0, Path(), {})


def findings(**scores: list[float | None]) -> list[FinderRun]:
    return [finding(name, seed, value, "why") for name, own in scores.items() for seed, value in enumerate(own)]


def test_the_best_must_be_ahead_on_every_one_of_three_seeds() -> None:
    clear = compare(["a", "b"], findings(a=[3.0, 5.0, 4.0], b=[2.0, 4.5, 3.9]))
    assert (clear.tied, clear.standings[0].score) == (("a",), pytest.approx(4.0))
    assert clear.sentences == (
        "a is ahead of every other one on the same seeds (return 4 over 3 seeds). Two equal ones would be as far apart "
        "in 25% of cases: more seeds would tell.",
    )
    sure = compare(["a", "b"], findings(a=[3.0, 5.0, 4.0, 6.0, 7.0, 8.0], b=[2.0, 4.5, 3.9, 5.0, 6.0, 7.0]))
    assert sure.sentences[0].startswith("a is the best, ahead of every other one on the same seeds (return ")
    assert sure.sentences[0].endswith("Two equal ones would be as far apart in 3% of cases.")
    mixed = compare(["a", "b"], findings(a=[3.0, 5.0, 4.0], b=[2.0, 5.5, 3.0]))
    assert mixed.tied == ("a", "b")
    assert "b does not differ significantly: a tie" in mixed.sentences[0]
    assert mixed.standings[0].probability_best + mixed.standings[1].probability_best == pytest.approx(1.0)
    lower = compare(["a", "b"], findings(a=[3.0, 5.0, 4.0], b=[2.0, 4.5, 3.9]), higher_is_better=False, what="loss")
    assert (lower.tied, lower.what) == (("b",), "loss")


def test_equal_scores_tie_and_few_seeds_say_nothing() -> None:
    same = compare(["a", "b", "c"], findings(a=[3.0, 5.0, 4.0], b=[3.0, 5.0, 4.0], c=[1.0, 1.0, 1.0]))
    assert same.tied == ("a", "b")
    assert same.sentences == ("a and b tie: the same return 4 over 3 seeds.",)
    assert [standing.probability_best for standing in same.standings] == [0.5, 0.5, 0.0]
    few = compare(["a", "b"], findings(a=[3.0, 5.0], b=[1.0, 1.0]))
    assert few.tied == ("a", "b")
    assert "fewer than 3 seeds" in few.sentences[0]


def test_a_candidate_that_failed_once_is_not_ranked() -> None:
    found = compare(["a", "b", "c"], findings(a=[9.0, None, 9.0], b=[1.0, 2.0, 3.0], c=[0.0, 0.5, 1.0]))
    assert [standing.name for standing in found.standings] == ["b", "c"]
    assert found.failures == {"a": "crashed (seed 1): why"}
    assert found.sentences[-1] == "a failed: crashed (seed 1): why"


def test_a_broken_optimizer_is_distinguished_from_adam_and_equal_ones_tie(tmp_path: Path) -> None:
    agent = quadratic()
    agent.set(learning_starts=40)
    optimizers = [
        torch.optim.Adam(params(agent), lr=1e-3),
        torch.optim.AdamW(params(agent), lr=1e-3, weight_decay=0.0),
        torch.optim.Adam(params(agent), lr=1e-3, maximize=True),
    ]
    finder = OptFinder(agent, optimizers, inline(tmp_path))
    finder.find(metrics="loss", num_gradient_steps=16)
    assert list(finder.optimizers) == ["Adam 1", "AdamW", "Adam 2"]
    assert set(finder.comparison.tied) == {"Adam 1", "AdamW"}
    adam, adamw, broken = (finder.comparison.by_name[name] for name in finder.optimizers)
    assert adam.scores == adamw.scores
    assert all(bad > good for bad, good in zip(broken.scores, adam.scores, strict=True))
    assert "tie: the same mean loss on fixed data" in finder.comparison.sentences[0]
    assert finder.logs["best_opt"] is optimizers[0]
    assert finder.logs["best_loss"] == adam.score
    finder.plot_loss(path=tmp_path / "loss.png")
    finder.plot_scores(path=tmp_path / "scores.png")
    with Image.open(tmp_path / "scores.png") as image:
        assert image.size == (960, 540)


def test_returns_over_the_same_steps(tmp_path: Path) -> None:
    agent = small_dqn()
    finder = OptFinder(agent, {"one": torch.optim.SGD(params(agent), lr=1e-3), "none": still}, inline(tmp_path))
    found = finder.find(pool_network=False, total_steps=300, num_seeds=1)
    runs = {str(one.point["candidate"]): one.data for one in found.findings}
    assert [runs[name]["num_env_steps"] for name in ("one", "none")] == [300, 300]
    assert runs["one"]["num_gradient_steps"] == runs["none"]["num_gradient_steps"] > 0
    finder.plot_reward(sma=2, path=tmp_path / "reward.png")
    assert (tmp_path / "reward.png").exists()


def still(parameters: Any) -> torch.optim.Optimizer:
    """An optimizer that learns nothing."""
    return torch.optim.SGD(parameters, lr=0.0)


def test_agents_side_by_side_as_in_the_manuals(tmp_path: Path) -> None:
    agents = [small_dqn(), small_ppo()]
    optimizers = [torch.optim.Adam(params(one), lr=1e-3) for one in agents]
    finder = ParallelFinder(agents, optimizers, inline(tmp_path))
    finder.find(pool_network=True, episodes=4, metrics="reward", num_seeds=1)
    assert set(finder.rewards) == {"DQN", "PPO"}
    assert len(finder.rewards["DQN"]) == 4
    best = finder.logs["best_agent"]
    assert finder.logs["best_reward"] == pytest.approx(np.mean(finder.rewards[best]))
    assert finder.logs["best_opt"] is finder.optimizers[best]
    assert finder.logs["best_time"] > 0.0


def test_each_optimizer_can_be_given_its_best_rate_before(tmp_path: Path) -> None:
    """Of w' = w (1 - 4 rate) plain descent is best at 1/4; a tenth of its own rate is where that lies."""
    agent = quadratic()
    agent.set(learning_starts=40)
    slow, fast = torch.optim.SGD(params(agent), lr=0.025), torch.optim.SGD(params(agent), lr=2.5)
    url = f"journal:///{tmp_path}/studies.journal"
    finder = OptFinder(agent, {"slow": slow, "fast": fast}, inline(tmp_path, url))
    finder.find(metrics="loss", num_gradient_steps=6)
    assert finder.comparison.tied == ("slow",)
    result = finder.find(metrics="loss", num_gradient_steps=6, num_rates=3)
    assert result.rates == {"slow": pytest.approx(0.25), "fast": pytest.approx(0.25)}
    one, other = result.comparison.standings
    assert one.score == pytest.approx(other.score)
    assert result.sentences[-2] == (
        "Compared at the best of 3 learning rates each, found on another seed: slow at 0.25, fast at 0.25. "
        "Of slow and fast that is an end of its range: a rate beyond may do better still."
    )
    with StudyStore(url) as store:
        rates = store.require(next(name for name in store.names() if name.startswith("find-rates-")))
    seeds = {trial.user_attrs["run"]["values"]["seed"] for trial in rates.trials}
    assert seeds == {3}, "which the comparison on 0, 1 and 2 does not use"


@pytest.mark.parametrize("num_rates", [1, -2, True, 2.0])
def test_rates_that_are_no_number_of_rates_are_refused(tmp_path: Path, num_rates: Any) -> None:
    agent = quadratic()
    optimizers = {"a": torch.optim.SGD(params(agent), lr=0.1), "b": torch.optim.SGD(params(agent), lr=0.2)}
    with pytest.raises(UserError, match=f"num_rates={num_rates} must be 0 .* or a whole number, at least 2"):
        OptFinder(agent, optimizers, inline(tmp_path)).find(metrics="loss", num_rates=num_rates)


def test_losses_of_different_kinds_are_not_compared(tmp_path: Path) -> None:
    same, other = quadratic(), quadratic(kind=OtherQuadratic)
    optimizers = [torch.optim.SGD(one.param, lr=0.01) for one in (same, other)]
    with pytest.raises(UserError, match="different ones: Quadratic against OtherQuadratic; use metrics='reward'"):
        ParallelFinder([same, other], optimizers, inline(tmp_path)).find(episodes=1, metrics="loss")
    agents = [small_dqn(), small_dqn()]
    agents[1].gamma = 0.5
    optimizers = [torch.optim.SGD(params(one), lr=0.01) for one in agents]
    with pytest.raises(UserError, match=r"gamma differs: DQN 1 has 0\.99, DQN 2 has 0\.5"):
        ParallelFinder(agents, optimizers, inline(tmp_path)).find(episodes=1, metrics="loss")
    assert not (tmp_path / "studies").exists()
    agents[1].gamma = 0.99
    url = f"sqlite:///{tmp_path}/studies.db"
    finder = ParallelFinder(agents, optimizers, inline(tmp_path, url))
    found = finder.find(total_steps=400, metrics="loss", num_seeds=1)
    assert finder.logs["best_loss"] == pytest.approx(finder.comparison.standings[0].score)
    assert finder.comparison.standings[0].scores == finder.comparison.standings[1].scores  # the same agent twice
    study = optuna.load_study(study_name=found.folder.name, storage=url)
    assert study.direction is optuna.study.StudyDirection.MINIMIZE
    assert {trial.params["candidate"] for trial in study.trials} == {"DQN 1", "DQN 2"}


def test_who_cannot_be_compared() -> None:
    agent = quadratic()
    with pytest.raises(SettingsError, match="1 agents and 2 optimizers"):
        ParallelFinder([agent], [None, None])
    with pytest.raises(SettingsError, match="or a function that makes one, is needed; got 3"):
        OptFinder(agent, [3])

    class Odd(torch.optim.SGD):
        def __init__(self, parameters: Any, needed: int) -> None:
            super().__init__(parameters, lr=0.1)

    with pytest.raises(SettingsError, match="its argument 'needed' is not among the settings"):
        recipe_of(Odd(agent.param, 3), agent.param)


def test_an_optimizer_is_made_again_with_all_its_groups() -> None:
    agent, twin = small_ppo(), small_ppo()
    groups = [{"params": agent.param[1], "lr": 0.5}, {"params": agent.param[0][:1], "betas": (0.1, 0.2)}]
    made = recipe_of(torch.optim.AdamW(groups, lr=0.25, weight_decay=0.125), agent.param).make(twin.param)
    assert type(made) is torch.optim.AdamW
    first, second = made.param_groups
    assert (first["lr"], second["lr"], second["betas"], first["weight_decay"]) == (0.5, 0.25, (0.1, 0.2), 0.125)
    assert all(one is other for one, other in zip(first["params"], twin.param[1], strict=True))
    assert second["params"][0] is twin.param[0][0]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (None, {"by": "train"}),
        ("ddp", {"by": "distributed_training", "strategy": "ddp", "replicas": 2}),
        (
            Distributed(replicas=4),
            {"by": "distributed_training", "strategy": "ddp", "replicas": 4},
        ),
        ("mirrored", {"by": "distributed_training", "strategy": "mirrored", "replicas": 2}),
    ],
)
def test_runs_of_a_finder_are_shared_by_processes_where_a_strategy_is_given(
    strategy: Any, expected: dict[str, Any]
) -> None:
    class Trained:
        def train(self, **arguments: Any) -> dict[str, Any]:
            return {"by": "train", **arguments}

        def distributed_training(self, **arguments: Any) -> dict[str, Any]:
            return {"by": "distributed_training", **arguments}

    agent = small_ppo()
    check_call("OptFinder", strategy, None, [] if strategy == "mirrored" else [agent])
    assert trained(Trained(), {"processes": 2, **shared_by(strategy)}, episodes=3) == {
        "processes": 2,
        "episodes": 3,
        **expected,
    }


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        ("mirrored", "strategy='mirrored' is not for agents written in torch: use 'ddp'"),
        ("parameter_server", "strategy='parameter_server' cannot be made there: leave strategy out"),
        (Distributed(hosts=["a:1", "b:2"], rank=0), "cannot be made there: leave strategy out"),
    ],
)
def test_strategies_that_runs_of_a_finder_cannot_have_are_refused(strategy: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        check_call("OptFinder", strategy, None, [small_ppo()])


@pytest.mark.slow
def test_runs_train_on_the_devices_of_their_process(tmp_path: Path) -> None:
    from note_rl.agents import keras as agents
    from note_rl.optimizers.keras import adam

    agent = agents.DQN(hidden_size=8)
    agent.set(policy=EpsGreedyQPolicy(0.5), **REPLAY)
    optimizers = {"slow": adam(agent.param, 1e-4), "fast": adam(agent.param, 1e-3)}
    place = FinderPlace(storage="memory", folder=tmp_path / "studies", parallel=1)
    finder = OptFinder(agent, optimizers, place)
    found = finder.find(pool_network=False, total_steps=300, num_seeds=1, strategy="mirrored")
    assert all(one.data["num_gradient_steps"] > 0 for one in found.findings)
    outputs = [path.read_text() for path in (tmp_path / "studies").rglob(OUTPUT_FILE)]
    assert outputs
    assert all("2 replicas are slower than one here" in output for output in outputs)
