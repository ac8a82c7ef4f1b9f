"""Adaptation from the command line: what it leaves, how it is repeated, and how it is compared with none."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from note_rl.adaptive.signals import Signal, TrainingView
from note_rl.types import Sample, Update
from tests.tuner.command_line import SMALL, CommandLine

PPO = (*SMALL, "agent=ppo", "env.num_envs=2", "buffer.num_steps=16", "buffer.batch_size=16", "buffer.num_epochs=2")


def evaluations(folder: Path) -> list[float]:
    lines = (folder / "reports.jsonl").read_text().splitlines()
    return [json.loads(line)["value"] for line in lines]


def test_a_run_leaves_its_decisions_and_is_repeated_from_its_schedule(tuner: CommandLine) -> None:
    told = ("adaptive=ppo_ess", "adaptive.targets.ratio_ess=2.0")
    answer = tuner("train", *PPO, *told, "hydra.run.dir=first")
    assert answer.status == 0, answer.errors
    folder = tuner.folder / "first"
    decisions = [json.loads(line) for line in (folder / "decisions.jsonl").read_text().splitlines()]
    assert {one["parameter"] for one in decisions} == {"learning_rate:0", "clip"}
    assert {"signal", "q", "old", "new", "reason"} <= set(decisions[0])
    num_changes = sum(one["new"] != one["old"] for one in decisions)
    assert f"adaptation changed clip, learning_rate:0 {num_changes} times; every decision is in" in answer.output
    assert "  by ratio_ess: effective share of PPO's ratios" in answer.output
    assert "the same without measuring: --config-dir first/adapted adaptive=replay" in answer.output
    assert min(one["new"] for one in decisions if one["parameter"] == "clip") < 0.2
    schedule = yaml.safe_load((folder / "adapted" / "adaptive" / "replay.yaml").read_text())["schedule"]
    assert len(schedule["clip"]) > 2
    again = tuner("train", "--config-dir", str(folder / "adapted"), *PPO, "adaptive=replay", "hydra.run.dir=again")
    assert again.status == 0, again.errors
    (budget,) = (word for word in PPO if word.startswith("training.total_steps="))
    last = max(step for steps in schedule.values() for step, _ in steps)
    assert f"environment steps and does not follow {budget}: its last change is at step {last:,}\n" in again.output
    assert "does not follow" not in answer.output
    from note_rl.training.checkpoint import read_checkpoint

    first, second = (read_checkpoint(tuner.folder / name / "checkpoint.safetensors")[0] for name in ("first", "again"))
    parameters = [name for name in first if name.startswith("learner/agent/")]
    assert parameters
    assert all(np.array_equal(first[name], second[name]) for name in parameters)
    more = tuner("train", "resume=again", "training.total_steps=960").output.splitlines()
    assert more[1].startswith("schedules go over all of training.total_steps=960: learning_rate continues")
    assert f"does not follow training.total_steps=960: its last change is at step {last:,}" in more[2]


class MeanReward(Signal):
    """One of the user's own, in units that the configuration says."""

    name = "mean_reward"
    text = "mean reward in units of the user"
    target = 0.5  # CartPole gives 1 per step: half as good as wished in units of 4

    def __init__(self, unit: float) -> None:
        self.unit = unit

    def after_update(self, sample: Sample, update: Update, view: TrainingView) -> float:
        return float(sample.reward.mean()) / self.unit


def test_a_custom_signal_is_named_by_its_class(tuner: CommandLine) -> None:
    signals = f"adaptive.signals=[{{_target_: {__name__}.MeanReward, unit: 4.0}}]"
    parameters = ("~adaptive.parameters.batch_size", "+adaptive.parameters.learning_rate={gain: 1.0, slew: 10.0}")
    told = ("adaptive=gns", "adaptive.mode=control", signals, "~adaptive.targets", *parameters)
    quick = ("adaptive.period=1", "adaptive.warm_up=1")
    answer = tuner("train", *PPO, *told, *quick, "hydra.run.dir=mine")
    assert answer.status == 0, answer.errors
    assert "adaptation changed learning_rate:0 1 times" in answer.output
    decisions = [json.loads(line) for line in (tuner.folder / "mine" / "decisions.jsonl").read_text().splitlines()]
    first = decisions[0]
    assert (first["signal"], first["value"], first["q"]) == ("mean_reward", 0.25, 0.5)
    assert first["new"] == pytest.approx(0.5 * first["old"])
    assert "  by mean_reward\n" in answer.output


def test_the_gain_can_be_searched_for(tuner: CommandLine) -> None:
    told = ("adaptive=ppo_kl", "+space.adaptive.gain={low: 0.0, high: 2.0}", "plan=true", "study.steps_per_second=2000")
    answer = tuner("tune", "agent=ppo", "tracker=jsonl", *told)
    assert answer.status == 0, answer.errors


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (("compare", *PPO), "there is no adaptation to compare with"),
        (("train", *SMALL, "adaptive=ppo_kl"), "the signal kl compares PPO's policies"),
        (("train", *PPO, "adaptive=ess"), "needs priorities"),
        (
            ("train", *PPO, "adaptive=ppo_kl", "adaptive.gain=-1"),
            "adaptive.gain=-1 is not possible: it must be",
        ),
        (("train", *PPO, "adaptive=ppo_kl", "adaptive.mode=on"), "known are off, advise, control"),
    ],
)
def test_what_cannot_work_is_refused(tuner: CommandLine, typed: tuple[str, ...], words: str) -> None:
    answer = tuner(*typed)
    assert answer.status == 2
    assert words in answer.errors
