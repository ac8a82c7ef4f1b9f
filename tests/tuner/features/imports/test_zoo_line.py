"""Entries of files as RL Baselines3 Zoo has them, as command lines that compose."""

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tuner.command_line import CommandLine
from tests.tuner.features.imports.zoo_like import FILES, write_zoo
from tuner.commands.preflight import check_command, preflight
from tuner.commands.study_from_config import define
from tuner.config.composition import to_json
from tuner.config.paths import get_path
from tuner.errors import UserError
from tuner.features.imports.zoo_files import Symbol, values_of, zoo_entry
from tuner.features.imports.zoo_line import zoo_baseline, zoo_words

ENTRIES = [
    (algorithm, env if env not in ("atari", "default") else {"atari": "PongNoFrameskip-v4", "default": "Foo-v0"}[env])
    for algorithm, text in FILES.items()
    for env in yaml.safe_load(text)
]


NOT_INSTALLED = ("Foo-v0", "Unknown-v7", "LunarLander-v3", "BipedalWalker-v3")
"""Environments, without which no more than the settings can be checked."""


@pytest.fixture(autouse=True)
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package, which fails if it is imported."""
    package = write_zoo(tmp_path / "installed")
    monkeypatch.setattr(sys, "path", [str(package.parent), *sys.path])
    return package


def composed(name: str, agent: str | None = None) -> dict[str, Any]:
    """The configuration of the line of an entry."""
    return to_json(preflight("train", words_of(name, agent)))


def words_of(name: str, agent: str | None = None) -> list[str]:
    algorithm, _, env = name.partition("/")
    return zoo_words(zoo_entry(algorithm, env), agent)[1]


def remarks_of(name: str, agent: str | None = None) -> str:
    algorithm, _, env = name.partition("/")
    return "\n".join(zoo_words(zoo_entry(algorithm, env), agent)[0].remarks)


def values_at(config: dict[str, Any], *paths: str) -> list[Any]:
    return [get_path(config, path) for path in paths]


@pytest.mark.parametrize(("algorithm", "env"), ENTRIES)
def test_each_line_composes(algorithm: str, env: str) -> None:
    check_command("train", words_of(f"{algorithm}/{env}"), with_run=env not in NOT_INSTALLED)


@pytest.mark.parametrize(("algorithm", "env"), [one for one in ENTRIES if one[1] != "PongNoFrameskip-v4"])
def test_each_line_of_the_library_composes(algorithm: str, env: str) -> None:
    check_command("train", words_of(f"{algorithm}/{env}", "sb3"), with_run=env not in NOT_INSTALLED)


def test_the_line_is_printed_with_what_has_no_counterpart(tuner: CommandLine) -> None:
    answer = tuner("import", "zoo", "ppo/MountainCarContinuous-v0")
    assert answer.status == 0, answer
    line, *remarks = answer.output.splitlines()
    assert shlex.split(line)[:4] == ["tuner", "train", "agent=ppo_continuous", "env=mountaincar_continuous"]
    check_command("train", shlex.split(line)[2:])
    assert [remark.partition("=")[0] for remark in remarks] == ["# env_wrapper"]


def test_what_the_file_names_counts() -> None:
    config = composed("ppo/CartPole-v1")
    paths = ("agent.clip", "agent.gamma", "agent.gae_lambda", "buffer.num_steps", "buffer.num_epochs", "env.num_envs")
    assert values_at(config, *paths) == [0.25, 0.97, 0.9, 16, 5, 4]
    assert values_at(config, "training.total_steps", "optimizer.learning_rate") == [30000, 0.002]
    assert config["buffer"]["batch_size"] == "rollout"  # 64 are all of it
    assert config["schedule"]["learning_rate"] | {"_target_": ""} == {
        "_target_": "",
        "start": 0.002,
        "end": 0.0,
        "fraction": 1.0,
    }
    assert "clip" not in config["schedule"]


def test_what_it_does_not_name_is_as_in_the_library() -> None:
    config = composed("ppo/MountainCar-v0")
    ours = to_json(preflight("train", ["agent=ppo", "env=mountaincar"]))
    paths = ("optimizer.learning_rate", "buffer.num_steps", "agent.entropy_coef", "env.num_envs", "optimizer.epsilon")
    assert values_at(config, *paths) == [3e-4, 2048, 0.0, 1, 1e-5]
    assert values_at(ours, *paths) == [2e-3, 64, 0.025, 8, 1e-8]
    assert (config["schedule"], list(ours["schedule"])) == ({}, ["learning_rate"])
    replayed = composed("dqn/MountainCar-v0")
    paths = ("buffer.capacity", "buffer.batch_size", "buffer.num_steps", "policy.eps", "schedule.eps.fraction")
    assert values_at(replayed, *paths) == [1000000, 32, 1, 0.05, 0.1]


def test_layers_of_policy_and_values_may_differ() -> None:
    config = composed("ppo/Pendulum-v1")
    assert values_at(config, "network.hidden_sizes", "network.activation") == [[32], "elu"]
    assert values_at(config, "network.critic.hidden_sizes", "network.critic.activation") == [[48, 48], "elu"]
    assert values_at(config, "training.normalise_obs", "training.normalise_reward") == [True, False]
    assert config["agent"]["initial_log_std"] == -1.0
    assert config["schedule"]["clip"]["start"] == 0.3
    assert list(config["schedule"]) == ["clip"]
    assert values_at(config, "network.initializer", "network.critic.initializer") == ["uniform", "uniform"]
    assert config["agent"]["normalise_advantage"] == "minibatch"
    assert remarks_of("ppo/Pendulum-v1") == ""


def test_steps_are_those_of_all_environments_together() -> None:
    config = composed("dqn/MountainCar-v0")
    assert values_at(config, "buffer.train_freq", "buffer.gradient_steps", "env.num_envs") == [32, 32, 2]
    cartpole = composed("dqn/CartPole-v1")
    assert values_at(cartpole, "buffer.train_freq", "buffer.gradient_steps") == [256, 128]
    assert values_at(cartpole, "buffer.target_update_interval", "buffer.target_update_env_steps") == [None, 10]
    assert values_at(cartpole, "schedule.eps.fraction", "policy.eps") == [0.16, 0.04]


def test_an_atari_game_is_found_by_its_id() -> None:
    config = composed("ppo/SpaceInvadersNoFrameskip-v4")
    assert values_at(config, "env.game", "training.frame_stack", "env.num_envs") == ["space_invaders", 4, 4]
    assert config["schedule"].keys() == {"learning_rate", "clip"}
    assert "env_wrapper" not in remarks_of("ppo/SpaceInvadersNoFrameskip-v4")


def test_exploration_of_numbers() -> None:
    sac = composed("sac/MountainCarContinuous-v0")
    assert values_at(sac, "agent.alpha", "agent.target_entropy", "network.critic.hidden_sizes") == [0.1, -2, [128]]
    assert values_at(sac, "buffer.train_freq", "buffer.gradient_steps") == [1, 1]
    assert list(sac["wrapper"]) == ["time"]
    assert "train_freq=[1, episode]" in remarks_of("sac/MountainCarContinuous-v0")
    assert sac["agent"]["num_critics"] == 1
    assert values_at(composed("sac/Pendulum-v1"), "agent.alpha", "agent.initial_alpha") == [None, 0.1]
    td3 = composed("td3/Pendulum-v1")
    assert values_at(td3, "noise.sigma", "buffer.target_update_interval", "network.hidden_sizes") == [
        0.1,
        2,
        [400, 300],
    ]
    assert composed("td3/MountainCarContinuous-v0")["noise"] == {}
    ddpg = composed("ddpg/MountainCarContinuous-v0")
    assert values_at(ddpg, "noise.sigma", "noise.dt", "buffer.target_update_interval") == [0.5, 0.01, 1]


def test_critics_of_crossq_have_layers_and_a_number_of_their_own() -> None:
    paths = (
        "network.hidden_sizes",
        "network.critic.hidden_sizes",
        "agent.num_critics",
        "buffer.target_update_interval",
    )
    typed = composed("crossq/Pendulum-v1")
    assert values_at(typed, *paths) == [[128, 128], [128, 128], 3, 2]
    assert values_at(typed, "optimizer.learning_rate", "buffer.train_freq", "buffer.learning_starts") == [1e-3, 1, 100]
    assert remarks_of("crossq/Pendulum-v1") == ""
    assert values_at(composed("crossq/MountainCarContinuous-v0"), *paths) == [[256, 256], [1024, 1024], 2, 3]
    assert remarks_of("crossq/MountainCarContinuous-v0") == "use_sde=true: there is no such thing here"


def test_quantiles_of_tqc_and_how_many_are_dropped() -> None:
    paths = ("agent.num_critics", "agent.num_quantiles", "agent.num_dropped_per_critic", "network.hidden_sizes")
    assert values_at(composed("tqc/Pendulum-v1"), *paths) == [5, 20, 3, [400, 300]]
    by_state = composed("tqc/MountainCarContinuous-v0")
    assert values_at(by_state, *paths) == [2, 25, 2, [256, 256]]
    assert values_at(by_state, "policy.hold", "agent.initial_log_std", "agent.alpha") == [32, -3.67, None]
    assert by_state["policy"]["_target_"] == "note_rl.policy.SquashedGSDEPolicy"
    assert remarks_of("tqc/Pendulum-v1") == remarks_of("tqc/MountainCarContinuous-v0") == ""


def test_exploration_by_the_state() -> None:
    ppo = composed("ppo/MountainCarContinuous-v0")
    assert ppo["policy"] == {"_target_": "note_rl.policy.GSDEPolicy", "hold": 4}
    assert values_at(ppo, "agent.initial_log_std", "agent.gsde.use_expln", "buffer.num_steps") == [-3.0, False, 8]
    a2c = composed("a2c/Pendulum-v1")
    assert values_at(a2c, "agent.gsde.full_std", "agent.gsde.use_expln", "network.initializer") == [
        False,
        True,
        "uniform",
    ]
    assert values_at(a2c, "policy.hold", "buffer.num_steps") == [16, 16], "a matrix lasts for a rollout"
    of_sac = {"policy=squashed_gsde", "policy.hold=64", "policy.num_random_steps=0", "buffer.learning_starts=500"}
    of_sac |= {"agent.initial_log_std=-3.5", "agent.gsde.clip_mean=1.5"}
    assert of_sac <= set(words_of("sac/BipedalWalker-v3"))
    assert remarks_of("sac/BipedalWalker-v3") == remarks_of("a2c/Pendulum-v1") == ""
    said = remarks_of("ppo/MountainCarContinuous-v0", "ppo")
    assert "use_sde=true: for actions that are numbers: agent=ppo_continuous has it" in said


@pytest.mark.parametrize(
    ("lines", "hold", "said"),
    [
        ("train_freq: [32, step]\n  sde_sample_freq: 8", 8, ""),
        ("train_freq: 4\n  sde_sample_freq: 8", 4, ""),
        ("train_freq: [1, episode]\n  sde_sample_freq: 16", 16, ""),
        ("train_freq: [1, episode]", 8, "sde_sample_freq=-1: there noise lasts for an episode"),
    ],
)
def test_a_noise_matrix_lasts_no_longer_than_a_rollout(tmp_path: Path, lines: str, hold: int, said: str) -> None:
    file = tmp_path / "sac.yml"
    file.write_text(f"Pendulum-v1:\n  n_timesteps: 2000\n  policy: MlpPolicy\n  use_sde: True\n  {lines}\n")
    written, words = zoo_words(zoo_entry("sac", "Pendulum-v1", str(file)), None)
    assert to_json(preflight("train", words))["policy"]["hold"] == hold
    assert said in "\n".join(written.remarks)


def test_where_a_learned_weight_starts_must_be_a_number(tmp_path: Path) -> None:
    file = tmp_path / "sac.yml"
    file.write_text("Pendulum-v1: {n_timesteps: 2000, policy: MlpPolicy, ent_coef: auto_low}\n")
    with pytest.raises(UserError, match=r"ent_coef of Pendulum-v1 must be a number, auto or auto_0\.1, not auto_low"):
        zoo_words(zoo_entry("sac", "Pendulum-v1", str(file)), None)


def test_an_agent_is_picked_by_the_actions_or_typed() -> None:
    assert "agent=ppo_continuous" in words_of("ppo/Pendulum-v1")
    assert "agent=ppo" in words_of("ppo/CartPole-v1")
    assert "agent=trpo_continuous" in words_of("trpo/Pendulum-v1")  # by the environment: the entry does not say
    assert "agent=ppo_continuous" in words_of("ppo/Unknown-v7", "ppo_continuous")
    assert "actions of Unknown-v7 are not known here: add agent=ppo_continuous" in remarks_of("ppo/Unknown-v7")
    assert "agent=double_dqn" in words_of("dqn/CartPole-v1", "double_dqn")
    with pytest.raises(UserError, match="agent=sac is no ppo; there is ppo, ppo_continuous, sb3"):
        words_of("ppo/CartPole-v1", "sac")


def test_an_algorithm_without_an_agent_of_our_own_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ars.yml"
    file.write_text("CartPole-v1: {n_timesteps: 2000, policy: LinearPolicy}\n")
    with pytest.raises(UserError, match="no agent of our own for ars: add agent=sb3"):
        zoo_words(zoo_entry("ars", "CartPole-v1", str(file)), None)


def test_quantiles_are_learned_by_dqn() -> None:
    """With Adam's epsilon as the library has it, 0.01 / batch_size, and gradients of any length."""
    config = composed("qrdqn/CartPole-v1")
    paths = ("agent.values", "agent.num_quantiles", "buffer.batch_size", "buffer.num_steps", "optimizer.epsilon")
    assert values_at(config, *paths) == ["quantiles", 10, 64, 1, 0.01 / 64]
    assert values_at(config, "policy.eps", "schedule.eps.fraction", "training.max_grad_norm") == [0.01, 0.16, None]
    assert values_at(config, "schedule.learning_rate.start", "schedule.learning_rate.end") == [2.3e-3, 0.0]
    assert remarks_of("qrdqn/CartPole-v1") == ""


def test_an_update_after_each_episode_stays_one_of_the_library() -> None:
    agent = composed("sac/MountainCarContinuous-v0", "sb3")["agent"]
    assert (agent["train_freq"], agent["gradient_steps"]) == ([1, "episode"], -1)
    assert "train_freq" not in remarks_of("sac/MountainCarContinuous-v0", "sb3")


def test_settings_of_the_library_are_said_as_they_are() -> None:
    config = composed("ppo/Pendulum-v1", "sb3")
    agent = config["agent"]
    assert (agent["linear"], agent["clip_range"], agent["activation_fn"]) == (["clip_range"], 0.3, "ELU")
    assert (agent["net_arch"], agent["ent_coef"]) == ({"pi": [32], "vf": [48, 48]}, 0.002)
    assert agent["policy_kwargs"] == {"log_std_init": -1, "ortho_init": False}
    assert (agent["normalize_obs"], agent["normalize_reward"]) == (True, False)
    gsde = composed("ppo/MountainCarContinuous-v0", "sb3")["agent"]
    assert (gsde["use_sde"], gsde["sde_sample_freq"], gsde["target_kl"]) == (True, 4, 0.02)
    assert "+agent.policy_kwargs.n_quantiles=170" in words_of("qrdqn/LunarLander-v3", "sb3")
    assert "agent.linear=[learning_rate]" in words_of("qrdqn/LunarLander-v3", "sb3")
    assert composed("td3/MountainCarContinuous-v0", "sb3")["agent"]["action_noise"] is None
    assert remarks_of("a2c/Acrobot-v1", "sb3") == (
        "policy_kwargs.optimizer_class=RMSpropTFLike: there is no such thing here"
    )


def test_the_zoo_is_a_baseline_of_a_study() -> None:
    typed = ["agent=ppo", "env=cartpole", "training.total_steps=900", "evaluation.num_points=3"]
    definition = define(preflight("tune", [*typed, "study.baselines=[default,zoo]"]))
    assert definition.settings.baselines == ("zoo",)
    known = definition.known["zoo"]
    assert values_at(known, "agent.clip", "env.num_envs", "training.total_steps") == [0.25, 4, 900]
    assert known["evaluation"] == definition.config["evaluation"]
    assert known["schedule"]["learning_rate"]["start"] == 0.002
    library_study = ["agent=sb3_ppo", "env=cartpole", "training.total_steps=9000", "evaluation.num_points=3"]
    library = define(preflight("tune", [*library_study, "study.baselines=[default,zoo]"])).known["zoo"]
    assert values_at(library, "agent.clip_range", "agent.total_steps", "agent.num_points") == [0.25, 9000, 3]
    continuous = define(preflight("tune", ["agent=ppo_continuous", "env=pendulum", "study.baselines=zoo"]))
    assert continuous.known["zoo"]["network"]["hidden_sizes"] == [32]
    by_state = ["agent=ppo_continuous", "env=mountaincar_continuous", "policy=gsde", "study.baselines=zoo"]
    assert define(preflight("tune", by_state)).known["zoo"]["policy"]["hold"] == 4
    with pytest.raises(UserError, match=r"study.baselines=zoo: .*dqn.yml has no entry Acrobot-v1"):
        preflight_study("agent=dqn", "env=acrobot", "study.baselines=zoo")
    with pytest.raises(UserError, match=r"study\.baselines=zoo: the Zoo has no settings of ACER"):
        preflight_study("agent=acer", "study.baselines=zoo")
    of_sbx = {"_target_": "tuner.features.sb3.sbx_trainer.Sbx", "algorithm": "SAC"}
    with pytest.raises(UserError, match="the Zoo has settings of Stable-Baselines3, not of Sbx-SAC; leave it out"):
        zoo_baseline({"agent": of_sbx, "env": {"id": "Pendulum-v1"}})


def preflight_study(*overrides: str) -> None:
    define(preflight("tune", list(overrides)))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("dict(net_arch=[64, 64], activation_fn=nn.ReLU)", {"net_arch": [64, 64], "activation_fn": "nn.ReLU"}),
        ("{'norm_obs': True, 'clip': -1.5}", {"norm_obs": True, "clip": -1.5}),
        ("dict(a=dict(pi=(1, 2)), b=None)", {"a": {"pi": [1, 2]}, "b": None}),
    ],
)
def test_a_line_of_python_is_read_as_values(text: str, value: object) -> None:
    assert values_of(text) == value
    assert isinstance(values_of("nn.ReLU"), Symbol)


@pytest.mark.parametrize(
    "text",
    ["__import__('os').system('touch here')", "dict(a=open('x'))", "[x for x in y]", "dict(**a)", "1 +", "f'{a}'"],
)
def test_a_line_of_python_is_never_run(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="which is not read: values, lists, names and dict"):
        values_of(text, "ppo.yml: A.policy_kwargs")
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("zoo",), "zoo takes ALGORITHM/ENVIRONMENT, such as ppo/CartPole-v1"),
        (("zoo", "ppo"), "zoo takes ALGORITHM/ENVIRONMENT, such as ppo/CartPole-v1, not ppo"),
        (("zoo", "pop/CartPole-v1"), "there is no algorithm pop; did you mean ppo"),
        (("zoo", "dqn/CartPole-v0"), "has no entry CartPole-v0; did you mean CartPole-v1"),
        (("zoo", "ppo/CartPole-v1", "file=none.yml"), "file=none.yml cannot be read"),
        (("zoo", "ppo/CartPole-v1", "name=x"), "name is of tuner import study"),
        (("zoo", "ppo/CartPole-v1", "storage=sqlite:///x.db"), "storage is of tuner import study"),
        (("zoo", "ppo/CartPole-v1", "agent=dqn"), "agent=dqn is no ppo"),
        (("zoo", "ars/Pendulum-v1"), "has no hyperparams/ars.yml"),
    ],
)
def test_what_is_wrong_is_refused(tuner: CommandLine, arguments: tuple[str, ...], message: str) -> None:
    assert message in tuner.refused("import", *arguments)


def test_a_line_for_what_is_not_installed_is_printed_with_the_reason(tuner: CommandLine) -> None:
    answer = tuner("import", "zoo", "ppo/Unknown-v7", "agent=sb3")
    assert answer.status == 0, answer
    assert answer.output.startswith("tuner train agent=sb3_ppo env.id=Unknown-v7")
    assert "# it cannot be run as it is: there is no environment 'Unknown-v7'" in answer.output


def test_a_file_of_the_user_is_read(tuner: CommandLine) -> None:
    Path("my.yml").write_text(FILES["ppo"].replace("0.25", "0.35"))
    assert "agent.clip=0.35" in tuner("import", "zoo", "ppo/CartPole-v1", "file=my.yml").output
    for text, said in (("- a", "holds no entries"), ("a: [", "is no YAML"), ("CartPole-v1: 3", "holds no settings")):
        Path("my.yml").write_text(text)
        assert said in tuner.refused("import", "zoo", "ppo/CartPole-v1", "file=my.yml")


def test_without_the_package_it_is_said_what_to_do(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path[1:])
    sys.path_importer_cache.clear()
    assert "rl_zoo3 is not installed here: pip install rl_zoo3" in tuner.refused("import", "zoo", "ppo/CartPole-v1")
