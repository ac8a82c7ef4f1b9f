"""Runs of algorithms of Stable-Baselines3: what they report, go on from, and leave alone."""

import json
import random
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
import yaml
from gymnasium.wrappers import TimeAwareObservation, TransformReward

from note_rl.errors import DivergedError, EnvironmentMismatchError
from note_rl.training.checkpoint import read_checkpoint
from tests.tuner.command_line import CommandLine
from tests.tuner.runs.reporters import Reporter
from tuner import load_agent
from tuner.commands import COMMANDS
from tuner.commands.preflight import check_command
from tuner.commands.python_calls import as_typed
from tuner.config.overrides import to_hydra
from tuner.config.trust import foreign_code
from tuner.errors import UserError
from tuner.features.benchmark.entrants import setting_cells
from tuner.features.sb3 import sb3_trainer
from tuner.features.sb3.sb3_algorithms import CONTRIB, SB3, file_of, find
from tuner.features.sb3.sb3_grid import StudyGrid
from tuner.features.sb3.sb3_internals import import_quickly
from tuner.features.sb3.sb3_player import load
from tuner.features.sb3.sb3_state import has_diverged, put_back, random_numbers, set_random_numbers, state_of
from tuner.features.sb3.sb3_trainer import Sb3
from tuner.runs.adaptation_comparison import score_without_an_end
from tuner.runs.config_checks import resolve
from tuner.runs.functions import has_random_policy, run_function, run_probe
from tuner.trial.context import set_current_trial
from tuner.trial.messages import Outcome, TrialInterrupted

CONF = Path(__file__).parents[4] / "conf"
SMALL = {"n_steps": 16, "batch_size": 8, "n_epochs": 1, "learning_starts": 8, "buffer_size": 200, "n_delta": 1}
REPLAYING = {"DQN", "QRDQN", "DDPG", "SAC", "TD3", "TQC", "CrossQ"}
CONTINUOUS = {"DDPG", "SAC", "TD3", "TQC", "CrossQ"}


def settings(name: str, **more: Any) -> dict[str, Any]:
    """A small run of an algorithm."""
    env = "Pendulum-v1" if name in CONTINUOUS else "CartPole-v1"
    known = find(name).parameters
    small = {key: value for key, value in SMALL.items() if key in known}
    if name in REPLAYING:
        small["n_steps"] = 1
    limits = {"id": env, "kwargs": {}, "num_envs": 1, "max_episode_steps": 12}
    sizes = {"total_steps": 48, "num_points": 3, "num_episodes": 1, "net_arch": None if name == "ARS" else [8]}
    return {"algorithm": name, "env": limits, **sizes, **small, **more}


def run(reporter: Reporter, folder: Path, agent: dict[str, Any], seed: int = 1) -> None:
    """Runs it as agent=sb3 does."""
    target = {"_target_": "tuner.features.sb3.sb3_trainer.Sb3", **agent}
    run_function({"agent": target, "seed": seed, "training": {"total_steps": 48}}, folder, reporter)


class Ending(Reporter):
    """Ends the run behind its first report."""

    def report(self, step: float, value: float, seconds: float | None = None) -> None:
        super().report(step, value, seconds)
        raise TrialInterrupted(Outcome.STOPPED)


@pytest.mark.parametrize("name", [*SB3, *CONTRIB])
def test_an_algorithm_reports_on_the_grid_and_goes_on_from_what_it_saved(name: str, tmp_path: Path) -> None:
    first = Ending()
    with pytest.raises(TrialInterrupted):
        run(first, tmp_path, settings(name))
    assert [step for step, _ in first.reported] == [pytest.approx(1 / 3)]
    (kept,) = (tmp_path / "state").glob("*/state.safetensors")
    arrays, head = read_checkpoint(kept)
    assert ("replay/arrays/rewards" in arrays) == (name in REPLAYING)
    if name in REPLAYING:
        assert len(arrays["replay/arrays/rewards"]) == 15  # what there is; the step of the point comes behind it

    second = Reporter()
    second.reported = list(first.reported)
    run(second, tmp_path, settings(name))
    assert [round(3 * step) for step, _ in second.reported][-2:] == [2, 3]
    assert second.reported[0] == first.reported[0]
    assert head["state"]


@pytest.mark.parametrize("name", [*SB3, *CONTRIB])
def test_the_file_of_an_algorithm_has_what_its_class_takes_with_its_defaults(name: str) -> None:
    import inspect

    written = yaml.safe_load((CONF / "agent" / f"{file_of(name)}.yaml").read_text())["agent"]
    kind = find(name)
    taken = inspect.signature(getattr(import_quickly(kind.package), name).__init__).parameters
    assert set(kind.parameters) <= set(taken)
    assert set(kind.policies) == set(getattr(import_quickly(kind.package), name).policy_aliases)
    assert written.keys() - {"algorithm", "action_noise"} == kind.parameters.keys()
    for key in kind.parameters:
        assert written[key] == taken[key].default, key
    searched = yaml.safe_load((CONF / "space" / f"{file_of(name)}.yaml").read_text())["agent"]
    assert searched.keys() <= written.keys() | {"action_noise_std"}


@pytest.mark.parametrize("hindsight", [None, "final"])
def test_a_run_whose_replay_pool_is_not_saved_fills_a_new_one(
    hindsight: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"id": "note_rl.examples.environments:BitFlipping-v0", "num_envs": 1, "kwargs": {"num_bits": 4}}
    agent = settings("DQN", save_replay=False, env={**env, "max_episode_steps": 4}, hindsight=hindsight)
    with pytest.raises(TrialInterrupted):
        run(Ending(), tmp_path, agent)
    (kept,) = (tmp_path / "state").glob("*/state.safetensors")
    assert not [name for name in read_checkpoint(kept)[0] if name.startswith("replay")]
    second, notes = Reporter(), list[str]()
    monkeypatch.setattr(second, "note", notes.append)
    run(second, tmp_path, agent)
    assert second.reported[-1][0] == 1.0
    assert notes == ["the replay pool was not saved: the run goes on with an empty one"]


def made(name: str = "SAC", **more: Any) -> Any:
    sb3 = Sb3(**settings(name, **more))
    return sb3._model(import_quickly(find(name).package), 3)


def test_an_evaluation_leaves_random_numbers_and_the_normaliser_alone(tmp_path: Path) -> None:
    results = []
    for num_points in (1, 3):
        reporter = Reporter()
        agent = settings("PPO", num_points=num_points, normalize_obs=True)
        run(reporter, tmp_path / str(num_points), agent)
        (kept,) = (tmp_path / str(num_points)).glob("state/*/state.safetensors")
        results.append(read_checkpoint(kept)[0])
    assert results[0].keys() == results[1].keys()
    for key, array in results[0].items():
        np.testing.assert_array_equal(array, results[1][key], err_msg=key)
    assert "normaliser/obs_rms/mean" in results[0]


def test_a_model_gets_back_what_was_saved_of_it() -> None:
    model = made(normalize_obs=True)
    model.learn(30)
    state = state_of(model)
    other = made(normalize_obs=True)
    put_back(other, state)
    assert other.num_timesteps == 30
    assert other.replay_buffer.pos == 30
    assert other.log_ent_coef.item() == model.log_ent_coef.item() != 0.0
    obs = np.array([0.5, 0.1, 0.2], np.float32)
    normaliser, others = model.get_vec_normalize_env(), other.get_vec_normalize_env()
    np.testing.assert_array_equal(normaliser.normalize_obs(obs), others.normalize_obs(obs))
    np.testing.assert_array_equal(model.predict(obs, deterministic=True)[0], other.predict(obs, deterministic=True)[0])


def test_a_damaged_state_is_refused() -> None:
    state = state_of(made("DQN"))
    wider = made("DQN", net_arch=[16])
    for damaged in ({**state, "parameters": {}}, {**state, "counters": None}, state):
        with pytest.raises(UserError, match="the saved state of the model is damaged, or not of these settings"):
            put_back(wider, damaged)


def test_points_of_several_environments_are_at_the_first_step_behind_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # what is saved goes into the folder of the run, which is this one
    reporter, seen = Reporter(), []
    points = StudyGrid(reporter, lambda: gymnasium.make("CartPole-v1"), 100, 4, 1, 0)
    points.evaluate = lambda model: seen.append(model.num_timesteps) or 1.0  # type: ignore[method-assign]
    model = made("PPO")
    for step in range(8, 96, 8):
        model.num_timesteps = step
        points.at(model)
    assert seen == [32, 56, 80]
    assert [step for step, _ in reporter.reported] == [0.25, 0.5, 0.75]


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("PPO", {"clip_rnage": 0.1}, r"agent.clip_rnage: PPO of stable_baselines3 has no such setting.*clip_range"),
        ("PPO", {"verbose": 1}, "agent.verbose cannot be set: leave it out, a run prints its own progress"),
        (
            "PPO",
            {"replay_buffer_class": "x"},
            r"agent.replay_buffer_class: PPO of stable_baselines3 has no such setting",
        ),
        ("SAC", {"replay_buffer_class": "x"}, "replay_buffer_class cannot be set: .*, type agent.hindsight=future"),
        ("PPO", {"tensorboard_log": "logs"}, "agent.tensorboard_log cannot be set: type tracker=tensorboard"),
        ("PPO", {"n_steps": 1024}, r"agent.n_steps=1024 .* nothing is learned before the first 1024 steps"),
        ("PPO", {"n_epochs": "many"}, r"agent.n_epochs=many must be a whole number"),
        ("PPO", {"linear": ["gamma"]}, r"agent.linear=\[gamma\].*clip_range"),
        ("PPO", {"action_noise": "normal"}, r"PPO explores in its own way"),
        ("PPO", {"activation_fn": "Relu"}, r"agent.activation_fn=Relu.*ReLU"),
        ("SAC", {"learning_starts": 48}, r"agent.learning_starts=48 is not within training.total_steps=48"),
        ("PPO", {"env": {"id": "CartPole-v1", "num_envs": "auto"}}, "takes a number of .* type env.num_envs=4 or so"),
        ("SAC", {"action_noise": "pink"}, r"agent.action_noise=pink must be normal or"),
        (
            "SAC",
            {"env": {"id": "CartPole-v1"}},
            r"SAC takes no Discrete actions, which CartPole-v1 has: take DQN or PPO",
        ),
        ("DQN", {"env": {"id": "Pendulum-v1"}}, r"DQN takes no Box actions, which Pendulum-v1 has: take SAC or PPO"),
        ("MaskablePPO", {"env": {"id": "Pendulum-v1"}}, r"MaskablePPO takes no Box actions, .*: take SAC or PPO"),
        (
            "PPO",
            {"policy": "MlpPolcy"},
            "agent.policy=MlpPolcy: PPO of stable_baselines3 has no MlpPolcy.*mean MlpPoli",
        ),
        ("RecurrentPPO", {"policy": "MlpPolicy"}, "has no MlpPolicy, it has MlpLstmPolicy"),
        ("PPO", {"learning_rate": float("nan")}, "agent.learning_rate=nan must be a finite number"),
        ("PPO", {"n_steps": 16.5}, "agent.n_steps=16.5 must be a whole number"),
        ("PPO", {"device": "cdua"}, "agent.device=cdua must be cpu, cuda, cuda:1 or auto"),
        ("PPO", {"num_hindsight_goals": 0}, "agent.num_hindsight_goals=0 must be 1 or more"),
        ("PPO", {"env": {"id": "CartPol-v1"}}, "^there is no environment 'CartPol-v1'.* mean: `CartPole`"),
        (
            "TD3",
            {"train_freq": [1, "episode"], "env": {"id": "Pendulum-v1", "num_envs": 2}},
            r"agent.train_freq=\[1,episode\] is for one environment: type env.num_envs=1",
        ),
        ("PPO", {"net_arch": [8], "policy_kwargs": {"net_arch": [8]}}, "are the same: leave one of them out"),
    ],
)
def test_what_cannot_be_is_refused(name: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises((UserError, EnvironmentMismatchError), match=message):
        Sb3(**settings(name, **more))


@pytest.mark.parametrize(
    ("name", "seen", "policy"),
    [
        ("CrossQ", "Cnn", None),
        ("CrossQ", "Mlp", "MlpPolicy"),
        ("ARS", "MultiInput", None),
        ("RecurrentPPO", "Cnn", "CnnLstmPolicy"),
        ("SAC", "Cnn", "CnnPolicy"),
    ],
)
def test_observations_without_a_policy_are_refused_before_a_run(
    name: str, seen: str, policy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = sb3_trainer._World("Box", seen, has_goals=False, time_limit=None)
    monkeypatch.setattr(sb3_trainer, "_world_of", lambda make: world)
    if policy is not None:
        assert Sb3(**settings(name))._policy_in(world) == policy
    else:
        with pytest.raises(UserError, match=rf"agent.algorithm={name} in .*: {name} of .* has no {seen}Policy, it has"):
            Sb3(**settings(name))


def test_whole_numbers_and_others_are_what_the_class_needs() -> None:
    model = made("DQN", buffer_size=2e2, train_freq=4.0, batch_size=8.0, gamma=1)
    model.learn(24)
    assert (model.buffer_size, model.batch_size, model.gamma) == (200, 8, 1.0)
    assert [type(one) for one in (model.buffer_size, model.batch_size, model.gamma)] == [int, int, float]
    assert find("SAC").checked({"ent_coef": 0, "target_entropy": "auto", "train_freq": 1}) == {
        "ent_coef": 0.0,
        "target_entropy": "auto",
        "train_freq": 1,
    }


@pytest.mark.parametrize("typed", [{"activation_fn": "ELU"}, {"activation_fn": torch.nn.ELU}])
def test_arguments_of_the_policy_reach_the_model(typed: dict[str, Any]) -> None:
    arguments = {"optimizer_class": torch.optim.AdamW, "optimizer_kwargs": {"weight_decay": 0.5}, **typed}
    model = made("PPO", net_arch=None, policy_kwargs={"net_arch": {"pi": [6.0], "vf": [5]}, **arguments})
    assert model.policy.net_arch == {"pi": [6], "vf": [5]}
    assert model.policy.activation_fn is torch.nn.ELU
    assert isinstance(model.policy.optimizer, torch.optim.AdamW)
    assert model.policy.optimizer.defaults["weight_decay"] == 0.5


def test_an_update_after_each_episode_is_typed_as_a_list() -> None:
    model = made("TD3", train_freq=[1, "episode"], gradient_steps=-1)
    model.learn(24)  # two episodes
    assert model.train_freq.unit.value == "episode"
    assert model._n_updates == 24


def test_what_a_class_refuses_when_it_is_made_is_said_before_a_study_runs() -> None:
    agent = {"_target_": "tuner.features.sb3.sb3_trainer.Sb3", **settings("PPO", use_sde=True)}
    reported: list[float] = []
    context = SimpleNamespace(
        spec=SimpleNamespace(config={"agent": agent, "env": agent["env"]}, seed=1),
        built=lambda config: None,
        report=lambda step, value: reported.append(value),
    )
    with pytest.raises(UserError, match=r"PPO of stable_baselines3 refuses its settings: .*gSDE.* continuous actions"):
        run_probe(context)  # type: ignore[arg-type] - only these are needed
    assert not reported


def test_an_algorithm_that_is_not_installed_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.features.sb3.sb3_algorithms.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"TQC needs sb3_contrib, which is not installed: pip install 'note-rl\[sb3\]'"):
        find("TQC")
    with pytest.raises(UserError, match="there is no such algorithm; did you mean TQC"):
        find("TQCC")


def test_rewards_alone_may_be_scaled() -> None:
    model = made(normalize_reward=True)
    model.get_vec_normalize_env().ret_rms.var = np.array(4.0)
    other = made(normalize_reward=True)
    put_back(other, state_of(model))
    assert other.get_vec_normalize_env().ret_rms.var == 4.0


def test_a_rollout_that_ends_with_the_budget_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"nothing is learned before the first 48 steps, .* take training.total_steps=96"
    ):
        made("PPO", n_steps=48, total_steps=48)


@pytest.mark.parametrize("name", ["PPO", "SAC"])
def test_a_run_whose_weights_are_no_longer_finite_has_diverged(name: str, tmp_path: Path) -> None:
    agent = settings(name, learning_rate=1e30, net_arch=[8])
    if name == "PPO":
        agent["env"]["id"] = "Pendulum-v1"  # PyTorch refuses to draw from what the network gives
    with pytest.raises(DivergedError, match=r"at step 32|by step \d+: ValueError: Expected parameter loc"):
        run(Reporter(), tmp_path, agent)


def test_an_error_of_finite_weights_is_none_of_divergence() -> None:
    model = made()
    assert not has_diverged(model, ValueError("the environment is closed"))
    assert has_diverged(model, ValueError("Expected parameter loc to satisfy Real(), but found invalid values: nan"))
    next(model.policy.parameters()).data[0] = np.nan
    assert has_diverged(model, ValueError("the environment is closed"))
    model.num_timesteps = 16
    with pytest.raises(DivergedError, match="weights are no longer finite at step 16"):
        StudyGrid(Reporter(), lambda: pytest.fail("it is not evaluated"), 48, 3, 1, 0).at(model)


@pytest.mark.parametrize("name", [*SB3, *CONTRIB])
def test_schedules_go_by_the_whole_run_also_when_it_goes_on(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, float]] = []
    at = StudyGrid.at

    def observed(self: StudyGrid, model: Any, values: Any) -> None:
        seen.append((model.num_timesteps, model._current_progress_remaining))
        at(self, model, values)

    monkeypatch.setattr(StudyGrid, "at", observed)
    agent = settings(name, linear=["learning_rate"], learning_rate=0.001)
    with pytest.raises(TrialInterrupted):
        run(Ending(), tmp_path, agent)
    began = len(seen)
    run(Reporter(), tmp_path, agent)
    longest = 24 if name == "ARS" else 16  # an iteration: two episodes of 12 steps; a rollout
    assert seen[began][0] == 17
    for steps, remaining in seen[began + longest :]:
        learned_at = 48 * (1.0 - remaining)
        assert learned_at == pytest.approx(round(learned_at), abs=1e-6)
        assert steps - longest <= learned_at < steps


@pytest.mark.parametrize("name", ["PPO", "A2C", "TRPO", "RecurrentPPO", "MaskablePPO"])
def test_a_rollout_that_had_begun_goes_on(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = settings(name, num_points=6, gamma=0.5, env={"id": "CartPole-v1", "num_envs": 2, "kwargs": {}})
    agent.pop("vf_coef", None)
    kind = getattr(import_quickly(find(name).package), name)
    learned: list[Any] = []

    def train(self: Any) -> None:
        pool = self.rollout_buffer
        learned.append((self.num_timesteps, pool.pos, pool.rewards.copy(), pool.episode_starts.copy(), self.n_steps))

    monkeypatch.setattr(kind, "train", train)
    with pytest.raises(TrialInterrupted):
        run(Ending(), tmp_path, agent)  # at 8 of 32 steps of a rollout: three rows, and a fourth that is not stored
    assert learned == []
    run(Reporter(), tmp_path, agent)
    steps, rows, rewards, starts, num_steps = learned[0]
    assert (steps, rows, num_steps) == (8 + 2 * 13, 16, 16)
    assert (rewards[:2] == 1.0).all()
    assert (rewards[2] != 1.0).all(), "with the value of what would have come next"
    assert starts[3].tolist() == [1.0, 1.0]
    assert starts[1:3].max() == 0.0


class EndingAtSign(Reporter):
    """Ends the run at a sign of life, counted from 1, and at each call that may end a run behind that."""

    def __init__(self, last: float) -> None:
        super().__init__()
        self._last = last

    def alive(self, progress: float) -> None:
        super().alive(progress)
        if len(self.progress) >= self._last:
            raise TrialInterrupted(Outcome.STOPPED)


@pytest.mark.parametrize("name", ["PPO", "RecurrentPPO", "SAC", "DQN", "ARS"])
def test_a_run_that_is_stopped_in_an_evaluation_goes_on_as_one_that_is_stopped_behind_it(
    name: str, tmp_path: Path
) -> None:
    """To the bit: the evaluation is done anew, and a second stop in it changes nothing."""
    agent = settings(name, num_episodes=3, num_points=6)
    agent["env"]["num_envs"] = 1 if name == "ARS" else 2
    whole = Ending()
    with pytest.raises(TrialInterrupted):
        run(whole, tmp_path / "whole", agent)
    (point, value), *_ = whole.reported
    num_steps = whole.progress.index(max(whole.progress)) + 1  # of training, before the first evaluation
    num_signs = len(whole.progress) - num_steps - 1  # and one with what is saved
    assert num_signs > 20, "at each step of the evaluation"
    for last in (num_steps + 15, 9):
        ended = EndingAtSign(last)
        with pytest.raises(TrialInterrupted):
            run(ended, tmp_path / "ended", agent)
        assert (ended.reported, len(ended.progress) - last) == ([], 1), "it is saved, which looks at the clock, too"
    resumed = []
    for folder, before in (("whole", whole.reported), ("ended", [])):
        reporter = Reporter()
        reporter.reported = list(before)
        run(reporter, tmp_path / folder, agent)
        (kept,) = (tmp_path / folder / "state").glob("*/state.safetensors")
        resumed.append((reporter.reported, read_checkpoint(kept)[0]))
    (reports, arrays), (others, other_arrays) = resumed
    assert reports[0] == (point, value)
    assert reports == others
    assert len(reports) == 6
    assert arrays.keys() == other_arrays.keys()
    assert all(np.array_equal(arrays[key], other_arrays[key], equal_nan=True) for key in arrays)


def test_of_two_points_at_one_step_the_second_is_evaluated_behind_a_stop(tmp_path: Path) -> None:
    env = {"id": "CartPole-v1", "num_envs": 8, "kwargs": {}, "max_episode_steps": 12}
    agent = settings("A2C", num_points=12, env=env, n_steps=2)  # points at 4, 8, ..., steps at 8, 16, ...
    whole, ended = Reporter(), Ending()
    run(whole, tmp_path / "whole", agent)
    assert [round(12 * step) for step, _ in whole.reported] == list(range(1, 13))
    with pytest.raises(TrialInterrupted):
        run(ended, tmp_path / "ended", agent)
    assert ended.reported == whole.reported[:1]
    rest = Reporter()
    rest.reported = list(ended.reported)
    run(rest, tmp_path / "ended", agent)
    assert [step for step, _ in rest.reported] == [step for step, _ in whole.reported]
    assert rest.reported[:2] == whole.reported[:2]


def test_a_run_that_goes_on_explores_as_much_as_before() -> None:
    model = made("DQN", exploration_initial_eps=1.0, exploration_final_eps=0.75, exploration_fraction=1.0)
    model.learn(24)
    other = made("DQN")
    assert other.exploration_rate == 0.0
    put_back(other, state_of(model))
    assert other.exploration_rate == model.exploration_rate == 0.75


def test_wrappers_are_around_the_environments_those_for_training_not_in_evaluations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_for: list[Any] = []
    evaluate = StudyGrid.evaluate

    def observed(self: StudyGrid, model: Any) -> float:
        made_for.append((self.make(), model.get_env()))
        return evaluate(self, model)

    monkeypatch.setattr(StudyGrid, "evaluate", observed)
    quarter = partial(TransformReward, func=lambda reward: reward * 0.25)
    run_it = Sb3(**settings("PPO", wrapper={"time": TimeAwareObservation}, wrapper_training={"less": quarter}))
    reporter = Reporter()
    set_current_trial(_InFolder(reporter, tmp_path))
    try:
        run_it(3)
    finally:
        set_current_trial(None)
    evaluated, trained = made_for[0]
    evaluated.reset()
    trained.reset()
    assert evaluated.observation_space.shape == trained.observation_space.shape == (5,)
    assert (evaluated.step(0)[1], trained.step([0])[1].tolist()) == (1.0, [0.25])


class _InFolder:
    """A run with a folder."""

    def __init__(self, reporter: Reporter, folder: Path) -> None:
        self._reporter, self.folder, self.total_steps = reporter, folder, 48

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reporter, name)


def test_goals_are_replayed_also_behind_a_resume(tmp_path: Path) -> None:
    env = {"id": "note_rl.examples.environments:BitFlipping-v0", "num_envs": 1, "kwargs": {"num_bits": 4}}
    env["max_episode_steps"] = 4
    agent = settings("DQN", hindsight="final", learning_starts=8, env=env)
    with pytest.raises(TrialInterrupted):
        run(Ending(), tmp_path, agent)
    arrays, _ = read_checkpoint(next((tmp_path / "state").glob("*/state.safetensors")))
    assert {"replay/arrays/ep_length", "replay/begins"} <= arrays.keys()
    assert "replay/arrays/infos" not in arrays
    player = load({"agent": {"_target_": SB3_CONFIG["agent"]["_target_"], **agent}, "seed": 1}, tmp_path)
    pool = player.model.replay_buffer
    assert (type(pool).__name__, pool.pos) == ("HerReplayBuffer", 15)
    assert (pool.ep_length[:15] > 0).all(), "the episode that was cut off may be learned from"
    assert bool(pool.dones[14])
    run(Reporter(), tmp_path, agent)


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("SAC", {"hindsight": "next"}, "agent.hindsight=next must be future, final or episode"),
        ("PPO", {"hindsight": "final"}, "PPO has no replay pool"),
        ("SAC", {"hindsight": "final"}, "needs observations with goals, and Pendulum-v1 shows none"),
        (
            "DQN",
            {"hindsight": "final", "learning_starts": 3, "env": {"id": "note_rl.examples.environments:BitFlipping-v0"}},
            r"learns from whole episodes.*take agent.learning_starts=\d+ or more, not 3",
        ),
    ],
)
def test_goals_that_cannot_be_replayed_are_refused(name: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Sb3(**settings(name, **more))


def test_an_episode_that_was_cut_off_does_not_lead_into_the_next_one() -> None:
    model = made("DQN", n_steps=3)
    model.learn(8)
    assert not model.replay_buffer.dones[7]
    other = made("DQN", n_steps=3)
    put_back(other, state_of(model))
    pool = other.replay_buffer
    assert pool.dones[:9, 0].tolist() == pool.timeouts[:9, 0].tolist() == [0.0] * 7 + [1.0, 0.0]


def test_a_trained_model_is_played(tuner: CommandLine) -> None:
    small = ("training.total_steps=48", "evaluation.num_points=2", "evaluation.num_episodes=1", "tracker=jsonl")
    words = ("agent=sb3", "agent.algorithm=PPO", "agent.n_steps=16", "agent.batch_size=8", "agent.net_arch=[8]")
    normalised = ("agent.normalize_obs=true", "hydra.run.dir=mine")
    answer = tuner("train", *words, *small, *normalised)
    assert answer.status == 0, answer
    again = tuner("train", "resume=mine")
    assert "nothing was learned" not in again.output
    assert answer.output.splitlines()[-1].partition(" (")[0] in again.output, "the score of a function"
    answer = tuner("play", "mine", "num_episodes=3")
    assert answer.status == 0, answer
    assert "over 3 episodes" in answer.output
    assert "after 48 steps of training" in answer.output
    assert (tuner.folder / "mine" / "play.gif").stat().st_size > 1000
    assert tuner("play", "mine", "num_episodes=3").output == answer.output
    assert "keeps its last weights only" in tuner.refused("play", "mine", "weights=best")
    assert "is for agents of this project" in tuner.refused("play", "mine", "evaluation.policy=eps")
    player = load_agent("mine")
    assert player.num_env_steps == 48
    obs = np.array([0.1, 0.2, 0.1, 0.2], np.float32)
    seen = player.model.get_vec_normalize_env().normalize_obs(obs)
    assert player.predict(obs)[0] == player.model.predict(seen, deterministic=True)[0]
    longer = tuner("train", "resume=mine", "training.total_steps=96", "evaluation.num_episodes=2")
    assert longer.status == 0, longer
    assert load_agent("mine").num_env_steps == 96
    lines = (tuner.folder / "mine" / "reports.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0.25, 0.5, 1.0]
    (tuner.folder / "mine" / "state").rename(tuner.folder / "mine" / "gone")
    assert "has no checkpoint yet" in tuner.refused("play", "mine")


SB3_CONFIG: dict[str, Any] = {
    "agent": {
        "_target_": "tuner.features.sb3.sb3_trainer.Sb3",
        "algorithm": "PPO",
        "env": {"id": "CartPole-v1", "num_envs": 1},
    },
    "env": {"id": "CartPole-v1", "num_envs": 1, "kwargs": {}, "max_episode_steps": None},
    "seed": 0,
}
FUNCTION_CONFIG: dict[str, Any] = {"agent": {"_target_": f"{__name__}.a_function"}, "seed": 0}


def test_a_run_that_ended_by_a_limit_is_worth_what_a_random_policy_is() -> None:
    random = score_without_an_end(SB3_CONFIG, [])
    assert random is not None
    assert 10.0 < random < 40.0
    assert score_without_an_end(SB3_CONFIG, [(0.5, 4.0), (0.6, 9.0)], "final") == 4.0
    assert score_without_an_end(FUNCTION_CONFIG, [(0.5, 4.0)], "final") == 4.0
    assert score_without_an_end(FUNCTION_CONFIG, []) is None


def test_a_study_measures_a_random_policy_first() -> None:
    assert has_random_policy(SB3_CONFIG)
    assert not has_random_policy(FUNCTION_CONFIG)
    told: list[float] = []
    context: Any = SimpleNamespace(
        spec=SimpleNamespace(config=SB3_CONFIG, seed=3),
        alive=lambda progress: None,
        built=lambda config: None,
        report=lambda step, value: told.extend([step, value]),
    )
    run_probe(context)
    assert told[0] == 1.0
    assert 10.0 < told[1] < 40.0


def test_schedules_noise_and_networks_reach_the_model() -> None:
    model = made("TD3", linear=["learning_rate"], learning_rate=0.5, action_noise="normal", action_noise_std=0.3)
    assert [model.lr_schedule(part) for part in (1.0, 0.5, -0.1)] == [0.5, 0.25, 0.0]
    assert model.action_noise._sigma.tolist() == [pytest.approx(0.3)]
    assert model.policy_kwargs["net_arch"] == [8]
    several = made("PPO", activation_fn="ELU", env={"id": "CartPole-v1", "num_envs": 3}, n_steps=8)
    assert several.n_envs == 3
    assert several.policy_kwargs["activation_fn"].__name__ == "ELU"


def test_random_numbers_are_those_of_all_three_sources() -> None:
    def drawn() -> tuple[float, float, float]:
        return torch.rand(()).item(), float(np.random.rand()), random.random()  # noqa: NPY002

    before = random_numbers()
    first = drawn()
    assert all(one != other for one, other in zip(first, drawn(), strict=True))
    set_random_numbers(before)
    assert drawn() == first


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["agent=sb3"], ["agent=sb3_ppo"]),
        (["agent=sb3", "agent.algorithm=sac", "seed=2"], ["agent=sb3_sac", "seed=2"]),
        (["agent=sb3", "agent.algorithm=PPO,A2C"], ["agent=sb3_ppo,sb3_a2c"]),
        (["agent=ppo", "agent.algorithm=SAC"], ["agent=ppo", "agent.algorithm=SAC"]),
        (["agent.algorithm=SAC", "agent=sb3"], ["agent=sb3_sac"]),
        (["agent=sb3_ppo", "agent.algorithm=PPO", "agent.algorithm=A2C"], ["agent=sb3_a2c"]),
        (["agent=sb3_ppo", "agent.algorithm=PPO", "agent=dqn"], ["agent=dqn"]),
        (["agent=sb3", "agent.library=sbx"], ["agent=sbx/ppo"]),
        (["agent=sb3", "agent.algorithm=sac", "agent.library=sbx"], ["agent=sbx/sac"]),
        (["agent=sb3_td3", "agent.library=sbx"], ["agent=sbx/td3"]),
        (["agent=sbx/ppo", "agent.algorithm=PPO", "agent=dqn"], ["agent=dqn"]),
        (["agent=sb3", "agent.library=sb3,sbx"], ["agent=sb3_ppo,sbx/ppo"]),
        (["agent=sb3", "settings=[a,b]"], ["agent=sb3_ppo", "agent.algorithm=PPO", "settings=[a,b]"]),
    ],
)
def test_the_name_of_an_algorithm_chooses_its_file_in_every_command(typed: list[str], meant: list[str]) -> None:
    for name in ("train", "tune"):
        assert COMMANDS[name].meant(typed) == meant


@pytest.mark.parametrize(
    ("agent", "settings", "algorithms"),
    [
        ("sb3", ["agent.algorithm=PPO", "agent.algorithm=A2C"], ["PPO", "A2C"]),
        ("sb3", ["agent.gamma=0.9", "agent=dqn"], ["PPO", None]),
        ("dqn", ["agent=sb3 agent.algorithm=A2C", "agent=sb3"], ["A2C", "PPO"]),
    ],
)
def test_settings_that_are_compared_may_name_algorithms(
    agent: str, settings: list[str], algorithms: list[str | None]
) -> None:
    typed = [f"agent={agent}", "training.total_steps=5000", f"settings={to_hydra(settings)}"]
    overrides = COMMANDS["compare"].meant(typed)
    config = resolve(check_command("compare", overrides).config)
    cells = setting_cells(config, overrides, None)
    assert [cell.entrant for cell in cells] == settings
    assert [cell.config["agent"].get("algorithm") for cell in cells] == algorithms


def test_an_algorithm_that_contradicts_the_file_is_refused() -> None:
    with pytest.raises(UserError, match=r"agent=sb3_ppo and agent.algorithm=SAC are two algorithms: leave one"):
        COMMANDS["train"].meant(["agent=sb3_ppo", "agent.algorithm=SAC"])


def test_a_folder_of_somebody_else_runs_no_code_but_by_what_it_names() -> None:
    agent = {"_target_": "tuner.features.sb3.sb3_trainer.Sb3", "algorithm": "PPO", "env": {"id": "CartPole-v1"}}
    assert not list(foreign_code({"agent": agent, "env": {"id": "CartPole-v1"}}))
    hidden = {**agent, "env": {"id": "somebodys_module:Env-v0"}}
    (found,) = foreign_code({"agent": hidden, "env": {"id": "CartPole-v1"}})
    assert "somebodys_module" in str(found)
    called = {**agent, "policy_kwargs": {"activation_fn": {"_target_": "os.system"}}}
    assert list(foreign_code({"agent": called, "env": {"id": "CartPole-v1"}}))


def test_a_class_is_what_would_be_typed() -> None:
    ppo = getattr(import_quickly("stable_baselines3"), "PPO")  # noqa: B009 - mypy needs no types of it
    of_class = as_typed(ppo, None, {"env": "CartPole-v1", "gamma": np.float64(0.9), "total_steps": 5000}, [])
    expected = ["agent=sb3_ppo", "env.id=CartPole-v1", "training.total_steps=5000", "++agent.gamma=0.9"]
    assert of_class == [*expected, "~space.agent.gamma"], "what is given is not searched"
    assert as_typed(ppo, {"gamma": (0.8, 0.99)}, {"gamma": 0.9}, [])[1:] == [
        *("++agent.gamma=0.9", "space=none", "+space.agent.gamma={low:0.8,high:0.99}"),
    ]
    for also in (["space=none", "+space.agent.gamma={low:0.8,high:0.99}"], ["~space.agent.gamma"]):
        assert as_typed(ppo, None, {"gamma": 0.9}, also)[1:] == ["++agent.gamma=0.9", *also]
    arguments = {"net_arch": [32], "activation_fn": torch.nn.ReLU, "optimizer_class": torch.optim.AdamW}
    assert as_typed(ppo, None, {"policy_kwargs": arguments}, [])[1:] == [
        "++agent.policy_kwargs={net_arch:[32],activation_fn:ReLU,"
        "optimizer_class:{_target_:hydra.utils.get_class,path:torch.optim.adamw.AdamW}}"
    ]


@pytest.mark.parametrize(
    ("typed", "arguments"),
    [
        (["agent.policy_kwargs={net_arch:[32],activation_fn:ReLU,ortho_init:false}"], {"ortho_init": False}),
        (["agent.policy_kwargs.net_arch=[32]", "+agent.policy_kwargs.activation_fn=ReLU"], {}),
        (
            ["agent.net_arch=[32]", "agent.activation_fn=ReLU", "agent.policy_kwargs.optimizer_kwargs={eps:1e-6}"],
            {"optimizer_kwargs": {"eps": 1e-6}},
        ),
    ],
)
def test_arguments_of_the_policy_are_typed_in_any_form(typed: list[str], arguments: dict[str, Any]) -> None:
    agent = resolve(check_command("train", COMMANDS["train"].meant(["agent=sb3_ppo", *typed])).config)["agent"]
    assert (agent["net_arch"], agent["activation_fn"], agent["policy_kwargs"]) == ([32], "ReLU", arguments)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (
            ["agent=sb3_ppo", "agent.policy_kwargs={net_archh:[32]}"],
            r"agent.policy_kwargs.net_archh: .* mean net_arch\?",
        ),
        (["agent=ppo", "agent.policy_kwargs.net_arch=[32]"], "here it is network.hidden_sizes"),
        (["agent=sb3_ppo", "env.id=CartPol-v1"], "^there is no environment 'CartPol-v1'"),
    ],
)
def test_wrong_arguments_are_refused_in_the_words_that_were_typed(typed: list[str], message: str) -> None:
    with pytest.raises((UserError, EnvironmentMismatchError), match=message):
        check_command("train", COMMANDS["train"].meant(typed))


def test_what_is_no_class_of_the_library_is_refused() -> None:
    ppo = getattr(import_quickly("stable_baselines3"), "PPO")  # noqa: B009 - mypy needs no types of it
    with pytest.raises(UserError, match=r"Mine is a class of your own, derived from PPO, .* write a function"):
        as_typed(type("Mine", (ppo,), {}), None, {"env": "CartPole-v1"}, [])
    with pytest.raises(UserError, match=r"this PPO is a model already.* tuner.tune\(PPO, env='CartPole-v1'"):
        as_typed(made("PPO"), None, {"env": "CartPole-v1"}, [])
