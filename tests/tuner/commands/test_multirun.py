"""Runs of a multirun: their folders, names and groups."""

import yaml

from tests.tuner.command_line import RECORDING, SMALL, CommandLine, Recording
from tuner.commands.multirun import RunOfMultirun


def test_multirun_makes_a_folder_for_each_combination(tuner: CommandLine) -> None:
    answer = tuner("train", "-m", *SMALL, "buffer.batch_size=16", "agent=dqn,ppo", "seed=1,2", "hydra.sweep.dir=all")
    assert (answer.status, answer.errors) == (0, "")
    configs = [yaml.safe_load((tuner.folder / f"all/{number}/config.yaml").read_text()) for number in range(4)]
    made = [(config["agent"]["_target_"].rpartition(".")[2], config["seed"]) for config in configs]
    assert made == [("DQN", 1), ("DQN", 2), ("PPO", 1), ("PPO", 2)]


def test_runs_of_a_multirun_are_named_by_their_overrides_and_grouped(tuner: CommandLine) -> None:
    Recording.forget()
    told = ("agent=synthetic", "agent.gamma=0.95", "agent.activation=relu,tanh", "seed=1,2", "hydra.sweep.dir=four")
    assert tuner("train", "-m", *told, RECORDING).status == 0
    names = [f"agent.activation={kind} seed={seed}" for kind in ("relu", "tanh") for seed in (1, 2)]
    assert [info.name for info in Recording.infos] == names
    assert {info.group for info in Recording.infos} == {"four"}
    assert [info.tags for info in Recording.infos] == [tuple(name.split()) for name in names]
    Recording.forget()
    assert tuner("train", "resume=four/2").status == 0
    assert [(info.name, info.group) for info in Recording.infos] == [(names[2], "four")], "it keeps its name"
    for damaged in ("", "[1]", '{"group": 3}'):
        (tuner.folder / "four" / "2" / "multirun.json").write_text(damaged)
        assert RunOfMultirun.kept_in(tuner.folder / "four" / "2") is None


def test_runs_of_a_multirun_that_nothing_tells_apart_are_named_as_any_run(tuner: CommandLine) -> None:
    Recording.forget()
    assert tuner("train", "-m", "agent=synthetic", "hydra.sweep.dir=one", RECORDING).status == 0
    assert [(info.name, info.group, info.tags) for info in Recording.infos] == [("0", "Synthetic", ())]
