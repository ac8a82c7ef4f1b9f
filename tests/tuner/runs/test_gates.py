"""Every experiment file says what it reaches; `-m slow` trains them all and sees whether it does."""

import re
from pathlib import Path

import numpy as np
import pytest

import tuner
from tuner.results.statistics import iqm

FOLDER = Path(__file__).parents[3] / "conf" / "experiment"
FILES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
STUDIES = [name for name in FILES if "\nstudy:\n" in (FOLDER / f"{name}.yaml").read_text()]
EXPERIMENTS = [name for name in FILES if name not in STUDIES]
NUM_EPISODES = 20
SEEDS = (1, 2, 3)


def claim(experiment: str) -> str:
    """The comment at the head of a file, in one line."""
    lines = (FOLDER / f"{experiment}.yaml").read_text().splitlines()
    comment = []
    for line in lines[1:]:  # the first is Hydra's
        if not line.startswith("#"):
            break
        comment.append(line.removeprefix("#").strip())
    return " ".join(comment)


def bound(experiment: str) -> float:
    found = re.match(
        rf"Expected: mean return of {NUM_EPISODES} episodes without exploration >= (-?\d+(?:\.\d+)?)", claim(experiment)
    )
    assert found, f"{experiment}: {claim(experiment)}"
    return float(found[1])


def of_five_seeds(experiment: str) -> bool:
    """Where seeds scatter widely, their interquartile mean is what is claimed."""
    return "in the interquartile mean of five seeds" in claim(experiment)


MEASURED = [name for name in EXPERIMENTS if "not measured here" not in claim(name)]


@pytest.mark.parametrize("experiment", [name for name in EXPERIMENTS if name not in MEASURED])
def test_what_was_not_measured_says_who_has(experiment: str) -> None:
    """It takes days on two cores."""
    reported = re.search(r"reports (-?\d+(?:\.\d+)?)", claim(experiment))
    assert reported, claim(experiment)
    assert float(reported[1]) >= bound(experiment)


@pytest.mark.parametrize("experiment", MEASURED)
def test_a_file_states_what_is_expected_and_what_was_measured(experiment: str) -> None:
    bound(experiment)
    measured = re.search(r"\((?:torch|keras), seeds? 1(, 2, 3(?:, 4, 5)?)?: ([^);]*)", claim(experiment))
    assert measured, claim(experiment)
    returns = re.findall(r"-?\d+(?:\.\d+)?", measured[2])
    assert returns
    reached = [float(value) >= bound(experiment) for value in returns]
    stands_for_all = measured[1] is None or "each" in measured[2]
    if of_five_seeds(experiment):
        assert float(iqm(np.array(returns, float))) >= bound(experiment)
    else:
        assert sum(reached) >= 2 or (len(returns) == 1 and stands_for_all and reached[0])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", "keras"])
@pytest.mark.parametrize("experiment", MEASURED)
def test_two_of_three_seeds_reach_it(experiment: str, backend: str, tmp_path: Path) -> None:
    finals = []
    for seed in (1, 2, 3, 4, 5) if of_five_seeds(experiment) else SEEDS:
        overrides = [f"experiment={experiment}", f"backend={backend}", f"seed={seed}", "tracker=jsonl"]
        overrides += ["evaluation.num_points=1", f"evaluation.num_episodes={NUM_EPISODES}"]
        outcome = tuner.train(overrides, folder=tmp_path / f"{seed}")
        finals.append(outcome.evaluations[-1].mean_return)
    if of_five_seeds(experiment):
        assert float(iqm(np.array(finals))) >= bound(experiment), finals
    else:
        assert sum(final >= bound(experiment) for final in finals) >= 2, finals


def study_bound(experiment: str) -> float:
    found = re.match(
        r"Expected: test IQM of the winner >= (-?\d+(?:\.\d+)?), and of the default below", claim(experiment)
    )
    assert found, f"{experiment}: {claim(experiment)}"
    return float(found[1])


@pytest.mark.parametrize("experiment", STUDIES)
def test_a_study_states_what_is_expected_and_what_was_measured(experiment: str) -> None:
    winners, defaults = (
        [float(one) for one in re.findall(rf"{what} (-?\d+(?:\.\d+)?) \[", claim(experiment))]
        for what in ("winner", "default")
    )
    assert max(winners) >= study_bound(experiment) > max(defaults)
    assert all(winner > default for winner, default in zip(winners, defaults, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("experiment", STUDIES)
def test_a_study_finds_what_the_default_does_not_reach(
    experiment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three studies the best reaches the bound, as two do where all goes as expected, and no winner is a bad one."""
    monkeypatch.chdir(tmp_path)
    winners = []
    for seed in (1, 2, 3):
        typed = [f"experiment={experiment}", "warm_start=off", "tracker=jsonl", f"seed={seed}", f"study.name=of_{seed}"]
        verdict = tuner.tune(typed).verdict
        assert verdict.winner is not None
        assert verdict.default is not None
        assert verdict.default.iqm < min(verdict.winner.iqm, study_bound(experiment))
        winners.append(verdict.winner.iqm)
    assert max(winners) >= study_bound(experiment), winners
