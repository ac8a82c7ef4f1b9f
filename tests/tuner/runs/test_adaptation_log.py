"""Adaptation from the command line: what it leaves, how it is repeated, and how it is compared with none."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from note_rl.adaptive.signals import Signal, TrainingView
from note_rl.errors import DivergedError
from note_rl.types import Sample, Update
from tests.tuner.command_line import RECORDING, SMALL, CommandLine, Recording
from tuner.runs.adaptation_comparison import AdaptiveComparison

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
    from note_rl.training.checkpoint import read_checkpoint

    first, second = (read_checkpoint(tuner.folder / name / "checkpoint.safetensors")[0] for name in ("first", "again"))
    parameters = [name for name in first if name.startswith("learner/agent/")]
    assert parameters
    assert all(np.array_equal(first[name], second[name]) for name in parameters)


class MeanReward(Signal):
    """One of the user's own, in units that the configuration says."""

    name = "mean_reward"
    text = "mean reward in units of one's own"
    target = 0.5  # CartPole gives 1 per step: half as good as wished in units of 4

    def __init__(self, unit: float) -> None:
        self.unit = unit

    def after_update(self, sample: Sample, update: Update, view: TrainingView) -> float:
        return float(sample.reward.mean()) / self.unit


def test_a_signal_of_ones_own_is_named_by_its_class(tuner: CommandLine) -> None:
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


def test_comparison_says_by_how_much_and_goes_on_where_it_was_ended(tuner: CommandLine) -> None:
    Recording.forget()
    told = (*PPO, "adaptive=ppo_kl", "num_seeds=2", "hydra.run.dir=pairs", RECORDING)
    answer = tuner("compare", *told)
    assert answer.status == 0, answer.errors
    _check_that_trackers_were_told(tuner.folder / "pairs")
    said = answer.output.replace("\n", " ")
    assert any(words in said for words in ("adaptation changed nothing: both", "on fewer than 5 seeds nothing can be"))
    lines = (tuner.folder / "pairs" / "compare.jsonl").read_text().splitlines()
    assert len(lines) == 4
    assert len({json.loads(line)[1] for line in lines}) == 2
    (tuner.folder / "pairs" / "compare.jsonl").write_text("\n".join([*lines[:3], '["frozen", 7, 1.0]']) + "\n")
    assert tuner("compare", *told).output == answer.output
    other = tuner("compare", *told, "adaptive.gain=0.5")
    assert other.status == 2
    assert "adaptive.gain was 1.0 and is 0.5" in other.errors


def _check_that_trackers_were_told(folder: Path) -> None:
    """Of each run, named by what tells it from others, and of the comparison with what it found."""
    lines = [json.loads(line) for line in (folder / "compare.jsonl").read_text().splitlines()]
    runs = [f"{arm} seed={seed}" for arm, seed, _ in lines]
    assert [info.name for info in Recording.infos] == ["pairs", *runs]
    assert {(info.group, info.job_type) for info in Recording.infos} == {("pairs", "compare")}
    assert Recording.infos[1].tags == tuple(runs[0].split())
    assert [bool(info.config["adaptive"]) for info in Recording.infos[1:]] == [True, False] * 2
    assert {code for code, _ in Recording.ends.values()} == {0}
    for name in runs:
        assert {0, 120, 240} & set(Recording.steps[name]), "evaluations lie on the axis of environment steps"
        assert Recording.steps[name] == sorted(Recording.steps[name])
    for info in Recording.infos[1:]:
        reports = [json.loads(line) for line in (info.folder / "reports.jsonl").read_text().splitlines()]
        assert Recording.ends[info.name][1]["best_return"] == max(report["value"] for report in reports)
    found = Recording.ends["pairs"][1]
    adaptive, frozen = ([score for name, _, score in lines if name == arm] for arm in ("adaptive", "frozen"))
    assert found["difference"] == pytest.approx(sum(adaptive) / 2 - sum(frozen) / 2)


def test_a_run_that_diverges_is_worth_what_a_random_policy_is(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverges(run: object, folder: Path, curve: object) -> None:
        raise DivergedError("the loss is nan")

    monkeypatch.setattr("tuner.runs.training.run_training", diverges)
    answer = tuner("compare", *PPO, "adaptive=ppo_kl", "num_seeds=2", "hydra.run.dir=pairs")
    assert answer.status == 0, answer.errors
    scores = [json.loads(line)[2] for line in (tuner.folder / "pairs" / "compare.jsonl").read_text().splitlines()]
    assert all(10 < score < 40 for score in scores)  # CartPole by chance: about 22


def test_verdicts() -> None:
    assert AdaptiveComparison([9] * 5, [5] * 5).verdict(0.05) == "adaptation is better"
    assert AdaptiveComparison([5] * 5, [9] * 5).verdict(0.05) == "adaptation is worse"
    assert AdaptiveComparison([99, 99, 100, 101, 101], [100] * 5).verdict(0.05).startswith("adaptation is no worse")
    assert AdaptiveComparison([50, 50, 100, 150, 150], [100] * 5).verdict(0.05).startswith("undecided")
    assert AdaptiveComparison([9] * 4, [5] * 4).verdict(0.05).startswith("on fewer than 5 seeds nothing can be told")
    assert AdaptiveComparison([9, 8], [9, 8]).verdict(0.05).startswith("adaptation changed nothing")
    assert AdaptiveComparison([3, 5], [1, 1]).difference == 3.0


@pytest.mark.parametrize(
    ("told", "words"),
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
def test_what_cannot_work_is_refused(tuner: CommandLine, told: tuple[str, ...], words: str) -> None:
    answer = tuner(*told)
    assert answer.status == 2
    assert words in answer.errors
