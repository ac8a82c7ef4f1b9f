"""Runs and studies that start from the weights of another run."""

import copy
import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from note_rl.training.checkpoint import read_checkpoint
from tests.tuner.command_line import SMALL, SMALL_AGENTS, SMALL_STUDY, CommandLine
from tests.tuner.runs.test_stops import Stopping, attempt, config_of
from tuner.commands.baselines import KnownConfigs
from tuner.commands.play import load_run
from tuner.commands.preflight import preflight
from tuner.config.composition import RunConfig, compose, config_loader, to_json
from tuner.errors import UserError
from tuner.runs.build import build_run
from tuner.runs.checkpoints import take_weights
from tuner.runs.run_folders import check_run_of_weights
from tuner.trial.messages import JsonDict


def train(tuner: CommandLine, agent: str, folder: str, *overrides: str) -> None:
    answer = tuner("train", *SMALL, *SMALL_AGENTS[agent], *overrides, f"hydra.run.dir={folder}")
    assert (answer.status, answer.errors) == (0, ""), answer


QUICK = ("training.total_steps=60", "evaluation.num_episodes=1")
_FIRST: list[dict[str, bytes]] = []


def first_of_dqn(tuner: CommandLine) -> None:
    """A run of DQN in the folder `first`, which is trained once for all tests here."""
    folder = tuner.folder / "first"
    if _FIRST:
        folder.mkdir()
        for name, content in _FIRST[0].items():
            (folder / name).write_bytes(content)
        return
    train(tuner, "dqn", "first")
    _FIRST.append({path.name: path.read_bytes() for path in folder.iterdir()})


def evaluations(folder: Path) -> list[tuple[int, float]]:
    """All that were logged: environment steps, mean return."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], line["eval/mean_return"]) for line in lines if "eval/mean_return" in line]


def parameters(agent: Any) -> dict[str, np.ndarray]:
    return {name: value for name, value in agent.learner.get_state().items() if name.startswith("agent/")}


@pytest.mark.parametrize(("agent", "backend"), [("td3", "torch"), pytest.param("dqn", "keras", marks=pytest.mark.slow)])
def test_the_first_evaluation_is_the_last_one_of_the_other_run(tuner: CommandLine, agent: str, backend: str) -> None:
    options = (f"backend={backend}", "training.jit_compile=false")
    train(tuner, agent, "first", *options)
    train(tuner, agent, "second", *options, "init=first", "optimizer.learning_rate=0.02", "evaluation.num_points=3")
    start, *rest = evaluations(tuner.folder / "second")
    assert start == (0, evaluations(tuner.folder / "first")[-1][1])
    assert [step for step, _ in rest] == [step for step, _ in evaluations(tuner.folder / "first")]
    config = yaml.safe_load((tuner.folder / "second/config.yaml").read_text())
    assert config["init"] == str(tuner.folder / "first")
    assert config["optimizer"]["learning_rate"] == 0.02
    result = json.loads((tuner.folder / "second/result.json").read_text())
    assert (result["num_env_steps"], len(result["evaluations"])) == (240, 3)


def test_parameters_and_targets_are_taken_over_and_nothing_else(tuner: CommandLine) -> None:
    train(tuner, "td3", "first", "training.normalise_obs=true")
    trained = load_run(tuner.folder / "first").agent
    typed = [*SMALL, *SMALL_AGENTS["td3"], "training.normalise_obs=true", "optimizer.learning_rate=0.02", "init=first"]
    run = build_run(RunConfig.from_json(to_json(preflight("train", typed))))
    fresh = {name: value.copy() for name, value in parameters(run.agent).items()}
    take_weights(run.agent, "first")
    expected = parameters(trained)
    assert any(name.startswith("agent/target_critic_2") for name in expected)
    for name, values in parameters(run.agent).items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)
    assert any(not np.array_equal(fresh[name], expected[name]) for name in expected if "target_actor" in name)
    assert (run.agent.num_env_steps, run.agent.num_gradient_steps) == (0, 0)
    assert run.optimizer.param_groups[0]["lr"] == 0.02
    assert not run.optimizer.state
    moments, others = run.agent.obs_normaliser.moments, trained.obs_normaliser.moments
    assert moments is not None
    assert others is not None
    np.testing.assert_array_equal(moments.mean, others.mean)
    assert moments.count == others.count > 0


def test_the_best_weights_and_any_checkpoint_file_will_do(tuner: CommandLine) -> None:
    first_of_dqn(tuner)
    train(tuner, "dqn", "second", "init=first/best.safetensors", "training.total_steps=60")
    about = read_checkpoint(tuner.folder / "first/best.safetensors")[1]["about"]
    best = load_run(tuner.folder / "first", weights="best").agent
    assert best.evaluate(2, seed=about["seed"]).mean == about["mean_return"]
    assert evaluations(tuner.folder / "second")[0][0] == 0


def test_a_run_that_was_killed_early_starts_from_the_weights_again(tmp_path: Path) -> None:
    first = config_of("dqn", "torch", "training.total_steps=60")
    assert attempt(first, tmp_path / "first", Stopping(), 10**6)
    config = config_of("dqn", "torch", f"init={tmp_path / 'first'}")
    straight, killed = Stopping(), Stopping()
    assert attempt(config, tmp_path / "straight", straight, 10**6)
    assert not attempt(config, tmp_path / "killed", killed, 3)
    (tmp_path / "killed/checkpoint.safetensors").unlink()
    assert attempt(config, tmp_path / "killed", killed, 10**6)
    assert killed.reported == straight.reported
    left, right = (read_checkpoint(tmp_path / name / "checkpoint.safetensors")[0] for name in ("straight", "killed"))
    for name, values in left.items():
        np.testing.assert_array_equal(values, right[name], err_msg=name)


def test_weights_of_a_stranger_run_nothing(tuner: CommandLine) -> None:
    first_of_dqn(tuner)
    path = tuner.folder / "first/config.yaml"
    config = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**config, "agent": {"_target_": "os.system", "command": "touch was_here"}}))
    train(tuner, "dqn", "second", "init=first", "training.total_steps=60")
    assert evaluations(tuner.folder / "second")
    assert not (tuner.folder / "was_here").exists()


def test_what_does_not_fit_is_refused_before_the_run_begins(tuner: CommandLine) -> None:
    first_of_dqn(tuner)
    other = ("train", *SMALL, *SMALL_AGENTS["dqn"], "hydra.run.dir=other")
    answer = tuner.refused(*other, "init=first", "network.hidden_sizes=[9]")
    assert "init=first: the checkpoint is of another agent: 'agent/q_net/layers.0.weight'" in answer
    assert "has the shape [8, 4] there and [9, 4] here" in answer
    assert "take the agent, env and network of the run that it is of" in answer
    in_keras = tuner.refused(*other, "init=first", "backend=keras")
    assert "init=first: these are weights of an agent in torch: add backend=torch" in in_keras
    assert "no such folder of a run" in tuner.refused(*other, "init=nowhere")
    (tuner.folder / "text").write_text("no weights")
    assert "text is damaged or no checkpoint" in tuner.refused(*other, "init=text")
    assert "leave one of them out" in tuner.refused("train", "resume=first", "init=first")
    (tuner.folder / "empty").mkdir()
    assert "empty has no checkpoint yet" in tuner.refused("tune", "plan=true", "init=empty")
    assert "init has no meaning here" in tuner.refused("train", "agent=synthetic", "init=first")


def test_weights_for_another_activation_are_refused_though_their_shapes_fit(tuner: CommandLine) -> None:
    first_of_dqn(tuner)
    other = ("train", *SMALL, *SMALL_AGENTS["dqn"], "hydra.run.dir=other", "network.activation=tanh")
    for init in ("first", "first/best.safetensors"):
        answer = tuner.refused(*other, f"init={init}")
        assert f"init={init}: these weights are for network.activation=relu, and here it is tanh: add" in answer


def test_activations_of_single_layers_are_compared_too(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    layers = [{"dense": {"units": 8, "activation": "silu"}}, {"dense": 8}]
    there: JsonDict = {"backend": {"name": "torch"}, "network": {"layers": layers, "activation": "relu"}}
    (tmp_path / "run/config.yaml").write_text(yaml.safe_dump(there))
    here = copy.deepcopy(there)
    check_run_of_weights(str(tmp_path / "run"), here)
    here["network"]["layers"][0]["dense"]["activation"] = "elu"
    with pytest.raises(UserError, match=r"are for network\.layers\.0\.dense\.activation=silu, and here it is elu"):
        check_run_of_weights(str(tmp_path / "run"), here)


@pytest.mark.parametrize(("clone", "agent"), [("bc", "ppo"), ("bc_continuous", "ppo_continuous")])
def test_a_cloned_policy_has_the_network_of_ppo_which_may_start_from_it(clone: str, agent: str) -> None:
    first, second = (compose(config_loader(), "train", [f"agent={name}"]).network for name in (clone, agent))
    assert first == second


def test_a_baseline_with_another_activation_cannot_start_from_the_weights(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    there: JsonDict = {"backend": {"name": "torch"}, "network": {"activation": "relu"}}
    (tmp_path / "run/config.yaml").write_text(yaml.safe_dump(there))
    config = {**to_json(preflight("train", ["agent=ppo", "env=cartpole"])), "init": str(tmp_path / "run")}
    known = KnownConfigs(config)
    assert "ppo_cartpole" not in known.baselines(["experiment"]), "it has tanh"
    with pytest.raises(UserError, match=r"study\.baselines=ppo_cartpole: all runs start from the weights of init="):
        known.baselines(["ppo_cartpole"])
    assert "ppo_cartpole" in KnownConfigs({**config, "init": None}).baselines(["experiment"])


def test_every_trial_starts_from_the_weights_and_so_does_the_winner(tuner: CommandLine) -> None:
    first_of_dqn(tuner)
    answer = tuner(
        "tune", *SMALL, *SMALL_AGENTS["dqn"], *SMALL_STUDY, *QUICK, "storage=journal", "study.name=mine", "init=first"
    )
    assert answer.status == 0, answer
    expected = load_run(tuner.folder / "first").agent
    rates = set()
    for folder in sorted((tuner.folder / "studies/mine/screen").iterdir()):
        spec: JsonDict = json.loads((folder / "trial.json").read_text())
        assert spec["config"]["init"] == "first"
        rates.add(spec["config"]["optimizer"]["learning_rate"])
        assert evaluations(folder)[0][0] == 0
    assert len(rates) == 2
    line = next(line for line in answer.output.splitlines() if line.strip().startswith("tuner train"))
    assert "init=first" in shlex.split(line)
    found = yaml.safe_load((tuner.folder / "studies/mine/experiment/winner.yaml").read_text())
    assert found["init"] == "first"
    again = tuner(*shlex.split(line)[1:], *QUICK, "hydra.run.dir=again")
    assert again.status == 0, again
    assert "with the weights of" in again.output
    assert expected.num_env_steps == 240


def test_a_study_whose_agent_does_not_fit_the_weights_does_not_begin(tuner: CommandLine) -> None:
    first_of_dqn(tuner)
    study = ("tune", *SMALL, *SMALL_AGENTS["dqn"], *SMALL_STUDY, "storage=journal")
    answer = tuner(*study, "init=first", "network.hidden_sizes=[9]")
    assert answer.status == 2
    assert "'agent/q_net/layers.0.weight' has the shape [8, 4] there and [9, 4] here" in answer.errors


def test_an_agent_of_another_kind_is_refused(tmp_path: Path) -> None:
    assert attempt(config_of("dqn", "torch", "training.total_steps=60"), tmp_path / "first", Stopping(), 10**6)
    run = build_run(config_of("ppo", "torch"))
    with pytest.raises(UserError, match="the checkpoint is of another agent: it has no 'agent/"):
        take_weights(run.agent, str(tmp_path / "first"))
