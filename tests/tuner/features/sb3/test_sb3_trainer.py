"""Runs of algorithms of Stable-Baselines3: what they report, go on from, and leave alone."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml

from note_rl.training.checkpoint import read_checkpoint
from tests.tuner.runs.reporters import Reporter
from tuner.commands import COMMANDS
from tuner.commands.python_calls import as_typed
from tuner.config.trust import foreign_code
from tuner.errors import UserError
from tuner.features.sb3.sb3_algorithms import CONTRIB, SB3, file_of, find
from tuner.features.sb3.sb3_grid import StudyGrid
from tuner.features.sb3.sb3_internals import import_quickly
from tuner.features.sb3.sb3_state import put_back, random_numbers, state_of
from tuner.features.sb3.sb3_trainer import Sb3
from tuner.runs.functions import run_function
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
    assert written.keys() - {"algorithm", "action_noise"} == kind.parameters.keys()
    for key in kind.parameters:
        assert written[key] == taken[key].default, key
    searched = yaml.safe_load((CONF / "space" / f"{file_of(name)}.yaml").read_text())["agent"]
    assert searched.keys() <= written.keys() | {"action_noise_std"}


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
        ("PPO", {"n_steps": 1024}, r"agent.n_steps=1024 .* nothing is learned before the first 1024 steps"),
        ("PPO", {"n_epochs": "many"}, r"agent.n_epochs=many must be a whole number"),
        ("PPO", {"linear": ["gamma"]}, r"agent.linear=\[gamma\].*clip_range"),
        ("PPO", {"action_noise": "normal"}, r"PPO explores in its own way"),
        ("PPO", {"activation_fn": "Relu"}, r"agent.activation_fn=Relu.*ReLU"),
        ("SAC", {"learning_starts": 48}, r"agent.learning_starts=48 is not within training.total_steps=48"),
        ("SAC", {"action_noise": "pink"}, r"agent.action_noise=pink must be normal or"),
        (
            "SAC",
            {"env": {"id": "CartPole-v1"}},
            r"SAC takes no Discrete actions, which CartPole-v1 has: take DQN or PPO",
        ),
        ("DQN", {"env": {"id": "Pendulum-v1"}}, r"DQN takes no Box actions, which Pendulum-v1 has: take SAC or PPO"),
    ],
)
def test_what_cannot_be_is_refused(name: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Sb3(**settings(name, **more))


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


def test_schedules_noise_and_networks_reach_the_model() -> None:
    model = made("TD3", linear=["learning_rate"], learning_rate=0.5, action_noise="normal", action_noise_std=0.3)
    assert [model.lr_schedule(part) for part in (1.0, 0.5, -0.1)] == [0.5, 0.25, 0.0]
    assert model.action_noise._sigma.tolist() == [pytest.approx(0.3)]
    assert model.policy_kwargs["net_arch"] == [8]
    several = made("PPO", activation_fn="ELU", env={"id": "CartPole-v1", "num_envs": 3}, n_steps=8)
    assert several.n_envs == 3
    assert several.policy_kwargs["activation_fn"].__name__ == "ELU"


def test_random_numbers_are_those_of_all_three_sources() -> None:
    assert {"torch", "numpy", "python"} <= random_numbers().keys()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["agent=sb3"], ["agent=sb3_ppo"]),
        (["agent=sb3", "agent.algorithm=sac", "seed=2"], ["agent=sb3_sac", "seed=2"]),
        (["agent=sb3", "agent.algorithm=PPO,A2C"], ["agent=sb3_ppo,sb3_a2c"]),
        (["agent=ppo", "agent.algorithm=SAC"], ["agent=ppo", "agent.algorithm=SAC"]),
    ],
)
def test_the_name_of_an_algorithm_chooses_its_file_in_every_command(typed: list[str], meant: list[str]) -> None:
    for name in ("train", "tune"):
        assert COMMANDS[name].meant(typed) == meant


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


def a_function(seed: int, rate: float = 0.5, units: int = 8) -> float:
    """What is tuned from Python."""
    return rate * units


def without_defaults(seed: int, rate: float) -> float:
    """The same, with nothing to compare with."""
    return rate


def test_a_function_and_a_class_are_what_would_be_typed() -> None:
    typed = as_typed(a_function, {"rate": (0.1, 1.0), "units": [8, 16]}, {"num_trials": 4}, ["executor=inline"])
    assert typed == [
        "agent=function",
        f"agent._target_={__name__}.a_function",
        "study.num_trials=4",
        "+agent.rate=0.5",
        "+agent.units=8",
        "space=none",
        "+space.agent.rate={low:0.1,high:1.0}",
        "+space.agent.units={choices:[8,16]}",
        "executor=inline",
    ]
    ppo = getattr(import_quickly("stable_baselines3"), "PPO")  # noqa: B009 - mypy needs no types of it
    of_class = as_typed(ppo, None, {"env": "CartPole-v1", "gamma": 0.9}, [])
    assert of_class == ["agent=sb3_ppo", "env.id=CartPole-v1", "agent.gamma=0.9"]


@pytest.mark.parametrize(
    ("function", "space", "settings", "message"),
    [
        (a_function, None, {}, "space is missing"),
        (a_function, {"rate": (0.1,)}, {}, r"a pair is \(low, high\)"),
        (a_function, {"rate": 0.1}, {}, "give a pair"),
        (a_function, {"rate": (0.1, 1.0)}, {"env": "CartPole-v1"}, "a function makes its environment itself"),
        (without_defaults, {"rate": (0.1, 1.0)}, {}, "space has rate, which has no value to compare with"),
        (lambda seed: 0.0, {"rate": (0.1, 1.0)}, {"rate": 0.1}, "has no name by which another process finds it"),
    ],
)
def test_what_cannot_be_tuned_from_python_is_refused(
    function: Any, space: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        as_typed(function, space, settings, [])
