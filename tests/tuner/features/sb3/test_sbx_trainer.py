"""Algorithms of SBX in the place of an agent: settings everywhere, runs where the package is installed."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

import tuner as api
from tests.tuner.command_line import CommandLine
from tests.tuner.features.sb3.test_sb3_trainer import CONTINUOUS, REPLAYING, SMALL, Ending, Reporter
from tuner.commands import COMMANDS
from tuner.commands.preflight import check_command
from tuner.commands.python_calls import as_typed
from tuner.config.signatures import signature_of
from tuner.config.trust import foreign_code
from tuner.errors import UserError
from tuner.features.sb3.sb3_algorithms import SBX, file_of, find
from tuner.features.sb3.sb3_player import load
from tuner.features.sb3.sb3_state import is_finite, put_back, state_of
from tuner.features.sb3.sbx_state import import_sbx
from tuner.features.sb3.sbx_trainer import Sbx
from tuner.runs.config_checks import resolve
from tuner.runs.functions import function_name, run_function
from tuner.trial.messages import TrialInterrupted

CONF = Path(__file__).parents[4] / "conf"
TARGET = "tuner.features.sb3.sbx_trainer.Sbx"
pytestmark = pytest.mark.filterwarnings("ignore:.*jax.*:DeprecationWarning")
installed = pytest.mark.sbx

LIKE_SBX = """
class SAC:
    def __init__(self, policy, env, learning_rate: float = 3e-4, qf_learning_rate: float | None = None,
                 buffer_size: int = 1_000_000, learning_starts: int = 100, batch_size: int = 256, tau: float = 0.005,
                 gamma: float = 0.99, train_freq: int = 1, gradient_steps: int = 1, policy_delay: int = 1,
                 n_steps: int = 1, ent_coef: str | float = "auto", target_entropy: str | float = "auto",
                 use_sde: bool = False, sde_sample_freq: int = -1, use_sde_at_warmup: bool = False,
                 param_resets: list[int] | None = None, seed: int | None = None, device: str = "auto"):
        raise AssertionError("it is not made while settings are checked")

class PPO:
    def __init__(self, policy, env, learning_rate: "float | Schedule" = 3e-4, n_steps: int = 2048,
                 clip_range: "float | Schedule" = 0.2, clip_range_vf: "float | Schedule | None" = None,
                 use_sde: bool = False, sde_sample_freq: int = -1):
        raise AssertionError("it is not made while settings are checked")

class DQN:
    def __init__(self, policy, env, learning_rate: "float | Schedule" = 1e-4, buffer_size: int = 1_000_000,
                 replay_buffer_class=None):
        raise AssertionError("it is not made while settings are checked")
"""
GOALS = {"id": "note_rl.examples.environments:BitFlipping-v0"}


@pytest.fixture
def like_sbx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of that name whose import fails: its source is read only."""
    (tmp_path / "sbx").mkdir()
    (tmp_path / "sbx" / "__init__.py").write_text(f"{LIKE_SBX}\nraise ImportError('not while settings are checked')\n")
    monkeypatch.syspath_prepend(tmp_path)


def test_settings_are_those_of_its_own_class_which_is_not_imported(like_sbx: None) -> None:
    typed = ["agent=sb3", "agent.algorithm=SAC", "agent.library=sbx", "agent.policy_delay=3"]
    config = resolve(check_command("tune", COMMANDS["tune"].meant(typed)).config)
    assert config["agent"]["_target_"] == TARGET
    assert config["agent"]["qf_learning_rate"] is None
    assert "tau" in config["space"]["agent"]
    assert function_name(config) == "Sbx-SAC"
    assert "sbx" not in sys.modules
    with pytest.raises(UserError, match=r"agent.learning_rat: SAC of sbx has no such setting.*learning_rate"):
        Sbx("SAC", {"id": "Pendulum-v1"}, learning_rat=0.1)


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("PPO", {"clip_range_vf": 0.2}, "agent.clip_range_vf has no effect: PPO of sbx does not use it; leave it out"),
        ("PPO", {"use_sde": True}, "agent.use_sde has no effect"),
        ("DQN", {"linear": ["learning_rate"], "learning_rate": 0.1}, "DQN of sbx cannot change it during a run"),
        ("DQN", {"net_arch": [64, 32]}, r"DQN of sbx has 2 hidden layers of one size; type agent.net_arch=\[64,64\]"),
        ("DQN", {"env": GOALS}, "DQN of sbx has no MultiInputPolicy, it has MlpPolicy, CnnPolicy"),
        ("PPO", {"policy": "SimbaPolicy"}, "PPO of sbx has no SimbaPolicy"),
    ],
)
def test_what_has_no_effect_there_is_refused(like_sbx: None, name: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Sbx(name, **{"env": {"id": "CartPole-v1"}, **more})
    assert Sbx("PPO", {"id": "CartPole-v1"}, learning_rate=0.1, linear=["learning_rate"], clip_range=1)
    assert Sbx("DQN", {"id": "CartPole-v1"}, net_arch=[64, 64])


def test_a_folder_of_that_name_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sbx").mkdir()
    folder = SimpleNamespace(origin=None, submodule_search_locations=[str(tmp_path / "sbx")])
    monkeypatch.setattr("tuner.features.sb3.sb3_algorithms.find_spec", lambda name: folder)
    with pytest.raises(UserError, match="needs sbx, which is not installed"):
        find("SAC", "sbx")


def test_a_graphics_card_is_shared_and_never_taken_for_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.features.sb3.sbx_state.import_quickly", lambda package: package)
    for variable in ("XLA_PYTHON_CLIENT_PREALLOCATE", "NPROC"):
        monkeypatch.setenv(variable, "")  # so that it is put back behind the test
        monkeypatch.delenv(variable)
    backends = iter(("gpu", "cpu"))
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(default_backend=lambda: next(backends)))
    assert import_sbx("sbx", "auto") == import_sbx("sbx", "cuda") == "sbx"
    assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    with pytest.raises(UserError, match=r"agent\.device=cuda: JAX finds no graphics card here, only cpu"):
        import_sbx("sbx", "cuda")


def test_jax_of_a_notebook_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[tuple[str, str]] = []
    jax = SimpleNamespace(config=SimpleNamespace(update=lambda *change: changed.append(change)))
    module = "tuner.features.sb3.sbx_state"
    monkeypatch.setattr(f"{module}.import_quickly", lambda package: package)
    monkeypatch.setattr(f"{module}.import_module", lambda name: jax)
    for variable in ("XLA_PYTHON_CLIENT_PREALLOCATE", "NPROC"):
        monkeypatch.setenv(variable, "")
    monkeypatch.setitem(sys.modules, "jax", jax)
    assert import_sbx("sbx", "cpu") == "sbx"
    assert changed == []
    monkeypatch.delitem(sys.modules, "jax")
    import_sbx("sbx", "cpu")
    assert changed == [("jax_platforms", "cpu")]
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setattr(f"{module}.current_trial", Reporter)
    import_sbx("sbx", "cpu")
    assert len(changed) == 2, "a trial has its process to itself"


def test_a_library_that_is_not_installed_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.features.sb3.sb3_algorithms.find_spec", lambda name: None)
    message = "agent.algorithm=SAC agent.library=sbx needs sbx, which is not installed: pip install sbx-rl"
    with pytest.raises(UserError, match=message):
        find("SAC", "sbx")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["agent.library=sbbx"], "agent.library=sbbx must be sb3 or sbx"),
        (["agent.library=sbx", "agent.algorithm=ARS"], "this library has PPO, .* only; leave agent.library out"),
        (["agent.library=sbx", "agent.algorithm=SACC"], "there is no such algorithm; did you mean SAC"),
    ],
)
def test_a_library_or_an_algorithm_of_it_that_is_not_there_is_refused(typed: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        COMMANDS["train"].meant(["agent=sb3", *typed])


def test_a_folder_of_somebody_else_may_name_it() -> None:
    agent = {"_target_": TARGET, "algorithm": "PPO", "env": {"id": "CartPole-v1"}}
    assert not list(foreign_code({"agent": agent, "env": {"id": "CartPole-v1"}}))


@installed
@pytest.mark.parametrize("name", SBX)
def test_the_file_of_an_algorithm_has_what_its_class_takes_with_its_defaults(name: str) -> None:
    import inspect

    written = yaml.safe_load((CONF / "agent" / f"{file_of(name, 'sbx')}.yaml").read_text())["agent"]
    kind = find(name, "sbx")
    assert written.keys() - {"algorithm", "action_noise", "_target_"} == kind.parameters.keys()
    kept = getattr(import_sbx("sbx", "cpu"), name)
    assert set(kind.policies) == set(kept.policy_aliases)
    taken = inspect.signature(kept.__init__).parameters
    for key in kind.parameters:
        assert written[key] == taken[key].default, key
    searched = yaml.safe_load((CONF / "space" / f"{file_of(name, 'sbx')}.yaml").read_text())["agent"]
    assert searched.keys() <= written.keys() | {"action_noise_std"}
    assert signature_of(TARGET) is not None


def settings(name: str, **more: Any) -> dict[str, Any]:
    """A small run of an algorithm."""
    small = {key: value for key, value in SMALL.items() if key in find(name, "sbx").parameters}
    if name in REPLAYING:
        small["n_steps"] = 1
    limits = {"id": "Pendulum-v1" if name in CONTINUOUS else "CartPole-v1", "kwargs": {}, "num_envs": 1}
    limits["max_episode_steps"] = 12
    sizes = {"total_steps": 48, "num_points": 3, "num_episodes": 1, "net_arch": [8, 8]}
    return {"algorithm": name, "env": limits, **sizes, **small, **more}


def run(reporter: Reporter, folder: Path, agent: dict[str, Any]) -> None:
    """Runs it as agent.library=sbx does."""
    run_function({"agent": {"_target_": TARGET, **agent}, "seed": 1, "training": {"total_steps": 48}}, folder, reporter)


@installed
@pytest.mark.parametrize("name", SBX)
def test_a_run_goes_on_from_what_it_saved(name: str, tmp_path: Path) -> None:
    first = Ending()
    agent = settings(name)
    with pytest.raises(TrialInterrupted):
        run(first, tmp_path, agent)
    player = load({"agent": {"_target_": TARGET, **agent}, "seed": 1}, tmp_path)
    assert player.num_env_steps == 16
    assert is_finite(player.model)
    second = Reporter()
    second.reported = list(first.reported)
    run(second, tmp_path, agent)
    assert [round(3 * step) for step, _ in second.reported][-2:] == [2, 3]
    assert second.reported[0] == first.reported[0]
    assert player.returns(2, 0, False).shape == (2,)


@installed
def test_a_model_gets_back_networks_optimizers_and_random_keys() -> None:
    run_it = Sbx(**settings("SAC", activation_fn="Tanh", normalize_obs=True))
    model, other = (run_it._model(run_it._imported(), seed) for seed in (3, 4))
    model.learn(40)
    put_back(other, state_of(model))
    for name in ("actor_state", "qf_state"):
        for mine, theirs in zip(_leaves(model, name), _leaves(other, name), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(model.key, other.key)
    np.testing.assert_array_equal(model.policy.noise_key, other.policy.noise_key)
    obs = np.array([0.5, 0.1, 0.2], np.float32)
    np.testing.assert_array_equal(model.predict(obs, deterministic=True)[0], other.predict(obs, deterministic=True)[0])
    assert other.policy.activation_fn.__name__ == "tanh"
    broken = other.policy.actor_state.params
    other.policy.actor_state = other.policy.actor_state.replace(params=_map(lambda leaf: leaf * np.nan, broken))
    assert not is_finite(other)


@installed
def test_a_run_that_is_packed_acts_as_before(tuner: CommandLine) -> None:
    small = ("training.total_steps=48", "evaluation.num_points=2", "evaluation.num_episodes=1", "tracker=jsonl")
    words = ("agent=sbx/dqn", "agent.learning_starts=8", "agent.buffer_size=200", "agent.net_arch=[8,8]")
    assert tuner("train", *words, *small, "hydra.run.dir=runs/mine").status == 0
    answer = tuner("push", "runs/mine")
    assert answer.status == 0, answer
    answer = tuner("pull", "mine.zip", "folder=theirs")
    assert "Trained for 48 environment steps." in answer.output, answer
    observations = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
    before, after = (api.load_agent(place).predict(observations)[0] for place in ("runs/mine", "theirs"))
    np.testing.assert_array_equal(before, after)


def _leaves(model: Any, name: str) -> list[Any]:
    from importlib import import_module

    return [np.asarray(one) for one in import_module("jax").tree_util.tree_leaves(getattr(model.policy, name))]


def _map(change: Any, tree: Any) -> Any:
    from importlib import import_module

    return import_module("jax").tree_util.tree_map(change, tree)


@installed
@pytest.mark.parametrize("name", SBX)
def test_a_rate_that_may_fall_does(name: str) -> None:
    rate = {"learning_rate": 0.5, "linear": ["learning_rate"]}
    if "learning_rate" not in find(name, "sbx").schedules:
        with pytest.raises(UserError, match="cannot change it during a run"):
            Sbx(**settings(name, **rate))
        return
    run_it = Sbx(**settings(name, **rate))
    model = run_it._model(run_it._imported(), 3)
    model.learn(40)
    state = model.policy.actor_state.opt_state
    found = (state[1] if name == "PPO" else state).hyperparams["learning_rate"]
    assert 0.0 <= float(found) < 0.5


@installed
@pytest.mark.parametrize("name", ["SAC", "TQC", "CrossQ"])
def test_a_whole_weight_of_the_entropy_is_taken(name: str) -> None:
    run_it = Sbx(**settings(name, ent_coef=1))
    assert run_it._model(run_it._imported(), 3).ent_coef_init == 1.0


@installed
def test_a_class_is_what_would_be_typed() -> None:
    of_class = as_typed(import_sbx("sbx", "cpu").TQC, None, {"env": "Pendulum-v1", "gamma": 0.9}, [])
    assert of_class == ["agent=sbx/tqc", "env.id=Pendulum-v1", "agent.gamma=0.9", "~space.agent.gamma"]
