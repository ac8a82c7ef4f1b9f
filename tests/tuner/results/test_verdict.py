"""The sentence about a study that is over."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuner.results.runs_of import FIVE, run, study
from tests.tuner.studies import CONFIG, run_study
from tuner.results.findings import Estimate, Finding
from tuner.results.number_format import format_number
from tuner.results.records import RunRecord
from tuner.results.statistics import bootstrap_interval
from tuner.results.verdict import verdict
from tuner.trial.messages import Outcome


def test_a_known_configuration_that_wins_was_not_found(tmp_path: Path) -> None:
    best = {**CONFIG, "optimizer": {"learning_rate": 1e-3}}
    summary = run_study(tmp_path, warm_start={"default": CONFIG, "published": best})
    assert summary.starts == {"trial 0": "default", "trial 1": "published"}
    assert run_study(tmp_path, warm_start={"default": CONFIG, "published": best}).starts == summary.starts
    assert summary.winner_label == "trial 1"
    sentence = "The winner was not found by the search: it is the configuration of experiment published, tried"
    assert any(one.startswith(sentence) for one in verdict(summary).details)


def screened(*values: float) -> list[RunRecord]:
    return [run(f"trial {number}", "screen", number, value) for number, value in enumerate(values)]


def compared(winner: Sequence[float], default: Sequence[float], first_default_seed: int = 100) -> list[RunRecord]:
    own = [run("trial 3", "test", 100 + index, value) for index, value in enumerate(winner)]
    return own + [run("default", "test", first_default_seed + index, value) for index, value in enumerate(default)]


def test_test_runs_of_the_winner_that_crashed_beat_nothing() -> None:
    """It wins on every seed on which it came to its end, and that is half of them."""
    default = [200.0, 150.0, 300.0, 180.0, 210.0, 190.0, 170.0, 160.0, 220.0, 230.0]
    own = [490.0, 500.0, 495.0, 480.0, 500.0, None, None, None, None, None]
    runs = [run("trial 3", "test", 100 + index, value) for index, value in enumerate(own)]
    runs = [one if one.value is not None else replace(one, outcome=Outcome.CRASHED) for one in runs]
    runs += [run("default", "test", 100 + index, value) for index, value in enumerate(default)]
    result = verdict(study(*screened(100.0, 497.0, 20.0, 510.0), *runs))
    assert result.improvement == 0.5
    assert result.finding is Finding.UNCERTAIN
    left_out = "5 of 10 test runs of trial 3 failed without a score: these figures are of the others. Where both came"
    assert left_out in result.sentence
    assert "beats a run of the default with P = 0.50 only" in result.sentence
    fewer = [replace(one, value=480.0, outcome=Outcome.COMPLETE) if one.value is None else one for one in runs[:9]]
    almost = verdict(study(*screened(100.0, 497.0, 20.0, 510.0), *fewer, *runs[9:]))
    assert (almost.finding, almost.improvement) == (Finding.BETTER, 0.9)
    lost = [replace(one, value=None, outcome=Outcome.CRASHED) if one.seed == 100 else one for one in runs]
    both = verdict(study(*screened(100.0, 497.0, 20.0, 510.0), *lost))
    # of 10 x 10 pairs, the 4 scored runs beat all 10, and 6 lost ones are level with the one lost of the default
    assert both.improvement == (4 * 10 + 6 * 0.5) / 100
    assert "1 of 10 test runs of the default configuration failed without a score" in both.sentence


def test_runs_of_a_program_that_are_one_run_are_said_to_be() -> None:
    def said(last: float, ends_only: bool = False, default: float = 2.0, **changes: str) -> bool:
        ends = {"trial 3": [5.0, 5.0, last], "default": [default] * 3}
        runs = [
            run(label, "test", 100 + index, end, curve=((0.5, 1.0), (1.0, end))[ends_only:])
            for label, values in ends.items()
            for index, end in enumerate(values)
        ]
        return "equal to the last digit" in verdict(replace(study(*screened(1.0), *runs), **changes)).sentence  # type: ignore[arg-type]

    assert said(5.0, backend="")
    assert not said(5.5, backend="")
    alone = [run(label, "test", 100, 5.5, curve=((0.5, 1.0), (1.0, 5.5))) for label in ("trial 3", "default")]
    one_seed = verdict(replace(study(*screened(1.0), *alone), backend=""))
    assert "equal to the last digit" not in one_seed.sentence
    assert not said(5.0, backend="torch"), "whose seeds reach all there is"
    assert not said(5.0, ends_only=True, backend=""), "scores at a bound are equal, too"
    assert not said(5.0, ends_only=True, default=2.25, backend="")


def test_a_clear_winner() -> None:
    confirm = [run("trial 3", "confirm", 50, 500.0), run("trial 3", "confirm", 51, 498.0)]
    default = [200.0, 150.0, 300.0, 180.0, 210.0]
    summary = study(*screened(100.0, 497.0, 20.0, 510.0), *confirm, *compared(FIVE, default))
    result = verdict(summary)
    assert result.finding is Finding.BETTER
    # IQM of 5: weights 0, .75, 1, .75, 0 over the sorted scores.
    assert result.winner is not None
    assert result.default is not None
    assert result.difference is not None
    assert result.winner.iqm == pytest.approx((0.75 * 490 + 495 + 0.75 * 500) / 2.5)
    assert result.default.iqm == pytest.approx((0.75 * 180 + 200 + 0.75 * 210) / 2.5)
    assert (result.winner.low, result.winner.high) == bootstrap_interval(FIVE)
    assert result.difference.iqm == pytest.approx(result.winner.iqm - result.default.iqm)
    assert result.difference.points == (290.0, 350.0, 195.0, 300.0, 290.0)  # in pairs: the seeds are shared
    assert result.improvement == 1.0
    # Chosen by the confirm stage (mean of two), not by its lucky screening score of 510.
    assert result.optimism == pytest.approx(499.0 - result.winner.iqm)
    assert result.sentence.startswith(
        "Trial 3 (optimizer.learning_rate=0.0006, agent.gamma=0.98): test IQM 495 [480, 500] on 5 test seeds, "
        "against 200 [150, 300] for the default configuration. "
    )
    assert "The winner is better: difference +300 [+200, +350]" in result.sentence
    assert result.details[0] == ("Selection optimism +4: score in the search (499 on 2 seeds) minus score in the test.")


def ending(label: str, *ends: float) -> list[RunRecord]:
    """Test runs whose score is half their end, half an area that is 100 more for the winner."""
    area = 300.0 if label == "trial 3" else 100.0
    scores = [{"final": end, "auc": area} for end in ends]
    return [
        run(label, "test", 100 + index, (one["final"] + one["auc"]) / 2, scores=one) for index, one in enumerate(scores)
    ]


@pytest.mark.parametrize(
    ("ends", "remark"),
    [
        (
            (190.0,) * 5,
            " But its return at the end of training is lower (difference -10 [-10, -10]).",
        ),
        (
            (150.0, 190.0, 195.0, 199.0, 210.0),
            " But its return at the end of training is lower (difference -5 [-50, +10], which may be chance).",
        ),
        ((201.0,) * 5, ""),
    ],
)
def test_a_better_score_with_a_lower_end_says_so(ends: tuple[float, ...], remark: str) -> None:
    summary = study(*screened(*FIVE[:4]), *ending("trial 3", *ends), *ending("default", *(200.0,) * 5))
    sentence = verdict(summary).sentence
    assert "The winner is better" in sentence
    assert ("at the end of training is lower" in sentence) == bool(remark)
    assert remark in sentence


def test_baselines_stand_beside_the_default() -> None:
    pairs = {"experiment good": [510.0, 520.0, 515.0, 500.0, 520.0], "experiment alike": [*FIVE[:4], 510.0]}
    known = [
        run(name, "test", 100 + index, value) for name, scores in pairs.items() for index, value in enumerate(scores)
    ]
    summary = study(*screened(1.0, 2.0, 3.0, 4.0), *compared(FIVE, [200.0] * 5), *known)
    assert "good" not in " ".join([verdict(summary).sentence, *verdict(summary).details])  # nobody asked for it
    result = verdict(replace(summary, baselines=tuple(pairs)))
    assert result.finding is Finding.BETTER
    better = "The winner is worse than experiment good (difference -20 [-20, -20]): train with experiment=good instead."
    assert better in result.sentence
    kept = replace(summary, baselines=("experiment good",), winner_label="default")
    assert better.partition("(")[0] in verdict(kept).sentence, "also where the default itself came out best"
    assert "alike" not in result.sentence
    assert any(
        line.startswith(
            "experiment good, with the same budget: test IQM 515 [500, 520]. The winner is worse (difference -20 "
            "[-20, -20])."
        )
        for line in result.details
    )
    assert any("experiment alike" in line and line.endswith(", which may be chance).") for line in result.details)
    unfinished = verdict(replace(summary, baselines=("experiment good", "experiment late"), budget={"test seeds": 5}))
    assert unfinished.winner is None


def test_a_winner_behind_known_settings_says_so_however_uncertain() -> None:
    known = {"experiment near": [495.0, 505.0, 500.0, 470.0, 505.0], "experiment far": [510.0] * 5}
    tested = [run(name, "test", 100 + index, score) for name in known for index, score in enumerate(known[name])]
    summary = study(*screened(1.0, 2.0, 3.0, 4.0), *compared(FIVE, [200.0] * 5), *tested)
    # IQM 495 against (0.75 * 495 + 500 + 0.75 * 505) / 2.5 = 500; one seed of five is behind, so 0 is in the interval
    said = verdict(replace(summary, baselines=tuple(known))).sentence
    far = said.index("The winner is worse than experiment far (difference -15 [")
    near = said.index("The winner scored lower than experiment near (difference -5")
    assert said.endswith("which may be chance; to train with these settings: experiment=near.")
    assert far < near, "the best one first"
    two = study(
        *screened(1.0, 2.0, 3.0, 4.0), *compared(FIVE[:2], [200.0] * 2), *[one for one in tested if one.seed < 102]
    )
    two = replace(two, baselines=("experiment near",))
    assert "The winner scored lower than experiment near (difference -5), which may be chance" in verdict(two).sentence


def test_a_winner_without_a_result_leaves_the_field_to_known_settings() -> None:
    lost = [run("trial 3", "test", 100 + index, 0.0, outcome=Outcome.DIVERGED) for index in range(5)]
    default = [run("default", "test", 100 + index, 200.0) for index in range(5)]
    known = [run("experiment good", "test", 100 + index, value) for index, value in enumerate(FIVE)]
    summary = replace(study(*screened(1.0, 2.0, 3.0, 4.0), *lost, *default, *known), baselines=("experiment good",))
    assert "Train with experiment=good instead: test IQM 495 [480, 500]." in verdict(summary).sentence
    assert "Keep the default" not in verdict(summary).sentence
    better = [replace(one, value=600.0) for one in default]
    summary = replace(summary, runs=(*screened(1.0, 2.0, 3.0, 4.0), *lost, *better, *known))
    assert "Keep the default configuration: test IQM 600" in verdict(summary).sentence
    assert "experiment" not in verdict(summary).sentence


def test_within_noise_is_counted_from_the_winners_own_spread() -> None:
    winner = [102.0, 104.0, 104.0, 106.0]  # mean 104, variance (4 + 0 + 0 + 4) / 3
    limit = 104 - 2 * math.sqrt(8 / 3) * math.sqrt(1 + 1 / 4)
    values = [limit - 0.01, limit + 0.01, 300.0, 999.0, 20.0]
    result = verdict(study(*screened(*values), *compared(winner, [1.0, 2.0, 3.0, 4.0])))
    assert result.within_noise == 2  # not the winner itself (trial 3)
    assert "2 of 4 other finished screening trials are within seed noise of the winner." in result.sentence
    assert f"a screening score of {format_number(limit)} or more" in result.details[-1]


def test_noise_is_not_guessed_from_two_runs() -> None:
    result = verdict(study(*screened(1.0, 2.0, 3.0, 4.0), *compared([4.0, 4.0], [1.0, 2.0])))
    assert result.within_noise is None
    assert "noise" not in result.sentence


def test_few_seeds_show_points_and_no_interval() -> None:
    result = verdict(study(*screened(1.0, 2.0, 3.0, 4.0), *compared([480.0, 500.0], [200.0, 210.0])))
    assert result.finding is Finding.TOO_FEW_SEEDS
    assert result.winner == Estimate(490.0, None, None, 2, (480.0, 500.0))
    assert "test IQM 490 (480, 500) on 2 test seeds, against 205 (200, 210)" in result.sentence
    assert "[" not in result.sentence
    assert "+285" in result.sentence
    assert "this may be chance" in result.sentence


@pytest.mark.parametrize("count", [2, 5])
def test_an_equal_default_is_said_to_be_as_good(count: int) -> None:
    result = verdict(study(*screened(1.0, 2.0, 3.0, 4.0), *compared([500.0] * count, [500.0] * count)))
    assert result.finding is Finding.DEFAULT_AS_GOOD
    assert "default is as good" in result.sentence
    assert "keep it" in result.sentence


def test_a_better_default_is_said_to_be_better() -> None:
    result = verdict(study(*screened(1.0, 2.0, 3.0, 4.0), *compared([100.0, 110.0, 90.0, 95.0, 105.0], FIVE)))
    assert result.finding is Finding.DEFAULT_AS_GOOD
    assert "The default is better (difference -395" in result.sentence


def test_an_interval_that_contains_zero_is_no_improvement() -> None:
    result = verdict(study(*screened(1.0, 2.0, 3.0, 4.0), *compared([500.0, 10.0, 480.0, 470.0, 20.0], [100.0] * 5)))
    assert result.finding is Finding.UNCERTAIN
    assert result.difference is not None
    assert result.difference.low is not None
    assert result.difference.low < 0 < result.difference.iqm
    assert "not statistically better" in result.sentence
    assert "contains 0" in result.sentence
    # IQM 238, low -87.5: the lower half is 1.37 times too wide, so 2 * 1.37 ** 2 * 5 seeds, rounded up
    assert result.difference.low == pytest.approx(-87.5, abs=3.0)
    assert "19 test seeds show it in 4 of 5 cases: study.num_test_seeds=19 with the same" in result.sentence


def test_a_tiny_difference_is_not_worth_the_seeds_that_would_prove_it() -> None:
    result = verdict(study(*screened(1.0, 2.0, 3.0, 4.0), *compared([500.0, 10.0, 110.0, 190.0, 20.0], [100.0] * 5)))
    assert result.finding is Finding.UNCERTAIN
    assert "would need more than 100 test seeds: keep the default" in result.sentence


def test_scores_on_different_seeds_are_not_paired() -> None:
    seeds = [0.0, 100.0, 200.0, 300.0, 400.0, 500.0]
    runs = screened(1.0, 2.0, 3.0, 4.0)
    shifted = [value + 5 for value in seeds]
    assert verdict(study(*runs, *compared(shifted, seeds))).finding is Finding.BETTER
    assert verdict(study(*runs, *compared(shifted, seeds, first_default_seed=200))).finding is Finding.UNCERTAIN


def test_the_default_itself_may_win() -> None:
    summary = study(*screened(1.0, 2.0), *compared([], FIVE), winner="default")
    result = verdict(summary)
    assert result.finding is Finding.DEFAULT_AS_GOOD
    assert result.sentence.startswith("The winner is the default configuration: test IQM 495")
    assert not any("noise" in one for one in result.details), "what it means where nothing is said of it"


def test_without_a_default_nothing_is_claimed() -> None:
    result = verdict(study(*screened(1.0, 2.0, 3.0, 4.0), *compared(FIVE, [])))
    assert result.finding is Finding.NO_COMPARISON
    assert "so it is not known whether the winner is better" in result.sentence
    assert not any("noise" in one for one in result.details)


def test_the_best_of_the_configurations_tried_first_is_named() -> None:
    summary = study(*screened(9.0, 5.0, 3.0, 10.0), *compared(FIVE, [1.0] * 5))
    known = replace(summary, starts={"trial 1": "published", "trial 2": "other"})
    said = "configurations that were tried first is trial 1: its screening score is 5, that of the winner 10."
    assert f"The best of the {said}" in verdict(known).details
    known = replace(summary, starts={"trial 0": "default", **known.starts})
    assert f"The best of the other {said}" in verdict(known).details, "the default had 9"


def test_before_the_test_stage_only_a_tuning_score_is_known() -> None:
    result = verdict(study(*screened(1.0, 2.0, 3.0, 4.0), winner=None))
    assert result.finding is Finding.NOT_TESTED
    assert result.winner is None
    assert result.sentence.startswith(
        "Best so far: trial 3 (optimizer.learning_rate=0.0006, agent.gamma=0.98), score in the search 4 on 1 seed. "
        "There is no finished test stage yet"
    )


def test_best_so_far_is_right_for_negative_scores() -> None:
    assert "Best so far: trial 1 " in verdict(study(*screened(-200.0, -98.0, -150.0), winner=None)).sentence


@pytest.mark.parametrize("outcome", [None, Outcome.STOPPED])
def test_an_unfinished_test_stage_is_no_result(outcome: Outcome | None) -> None:
    runs = compared(FIVE, [1.0, 2.0, 3.0, 4.0, 5.0])
    runs[-1] = replace(runs[-1], outcome=outcome, value=None)
    result = verdict(study(*screened(1.0, 2.0, 3.0, 4.0), *runs))
    assert result.finding is Finding.NOT_TESTED
    assert "has not finished (missing: 1 of 10 runs)" in result.sentence


def test_all_failed() -> None:
    crashed = [run(f"trial {n}", "screen", n, None, outcome=Outcome.CRASHED, reason="no GPU") for n in range(3)]
    hungry = run("trial 3", "screen", 3, 9.0, outcome=Outcome.OUT_OF_MEMORY, reason="9 GB")
    result = verdict(study(*crashed, hungry, winner=None))
    assert result.finding is Finding.ALL_FAILED
    assert result.sentence == (
        "All 4 trials failed (3 crashed and 1 out of memory), so there is no result. Most frequent reason (3 x): no GPU"
    )


def test_nothing_finished_is_not_all_failed() -> None:
    runs = [run("trial 0", "screen", 0, None, outcome=Outcome.CRASHED), run("trial 1", "screen", 1, None, outcome=None)]
    assert verdict(study(*runs, winner=None)).sentence == "No trial has finished yet (1 crashed and 1 running)."
    assert verdict(study(winner=None)).sentence == "No trial has finished yet (none started)."


def test_failed_test_runs_are_counted_and_named() -> None:
    runs = compared(FIVE, [10.0, 20.0, 30.0, 40.0, 50.0])
    runs[0] = replace(runs[0], outcome=Outcome.DIVERGED, value=9.0)
    runs[1] = replace(runs[1], outcome=Outcome.CRASHED, value=None)
    result = verdict(study(*screened(1.0, 2.0, 3.0, 4.0), *runs))
    assert result.winner is not None
    assert result.winner.points == (9.0, 495.0, 480.0, 500.0)  # the diverged seed counts, the crashed one cannot
    failures = "2 of 10 test runs failed (1 diverged and 1 crashed). 1 run without a score is missing from the figures."
    assert failures in result.details


def diverged(run: RunRecord) -> RunRecord:
    return replace(run, outcome=Outcome.DIVERGED, value=9.0)


def test_a_default_that_finished_no_test_run_is_not_compared() -> None:
    runs = compared(FIVE, FIVE)
    result = verdict(study(*screened(1.0, 2.0, 3.0, 4.0), *runs[:5], *map(diverged, runs[5:])))
    assert result.finding is Finding.NO_COMPARISON
    assert result.winner is not None
    assert (result.default, result.difference, result.improvement) == (None, None, None)
    assert result.sentence == (
        "Trial 3 (optimizer.learning_rate=0.0006, agent.gamma=0.98): test IQM 495 [480, 500] on 5 test seeds. "
        "The default configuration finished none of its 5 test runs (5 diverged)."
    )


def test_a_winner_that_finished_no_test_run_has_no_result() -> None:
    runs = compared(FIVE, FIVE)
    lost = "Trial 3 (optimizer.learning_rate=0.0006, agent.gamma=0.98) finished none of its 5 test runs (5 diverged)."
    result = verdict(study(*screened(1.0, 2.0, 3.0, 4.0), *map(diverged, runs[:5]), *runs[5:]))
    assert result.finding is Finding.DEFAULT_AS_GOOD
    assert (result.winner, result.difference, result.optimism) == (None, None, None)
    assert result.sentence.startswith(f"{lost} Keep the default configuration: test IQM 495 [")
    result = verdict(study(*screened(1.0, 2.0, 3.0, 4.0), *map(diverged, runs)))
    assert result.finding is Finding.NO_COMPARISON
    assert result.sentence == f"{lost} The default configuration finished none of its 5 test runs (5 diverged)."


@pytest.mark.parametrize(("score", "counted_with"), [(None, "worst score seen"), (21.0, "score of a random policy")])
def test_it_is_said_what_failed_test_runs_count_with(score: float | None, counted_with: str) -> None:
    runs = compared(FIVE, FIVE)
    summary = replace(study(*screened(1.0, 2.0, 3.0, 4.0), diverged(runs[0]), *runs[1:]), random_score=score)
    assert f"1 of 10 test runs failed (1 diverged). They count with the {counted_with}." in verdict(summary).details
