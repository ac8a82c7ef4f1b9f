"""The two ways to train the winner of a study again: a line, and an experiment file."""

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tuner.command_line import CommandLine
from tests.tuner.commands.fake_studies import FAKE, SMALL_STUDY, judged, line_after, tune, winner_of
from tuner.commands.preflight import preflight
from tuner.commands.tune import TuneResult
from tuner.commands.winner import TrainingConfigs
from tuner.config.composition import to_json
from tuner.trial.messages import JsonDict

pytestmark = pytest.mark.usefixtures("fake_executor")

VARIANTS = {
    "ppo with schedules, an argument of the environment, lists as choices, words that need quotes": [
        *("agent=ppo", "schedule=linear_decay", "+env.kwargs.sutton_barto_reward=true"),
        "+space.network.hidden_sizes={choices: [[32, 32], [48]]}",
        "+wrapper.note={_target_: gymnasium.wrappers.TimeAwareObservation, _partial_: true}",
    ],
    "the other framework, a schedule taken away": ["backend=keras", "~schedule.eps"],
    "a published setting": ["experiment=ppo_cartpole"],
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_both_ways_to_train_the_winner_compose_exactly_its_config(tuner: CommandLine, variant: str) -> None:
    answer = tune(tuner, *VARIANTS[variant])
    line = line_after(answer, "train the winner again")
    assert line[:4] == ["tuner", "train", "--config-dir", "mine"]
    assert judged(to_json(preflight("train", line[4:], "mine"))) == judged(winner_of(tuner))
    file = line_after(answer, "the same as a file")
    assert file[:4] == ["tuner", "train", "--config-dir", "studies/mine"]
    assert judged(to_json(preflight("train", file[4:], "studies/mine"))) == judged(winner_of(tuner))
    assert shlex.join(file) in Path("studies/mine/experiment/winner.yaml").read_text()


def test_an_experiment_file_finds_the_groups_of_the_user(tuner: CommandLine) -> None:
    own = tuner.folder / "mine" / "network"
    own.mkdir()
    (own / "narrow.yaml").write_text("defaults: [mlp]\nhidden_sizes: [3]\n")
    answer = tune(tuner, "network=narrow")
    assert winner_of(tuner)["network"]["hidden_sizes"] == [3]
    for words in ("train the winner again", "the same as a file"):
        line = line_after(answer, words)
        assert judged(to_json(preflight("train", line[4:], line[3]))) == judged(winner_of(tuner))


def test_what_a_study_returns_says_how_to_train_the_winner(tuner: CommandLine) -> None:
    import tuner as api

    result = api.tune([*FAKE[2:], *SMALL_STUDY], config_dir=tuner.folder / "mine")
    assert isinstance(result, TuneResult)
    assert result.summary.winner_label is not None
    assert result.best_params == result.summary.params_of(result.summary.winner_label)
    assert judged(to_json(preflight("train", result.overrides))) == judged(result.config)
    assert result.experiment_file.exists()
    assert str(result.verdict.winner)


def test_a_group_whose_file_leaves_a_value_open_has_an_experiment_too() -> None:
    typed = ["agent=command", "agent.command='ls {lr}'", "agent.metric=loss", "agent.read=csv", "agent.step=epoch"]
    wanted = to_json(preflight("train", [*typed, "+agent.lr=0.1"]))
    configs = TrainingConfigs([*typed, "+agent.lr=0.1"])
    assert configs.removals(wanted) == []
    del wanted["agent"]["window"]
    assert configs.removals(wanted) == ["~agent.window"]


def test_a_value_that_refers_to_another_still_does_in_the_experiment_of_a_winner(tmp_path: Path) -> None:
    """The steps of a function were frozen in the file: more steps typed beside it changed the reported ones only."""
    typed = ["agent=sb3_ppo", "training.total_steps=5000"]
    wanted = to_json(preflight("train", typed))
    assert wanted["agent"]["total_steps"] == 5000
    file = tmp_path / "found" / "experiment" / "winner.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(TrainingConfigs(typed).experiment(wanted, "a title"))
    again = to_json(preflight("train", ["experiment=winner", "training.total_steps=90000"], str(tmp_path / "found")))
    assert again["agent"]["total_steps"] == 90000
    wanted["agent"]["total_steps"] = 7000
    file.write_text(TrainingConfigs(typed).experiment(wanted, "a title"))
    other = to_json(preflight("train", ["experiment=winner", "training.total_steps=90000"], str(tmp_path / "found")))
    assert other["agent"]["total_steps"] == 7000, "a value of its own stays"


def composed_again(folder: Path, typed: list[str], wanted: JsonDict, *more: str, searched: Collection[str] = ()) -> Any:
    """The config of the winner's experiment file with more typed beside it."""
    file = folder / "found" / "experiment" / "winner.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(TrainingConfigs(typed).experiment(wanted, "a title", searched))
    return to_json(preflight("train", ["experiment=winner", *more], str(folder / "found")))


def test_the_environment_of_a_library_follows_what_is_typed_as_a_whole(tmp_path: Path) -> None:
    """Texts, null and mappings were frozen: it trained on the old environment under the name of the new one."""
    typed = ["agent=sb3_ppo", "env=cartpole"]
    wanted = to_json(preflight("train", typed))
    more = ("env.id=Acrobot-v1", "env.num_envs=3", "env.max_episode_steps=77", "+env.kwargs.render_mode=rgb_array")
    again = composed_again(tmp_path, typed, wanted, *more)
    expected = {"id": "Acrobot-v1", "num_envs": 3, "max_episode_steps": 77, "kwargs": {"render_mode": "rgb_array"}}
    assert again["agent"]["env"] == {key: again["env"][key] for key in expected} == expected


def test_a_value_of_another_type_and_one_that_was_searched_are_kept(tmp_path: Path) -> None:
    typed = ["agent=sb3_ppo", "training.total_steps=5000"]
    wanted = to_json(preflight("train", typed))
    longer = "training.total_steps=90000"
    found = composed_again(tmp_path, typed, wanted, longer, searched=("agent.total_steps",))
    assert found["agent"]["total_steps"] == 5000, "drawn equal by chance"
    whole = composed_again(tmp_path, typed, wanted, "env.id=Acrobot-v1", searched=("agent.env.kwargs.x",))
    assert whole["agent"]["env"] == {**wanted["agent"]["env"], "id": "Acrobot-v1"}
    wanted["agent"]["total_steps"] = 5000.0
    written = yaml.safe_load(TrainingConfigs(typed).experiment(wanted, "a title"))["agent"]["total_steps"]
    assert (written, type(written)) == (5000.0, float), "another type"


def test_what_the_chosen_groups_refer_to_is_left_out(tmp_path: Path) -> None:
    typed = ["agent=sb3_ppo"]
    written = yaml.safe_load(TrainingConfigs(typed).experiment(to_json(preflight("train", typed)), "a title"))
    assert written["agent"]["env"] == {}
    assert not {"total_steps", "num_points", "wrapper", "wrapper_training"} & written["agent"].keys()
    assert (written["env"]["id"], written["training"]["total_steps"]) == ("CartPole-v1", 50000)


def test_of_what_was_typed_numbers_and_the_seed_stay_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others made the file one that is refused: in the place of a class, and to `resume`."""
    (tmp_path / "own40.py").write_text("def train(**values): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    values = ("a=${resume}", "b=collections.Counter", "c=${training.total_steps}", "net={_target_: '${agent.b}'}")
    typed = ["agent=function", "agent._target_=own40.train", *(f"+agent.{value}" for value in values)]
    wanted = to_json(preflight("train", typed))
    written = yaml.safe_load(TrainingConfigs(typed).experiment(wanted, "a title"))["agent"]
    kept = {
        "a": None,
        "b": "collections.Counter",
        "c": "${training.total_steps}",
        "net": {"_target_": "collections.Counter"},
    }
    assert written == {"_target_": "own40.train", **kept}


def test_a_reference_to_the_seed_of_a_run_stays_one_and_the_seed_is_not_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own40.py"
    own.write_text("def train(run_seed): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    typed = ["agent=function", "agent._target_=own40.train", "+agent.run_seed=${seed}"]
    wanted = {**to_json(preflight("train", typed)), "seed": 5}
    wanted["agent"]["run_seed"] = 5
    again = composed_again(tmp_path, typed, wanted, "seed=9")
    assert (again["seed"], again["agent"]["run_seed"]) == (9, 9)
    assert composed_again(tmp_path, typed, wanted)["seed"] == to_json(preflight("train", typed))["seed"] != 5
