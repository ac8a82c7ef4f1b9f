"""`tuner export`: what a run, a study or a checkpoint has learned, as a file that acts as its agent does."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from tests.tuner.command_line import SMALL, SMALL_AGENTS, CommandLine
from tuner.runs.player import Player
from tuner.runs.trained_agents import load_run


def acts(file: Path, obs: np.ndarray) -> Any:
    return onnxruntime.InferenceSession(file).run(["action"], {"observation": obs})[0]


def test_a_run_s_policy_acts_as_its_agent(tuner: CommandLine) -> None:
    """In PyTorch; agents in Keras are exported in tests of note_rl."""
    chosen = ("training.normalise_obs=true",)
    # Steps this small leave a policy that still takes both actions, whatever the processor rounds.
    slow = "optimizer.learning_rate=1e-6"
    tuner("train", *SMALL, *SMALL_AGENTS["dqn"], *chosen, slow, "hydra.run.dir=mine")
    answer = tuner("export", "mine")
    assert (answer.status, answer.errors) == (0, "")
    assert answer.output.splitlines() == [
        "policy of DQN on CartPole-v1: mine/policy.onnx",
        "observation float32 [batch, 4] -> action int64 [batch], scores float32 [batch, 2]",
    ]
    run = load_run(tuner.folder / "mine")
    rng = np.random.default_rng(0)
    obs = (run.agent.obs_normaliser.moments.mean + 5.0 * rng.normal(size=(100, 4))).astype(np.float32)
    wanted, _ = Player(run).predict(obs)
    assert len(set(wanted.tolist())) == 2
    np.testing.assert_array_equal(acts(tuner.folder / "mine" / "policy.onnx", obs), wanted)
    about = onnxruntime.InferenceSession(tuner.folder / "mine" / "policy.onnx").get_modelmeta().custom_metadata_map
    assert about["environment"] == "CartPole-v1"
    assert (about["num_env_steps"], about["weights"]) == ("240", "checkpoint.safetensors")


@pytest.mark.usefixtures("dqn_study")
def test_of_a_study_the_winner_and_of_a_run_its_best_weights(tuner: CommandLine) -> None:
    obs = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    answer = tuner("export", "mine", "format=torch")
    assert answer.status == 0, answer.errors
    path = Path(answer.output.splitlines()[0].partition(": ")[2])
    assert path.name == "policy.pt2"
    assert tuner("export", str(path.parent), "format=torch", "weights=best", "file=best.pt2").status == 0
    for file, weights in ((path, "checkpoint"), (path.with_name("best.pt2"), "best")):
        act = torch.export.load(str(file)).module()
        wanted, _ = Player(load_run(path.parent / f"{weights}.safetensors")).predict(obs)
        np.testing.assert_array_equal(act(torch.from_numpy(obs))[0].numpy(), wanted)


@pytest.mark.usefixtures("dqn_run")
def test_what_cannot_be_exported_is_refused(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "name the folder of a run: tuner export RUN" in tuner.refused("export")
    tuner("train", *SMALL, *SMALL_AGENTS["maddpg"], "hydra.run.dir=several")
    assert "several act in this environment" in tuner.refused("export", "several", "format=torch")
    tuner("train", *SMALL, *SMALL_AGENTS["alphazero"], "training.total_steps=32", "hydra.run.dir=searching")
    for file_format in ("onnx", "saved_model"):
        refusal = tuner.refused("export", "searching", f"format={file_format}")
        assert refusal.startswith("tuner export: AlphaZero chooses by a search in a simulator, which is no function")
    for words, said in (
        (("format=h5",), "format=h5 is not possible: it must be one of onnx, torch, saved_model"),
        (("format=saved_model",), "format=saved_model: the policy of an agent in torch is written as onnx or torch"),
        (("weights=first",), "weights=first is not possible: it must be one of last, best"),
        (("file=.",), "the name of a file, or null"),
        (("file=policy.pt2",), "with format=onnx it must be a name that ends in .onnx, or format=torch"),
        (("file=policy.txt",), "file=policy.txt: with format=onnx it must be a name that ends in .onnx"),
        (("format=torch", "file=config.yaml/policy.pt2"), "cannot write mine/config.yaml/policy.pt2"),
    ):
        assert said in tuner.refused("export", "mine", *words)
    found = importlib.util.find_spec
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda name, *more: None if "onnx" in name else found(name, *more))
        assert "format=onnx needs onnx, which is not installed: pip install 'note-rl[export]'" in tuner.refused(
            "export", "mine"
        )
    for path in (tuner.folder / "mine").glob("*.safetensors"):
        path.unlink()
    assert "has no checkpoint yet" in tuner.refused("export", "mine")
