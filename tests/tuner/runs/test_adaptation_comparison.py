"""Adaptation is compared with none: by how much, and on which seeds."""

import json
from pathlib import Path

import pytest

from note_rl.errors import DivergedError
from tests.tuner.command_line import RECORDING, CommandLine, Recording
from tests.tuner.runs.test_adaptation_log import PPO
from tuner.runs.adaptation_comparison import AdaptiveComparison


def test_comparison_says_by_how_much_and_goes_on_where_it_was_ended(tuner: CommandLine) -> None:
    Recording.forget()
    told = (*PPO, "adaptive=ppo_kl", "num_seeds=2", "hydra.run.dir=pairs", RECORDING)
    answer = tuner("compare", *told)
    assert answer.status == 0, answer.errors
    _check_what_trackers_got(tuner.folder / "pairs")
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


def _check_what_trackers_got(folder: Path) -> None:
    """Each run, named by what distinguishes it from others, and the comparison with its result."""
    lines = [json.loads(line) for line in (folder / "compare.jsonl").read_text().splitlines()]
    runs = [f"{arm} seed={seed}" for arm, seed, _ in lines]
    assert min(seed for _, seed, _ in lines) >= 3 * 2**29, "they are seeds of studies"
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
    assert (
        AdaptiveComparison([9] * 4, [5] * 4).verdict(0.05).startswith("on fewer than 5 seeds nothing can be concluded")
    )
    assert AdaptiveComparison([9, 8], [9, 8]).verdict(0.05).startswith("adaptation changed nothing")
    assert AdaptiveComparison([3, 5], [1, 1]).difference == 3.0
