"""Configurations are composed of conf/, of folders of the user, and of what is typed."""

import copy
from pathlib import Path
from typing import Any

import pytest
from hydra._internal.utils import create_config_search_path
from omegaconf import DictConfig

from tuner.commands.preflight import preflight
from tuner.config.composition import RunConfig, compose, conf_folder, config_loader, plain_choice, to_json
from tuner.errors import UserError
from tuner.runs.build import build_settings


def run_config(**changes: Any) -> dict[str, Any]:
    config = to_json(compose(config_loader(), "train", []))
    for path, value in changes.items():
        section, _, key = path.partition("__")
        config[section] = {**config[section], key: value} if key else value
    return config


def test_the_configuration_of_a_run_is_typed() -> None:
    run = RunConfig.from_json(run_config())
    assert (run.env.id, run.env.num_envs, run.training.total_steps, run.checkpoint.keep) == (
        "CartPole-v1",
        1,
        50_000,
        1,
    )
    assert run.agent["_target_"] == "note_rl.agents.pytorch.DQN"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training__total_steps": 0}, "training.total_steps=0 is not possible: it must be at least 1"),
        ({"training__max_grad_norm": 0.0}, "training.max_grad_norm=0.0 is not possible: it must be above 0"),
        ({"training__jit_compile": "maybe"}, "training.jit_compile=maybe is not possible"),
        ({"evaluation__num_points": 0}, "evaluation.num_points=0"),
        ({"evaluation__num_episodes": 0}, "evaluation.num_episodes=0"),
        ({"env__num_envs": 0}, "env.num_envs=0"),
        ({"env__num_envs": "many"}, "env.num_envs=many is not possible: it must be a number or 'auto'"),
        ({"env__max_episode_steps": 0}, "env.max_episode_steps=0"),
        ({"checkpoint__keep": 0}, "checkpoint.keep=0"),
        ({"backend__device": "gpu"}, "backend.device=gpu is not possible: it must be one of cpu, cuda, auto"),
        ({"seed": -1}, "seed=-1 is not possible: it must be at least 0"),
    ],
)
def test_values_out_of_range_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        RunConfig.from_json(run_config(**changes))
    assert message in str(caught.value)


def test_a_config_without_a_needed_part_is_refused() -> None:
    config = run_config()
    del config["agent"]
    with pytest.raises(UserError, match="has no agent"):
        RunConfig.from_json(config)


def test_an_agent_chooses_the_groups_it_needs_and_the_command_line_wins() -> None:
    ppo = to_json(preflight("train", ["agent=ppo"]))
    assert ppo["buffer"]["_target_"].endswith("RolloutSettings")
    assert ppo["policy"]["_target_"].endswith("SoftmaxPolicy")
    assert (ppo["network"]["activation"], ppo["env"]["num_envs"], ppo["optimizer"]["learning_rate"]) == (
        "relu",
        8,
        2e-3,
    )
    assert to_json(preflight("train", ["agent=a2c"]))["network"]["activation"] == "tanh"
    other = to_json(preflight("train", ["agent=a2c", "network=mlp", "schedule=linear_lr", "env.num_envs=2"]))
    assert (other["network"]["activation"], other["env"]["num_envs"]) == ("relu", 2)
    measured = to_json(preflight("train", ["agent=ppo", "env.num_envs=auto"]))
    assert build_settings(RunConfig.from_json(measured)).num_envs == "auto"
    other = to_json(preflight("train", ["agent=ppo", "network=mlp_tanh", "schedule=linear_decay", "env.num_envs=2"]))
    assert (other["network"]["activation"], other["env"]["num_envs"]) == ("tanh", 2)
    assert other["schedule"]["clip"]["start"] == 0.2


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("agent=ppo", ["learning_rate"]),
        ("agent=ppo_continuous", []),
        ("agent=gail", []),
        ("agent=a2c", []),
        ("agent=dqn", ["eps"]),
        ("experiment=ppo_lunarlander", []),
        ("experiment=ppo_lstm_recall_cue", []),
        ("experiment=ppo_pendulum", ["learning_rate", "clip"]),
    ],
)
def test_what_changes_over_training(typed: str, names: list[str]) -> None:
    """The first begins at the rate of the optimizer and ends at 0."""
    schedule = to_json(compose(config_loader(), "train", [typed]))["schedule"]
    assert list(schedule) == names
    if typed == "agent=ppo":
        rate = schedule["learning_rate"]
        assert (rate["start"], rate["end"], rate["fraction"]) == (2e-3, 0.0, 1.0)


def test_an_experiment_overrides_the_choices_of_its_agent() -> None:
    config = to_json(preflight("train", ["experiment=ppo_cartpole", "backend=keras"]))
    assert config["agent"] == {
        "_target_": "note_rl.agents.keras.PPO",
        "gamma": 0.98,
        "gae_lambda": 0.8,
        "clip": 0.2,
        "entropy_coef": 0.0,
        "value_coef": 0.5,
        "normalise_advantage": True,
    }
    assert set(config["schedule"]) == {"learning_rate", "clip"}


def test_values_follow_what_they_refer_to() -> None:
    config = to_json(preflight("train", ["policy.eps=0.2"]))
    assert config["schedule"]["eps"]["end"] == 0.2


def test_whole_numbers_may_be_written_as_powers_of_ten() -> None:
    config = to_json(preflight("train", ["training.total_steps=1e5", "buffer.capacity=2e4"]))
    assert repr(config["training"]["total_steps"]) == "100000"
    assert repr(config["buffer"]["capacity"]) == "20000"


def test_every_value_of_a_sweep_is_checked() -> None:
    first = preflight("train", ["agent=ppo,dqn", "seed=range(1,5)"])
    assert (first.agent._target_.rpartition(".")[2], first.seed) == ("PPO", 1)
    with pytest.raises(UserError, match="no agent=dqnn; did you mean agent=dqn"):
        preflight("train", ["agent=ppo,dqnn"])


def test_composing_leaves_hydra_as_it_was() -> None:
    from hydra.core.global_hydra import GlobalHydra

    preflight("train")
    assert not GlobalHydra.instance().is_initialized()


def test_asking_for_choices_copies_no_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DictConfig, "__deepcopy__", None)  # thousands of copies were most of the time of --help
    loader = config_loader()
    assert {"dqn", "ppo"} <= set(loader.get_group_options("agent"))
    before = [source.path for source in loader.get_sources()]
    repository = copy.deepcopy(loader.repository)
    repository.initialize_sources(create_config_search_path(str(tmp_path)))
    assert str(tmp_path) in [source.path for source in repository.get_sources()]
    assert [source.path for source in loader.get_sources()] == before


def test_a_folder_of_the_user_adds_choices(tmp_path: Path) -> None:
    (tmp_path / "optimizer").mkdir()
    (tmp_path / "optimizer" / "slow.yaml").write_text("defaults: [adam]\nlearning_rate: 1.0e-6\n")
    config = preflight("train", ["agent=td3", "env=pendulum", "optimizer=slow"], tmp_path)  # TD3 names no learning rate
    assert (config.optimizer.learning_rate, config.optimizer.beta1) == (1e-6, 0.9)
    with pytest.raises(UserError, match="there is no such folder"):
        preflight("train", [], tmp_path / "nothing")


def test_conf_is_found_beside_the_package() -> None:
    assert (conf_folder() / "base.yaml").is_file()


def test_a_choice_by_itself_refers_to_nothing() -> None:
    local = plain_choice("executor", "local")
    assert (local["backend"], local["threads"], local["limits"]["grace_s"]) == ("none", 1, 10)


def test_an_option_of_the_command_line_is_no_setting() -> None:
    with pytest.raises(UserError, match="--config-dir is for the command line: from Python, config_dir="):
        preflight("train", ["agent=dqn", "--config-dir", "mine"])
