"""`tuner options AGENT`: what can be typed, and that it can be typed."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tuner.command_line import CommandLine, tuner
from tuner.commands.preflight import preflight
from tuner.config.composition import conf_folder
from tuner.config.overrides import to_hydra
from tuner.study.space.leaves import leaves_of

__all__ = ["tuner"]


def options(tuner: CommandLine, *typed: str) -> dict[str, dict[str, Any]]:
    answer = tuner("options", *typed, "json=true")
    assert (answer.status, answer.errors) == (0, "")
    return {one["key"]: one for one in json.loads(answer.output)["options"]}


def test_an_option_says_all_that_is_known_of_it(tuner: CommandLine) -> None:
    found = options(tuner, "trpo")
    assert found["agent.max_kl"] == {
        "key": "agent.max_kl",
        "default": 0.01,
        "range": "above 0",
        "search": {"low": 1.0e-3, "high": 0.1, "log": True},
        "searched": "0.001 .. 0.1 (log)",
        "text": "bound of the mean KL divergence between the policies before and after an update",
        "effect": "higher: larger changes of the policy by one rollout",
        "typical": "0.005 to 0.05",
    }
    assert found["buffer.num_steps"]["default"] == 256, "of the agent, not of the class or of conf/buffer"
    assert found["buffer.num_steps"]["range"] == "a whole number, at least 1"
    assert found["agent.line_search_steps"]["search"] is None
    assert found["training.normalise_obs"]["range"] == "true or false"
    assert found["training.reward_window"]["range"] == "a whole number, at least 1"
    assert found["+buffer.num_env_steps"]["text"].endswith("replace `num_steps`; null: that holds.")
    assert not {"buffer.capacity", "+buffer.PPO", "+buffer.priority", "seed", "tracker"} & found.keys()


@pytest.mark.parametrize("agent", ["dqn", "ppo", "synthetic"])
def test_all_that_is_searched_is_among_the_options(tuner: CommandLine, agent: str) -> None:
    written = yaml.safe_load((conf_folder() / "space" / f"{agent}.yaml").read_text())
    written.pop("defaults", None)
    space = dict(leaves_of(written))
    if agent == "ppo":  # besides what is in its own file
        space["network.activation"] = {"choices": ["tanh", "relu"]}
    assert {key: one["search"] for key, one in options(tuner, agent).items() if one["search"]} == space


def test_every_option_can_be_typed(tuner: CommandLine) -> None:
    found = options(tuner, "prioritized_dqn").values()
    typed = [f"{one['key']}={to_hydra(one['default'])}" for one in found]
    config = preflight("train", ["agent=prioritized_dqn", *typed])
    assert config.buffer.learned_reward is False, "one that conf/ does not have"
    assert config.training.frame_stack == 1
    assert "frame_stack" not in config.buffer, "typed once"
    assert config.buffer.priority.epsilon == 1e-6


def test_the_list_is_for_people(tuner: CommandLine) -> None:
    output = tuner("options", "ppo", "buffer.num_epochs=4", "env=pendulum", "~space.agent.clip").output
    words = " ".join(output.split())
    assert "buffer.num_epochs=4 passes over each rollout a whole number, at least 1; searched over 1 .. 20" in words
    clip = "higher: larger changes of the policy by one rollout above 0; usually 0.1 to 0.3 agent.entropy_coef=0.0"
    assert f"gradient is cut {clip}" in words, "what is not searched has its range only"
    assert "env.id=Pendulum-v1 " in words
    assert "searched over 0.3 .. 5 (log)" in words


@pytest.mark.parametrize("agent", ["maddpg", "ddpg_her"])  # whose environments have long names
def test_lines_are_no_longer_than_people_read(tuner: CommandLine, agent: str) -> None:
    lines = tuner("options", agent).output.splitlines()
    assert max(map(len, lines)) <= 100
    words = " ".join(" ".join(lines).split())
    for one in options(tuner, agent).values():
        default = one["default"]
        assert f"{one['key']}={default if isinstance(default, str) else to_hydra(default)} {one['text']}" in words


def test_a_custom_agent_has_options_too(tuner: CommandLine) -> None:
    for name, text in (
        (
            "agent",
            "# @package _global_\n# Mine.\ndefaults: [dqn]\nagent:\n  gamma: 0.5               # how far it looks\n",
        ),
        ("space", "agent:\n  gamma: {choices: [0.25, 0.5]}\n"),
    ):
        Path(name).mkdir()
        (Path(name) / "mine.yaml").write_text(text)
    found = options(tuner, "mine", "--config-dir", ".")
    gamma = found["agent.gamma"]
    assert (gamma["default"], gamma["searched"], gamma["text"]) == (0.5, "0.25, 0.5", "how far it looks")


def test_no_such_agent(tuner: CommandLine) -> None:
    assert "there is no agent=pp; did you mean agent=ppo" in tuner.refused("options", "pp")
    assert "search space" not in tuner("options", "dqn", "space=none").errors


def test_a_group_is_listed_with_its_choices_and_their_settings(tuner: CommandLine) -> None:
    answer = tuner("options", "sampler", "json=true")
    assert (answer.status, answer.errors) == (0, "")
    found = {one["name"]: one for one in json.loads(answer.output)["choices"]}
    assert sorted(found) == sorted(path.stem for path in (conf_folder() / "sampler").glob("*.yaml"))
    assert found["nsga2"]["settings"] == [
        {
            "key": "sampler.population_size",
            "default": 50,
            "text": "configurations of a generation",
            "is_group": False,
        }
    ]
    lines = tuner("options", "sampler").output.splitlines()
    assert "sampler=nsga2: Non-dominated sorting genetic algorithm II, for several objectives" in lines
    assert "  sampler.population_size=50          configurations of a generation" in lines


def test_a_choice_has_the_settings_of_the_file_that_it_builds_on(tuner: CommandLine) -> None:
    found = {one["name"]: one for one in json.loads(tuner("options", "study", "json=true").output)["choices"]}
    full = {one["key"]: one["default"] for one in found["full"]["settings"]}
    quick = {one["key"]: one["default"] for one in found["quick"]["settings"]}
    assert quick.keys() <= full.keys()
    assert (full["study.num_test_seeds"], quick["study.num_test_seeds"]) == (10, 5)


def test_a_group_that_there_is_not_is_refused(tuner: CommandLine) -> None:
    answer = tuner("options", "group=smpler")
    assert answer.status == 2
    assert (
        answer.errors
        == "tuner options: group=smpler is no group; did you mean sampler?; groups are "
        + ", ".join(sorted(path.name for path in conf_folder().iterdir() if path.is_dir() and path.name != "hydra"))
        + "\n"
    )


def choices(tuner: CommandLine, *typed: str) -> dict[str, dict[str, Any]]:
    answer = tuner("options", *typed, "json=true")
    assert (answer.status, answer.errors) == (0, "")
    return {
        one["name"]: {setting["key"]: setting["default"] for setting in one["settings"]}
        for one in json.loads(answer.output)["choices"]
    }


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def test_choices_in_inner_folders_are_listed_with_what_they_build_on(tuner: CommandLine) -> None:
    write("mine/agent/sbx/own.yaml", "defaults: [ppo]\n_target_: my_rl.Own\n")
    found = choices(tuner, "agent", "--config-dir", "mine")
    assert {"dqn", "sbx/ppo", "sbx/dqn"} <= found.keys()
    assert found["sbx/dqn"]["agent.batch_size"] == 32
    assert found["sbx/dqn"].keys() > found["sb3"].keys(), "it builds on /agent/sb3"
    assert found["sbx/own"]["agent.learning_rate"] == found["sbx/ppo"]["agent.learning_rate"], "not of agent=ppo"
    lines = tuner("options", "space").output.splitlines()
    assert "space=sbx/ppo: What is searched of PPO of SBX" in lines


def test_groups_of_a_users_own_are_listed(tuner: CommandLine) -> None:
    write("mine/reward/clipped.yaml", "# Rewards within a range.\nlimit: 2.0   # its ends\n")
    assert choices(tuner, "reward", "--config-dir", "mine") == {"clipped": {"reward.limit": 2.0}}
    assert "there is no agent=reward" in tuner.refused("options", "reward"), "not of that folder"
    write("mine/agent/reward.yaml", "# @package _global_\n# Mine.\ndefaults: [dqn]\n")
    assert "agent.gamma" in options(tuner, "reward", "space=none", "--config-dir", "mine"), (
        "an agent of that name comes first"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("limit: [2.0\n", "while parsing a flow sequence"),
        ("3\n", "Invalid loaded object type: int"),
        ("limit: ${\n", "no viable alternative at input"),
        ("a: \xff\n", "can't decode byte 0xff"),
    ],
    ids=["no YAML", "no mapping", "no reference", "no text"],
)
def test_a_file_of_a_group_that_cannot_be_read_is_named(tuner: CommandLine, text: str, said: str) -> None:
    Path("mine/reward").mkdir(parents=True)
    Path("mine/reward/good.yaml").write_text("limit: 1.0\n")
    Path("mine/reward/bad.yaml").write_bytes(text.encode("latin-1"))
    message = tuner.refused("options", "reward", "--config-dir", "mine")
    assert message.startswith("tuner options: mine/reward/bad.yaml cannot be read: ")
    assert said in message


def test_odd_files_of_a_group_have_what_they_have(tuner: CommandLine) -> None:
    write("mine/reward/empty.yaml", "defaults: null\n")
    write("mine/reward/listed.yaml", "- 1\n")
    write("mine/reward/small.yaml", "scale: 1e-3\n")
    write("mine/reward/whole.yaml", "# Of mine.\n# @package _global_\nenv:\n  num_envs: 2   # side by side\n")
    found = choices(tuner, "reward", "--config-dir", "mine")
    assert found == {"empty": {}, "listed": {}, "small": {"reward.scale": 0.001}, "whole": {"env.num_envs": 2}}


def test_what_a_list_of_a_group_would_ignore_is_refused(tuner: CommandLine) -> None:
    said = "group=sampler prints files as they are, with or without agent=ppo and seed=3: leave that out"
    assert said in tuner.refused("options", "sampler", "agent=ppo", "seed=3", "json=true")


def test_a_class_in_this_folder_is_found_as_tuner_train_finds_it(tuner: CommandLine) -> None:
    (tuner.folder / "my_own_agent.py").write_text(
        "from note_rl.agents.pytorch import DQN\n\nclass Mine(DQN):\n    def __init__(self, *, own=3, **more): ...\n"
    )
    for group, text in {
        "agent": "# @package _global_\ndefaults: [dqn]\nagent: {_target_: my_own_agent.Mine, own: 4}\n",
        "space": "defaults: [dqn]\nagent: {own: {low: 1, high: 9}}\n",
    }.items():
        (tuner.folder / "mine" / group).mkdir(parents=True)
        (tuner.folder / "mine" / group / "mine.yaml").write_text(text)
    found = options(tuner, "--config-dir", "mine", "mine")["agent.own"]
    assert (found["default"], found["search"]) == (4, {"low": 1, "high": 9})
