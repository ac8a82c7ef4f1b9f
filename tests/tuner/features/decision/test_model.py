"""Estimates of configurations by the model, from runs with scores at a ceiling, or far below."""

from collections.abc import Sequence
from pathlib import Path

from tests.tuner.reporting.summaries import run
from tests.tuner.studies import definition
from tuner.features.decision.facts import Believed
from tuner.features.decision.model import StudyModel


def chosen(folder: Path, screened: Sequence[float], later: Sequence[tuple[int, float]]) -> dict[str, Believed]:
    """Estimates by label after runs of screening and further ones of the configurations of these numbers."""
    one = definition(folder, space={"optimizer": {"learning_rate": {"low": 1e-4, "high": 1e-1, "log": True}}})
    (name,) = one.space.distributions()
    first = [run(f"trial {number}", "screen", score, number=number) for number, score in enumerate(screened)]
    again = [run(f"trial {number}", "confirm", score) for number, score in later]
    drawn = {number: {name: 10.0 ** (-4 + number / 4)} for number in range(len(screened))}
    return {one.label: one for one in StudyModel(one, first, drawn, lambda: again).chosen()}


def test_low_scores_of_a_configuration_that_ran_again_count(tmp_path: Path) -> None:
    """Most scores are alike, at the highest that there is: quartiles of all of them would call 210 far out."""
    ran = ((0, 500.0), (0, 499.5), (0, 500.0), (0, 210.0), (1, 500.0), (1, 500.0))
    found = chosen(tmp_path, (500.0, 500.0, 499.0, 495.0, 498.0, 120.0), ran)["trial 0"]
    assert found.low < (500.0 + 500.0 + 499.5 + 500.0 + 210.0) / 5 < found.high
    assert found.high - found.low > 50.0


def test_a_few_trials_that_are_alike_on_one_seed_are_not_known_from_that(tmp_path: Path) -> None:
    found = chosen(tmp_path, (0.631, 0.637, 0.637), ((0, 0.584), (1, 0.597), (2, 0.416)))["trial 2"]
    assert found.low < (0.637 + 0.416) / 2 < found.high


def test_what_diverged_does_not_widen_the_interval_of_others(tmp_path: Path) -> None:
    screened = (-100_000.0, 100.0, 110.0, 105.0, 120.0)
    found = chosen(tmp_path, screened, ((4, 119.0), (4, 118.0)))["trial 4"]
    assert 100.0 < found.low < 119.0 < found.high < 140.0
