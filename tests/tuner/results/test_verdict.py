"""The sentence about a study that is over."""

from pathlib import Path

from tests.tuner.studies import CONFIG, run_study
from tuner.results.verdict import verdict


def test_a_known_configuration_that_wins_was_not_found(tmp_path: Path) -> None:
    best = {**CONFIG, "optimizer": {"learning_rate": 1e-3}}
    summary = run_study(tmp_path, warm_start={"default": CONFIG, "published": best})
    assert summary.starts == {"trial 0": "default", "trial 1": "published"}
    assert run_study(tmp_path, warm_start={"default": CONFIG, "published": best}).starts == summary.starts
    assert summary.winner_label == "trial 1"
    sentence = "The winner was not found: it is the configuration of experiment published, which"
    assert any(one.startswith(sentence) for one in verdict(summary).details)
