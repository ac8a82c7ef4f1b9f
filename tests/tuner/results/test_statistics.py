"""Expected numbers are worked out by hand in the comments, or come from a naive reference that shares no code."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.results.statistics import (
    average_ranks,
    bootstrap_interval,
    difference_interval,
    expanded_tail,
    expected_best_of_k,
    iqm,
    mean,
    paired_permutation_p,
    probability_of_improvement,
    spearman,
    spearman_bound,
    student_t,
)

SCORES = st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=13)


def naive_iqm(scores: list[float]) -> float:
    """Every score as four equal quarters: cutting a quarter of the mass then cuts whole quarters, n at each end."""
    quarters = sorted(score for score in scores for _ in range(4))
    kept = quarters[len(scores) : len(quarters) - len(scores)]
    return sum(kept) / len(kept)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([7.0], 7.0),
        ([1.0, 4.0], 2.5),
        (
            [0.0, 1.0, 50.0],
            9.0,
        ),  # weights .25, 1, .25: (0 + 1 + 12.5) / 1.5; whole-score trimming would give the mean, 17
        ([0.0, 1.0, 3.0, 100.0], 2.0),  # n = 4: the middle two
        ([0.0, 2.0, 4.0, 9.0, 1000.0], 4.9),  # weights 0, .75, 1, .75, 0: (1.5 + 4 + 6.75) / 2.5
        ([-5.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 500.0], 3.5),  # n = 8: the middle four
    ],
)
def test_iqm_by_hand(scores: list[float], expected: float) -> None:
    assert float(iqm(scores)) == pytest.approx(expected)


@given(SCORES)
def test_iqm_is_the_mean_of_the_middle_half_of_the_mass(scores: list[float]) -> None:
    assert float(iqm(scores)) == pytest.approx(naive_iqm(scores))


@given(SCORES.flatmap(lambda scores: st.permutations(scores).map(lambda other: (scores, other))))
def test_iqm_does_not_depend_on_the_order(pair: tuple[list[float], list[float]]) -> None:
    assert float(iqm(pair[0])) == float(iqm(pair[1]))


def test_statistics_reduce_the_last_axis_only() -> None:
    scores = np.array([[0.0, 1.0, 3.0, 100.0], [1.0, 1.0, 1.0, 1.0]])
    assert iqm(scores) == pytest.approx([2.0, 1.0])
    assert mean(scores) == pytest.approx([26.0, 1.0])


def test_bootstrap_interval_agrees_with_all_resamples_enumerated() -> None:
    scores = [0.0, 1.0, 5.0]
    means = [sum(draw) / 3 for draw in itertools.product(scores, repeat=3)]  # all 27 equally likely resamples
    tail = 0.158655  # of the normal distribution beyond sqrt(3 / 2) times 0.8165, Student's t for 50 % and 2 degrees
    expected = np.quantile(means, [tail, 1 - tail])
    interval = bootstrap_interval(scores, statistic=mean, level=0.5, resamples=20_000)
    assert interval == pytest.approx(tuple(expected), abs=0.02)


@pytest.mark.parametrize(
    ("level", "degrees", "expected"),  # from a table
    [(0.95, 1, 12.706), (0.95, 2, 4.303), (0.95, 4, 2.776), (0.95, 9, 2.262), (0.8, 2, 1.886), (0.99, 30, 2.750)],
)
def test_student_t(level: float, degrees: int, expected: float) -> None:
    assert student_t(level, degrees) == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize("num_scores", [5, 10])
def test_about_95_of_100_intervals_of_95_percent_hold_the_true_value(num_scores: int) -> None:
    rng = np.random.default_rng(1)
    samples = rng.normal(size=(400, num_scores))
    intervals = [bootstrap_interval(sample, resamples=1000) for sample in samples]
    assert 0.93 <= np.mean([low <= 0.0 <= high for low, high in intervals]) <= 0.985


def test_bootstrap_interval_is_the_same_each_time_unless_a_generator_is_given() -> None:
    scores = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0]
    assert bootstrap_interval(scores) == bootstrap_interval(scores)
    other = bootstrap_interval(scores, resamples=50, rng=np.random.default_rng(7))
    assert other != bootstrap_interval(scores, resamples=50, rng=np.random.default_rng(8))


def test_a_higher_level_gives_a_wider_interval() -> None:
    scores = np.random.default_rng(3).normal(size=12)
    narrow, wide = bootstrap_interval(scores, level=0.5), bootstrap_interval(scores, level=0.99)
    assert wide.low < narrow.low < float(iqm(scores)) < narrow.high < wide.high


def test_pairing_removes_what_a_seed_does_to_both() -> None:
    seed_effect = np.array([0.0, 100.0, 200.0, 300.0, 400.0, 500.0])
    winner, default = seed_effect + 5.0, seed_effect
    assert difference_interval(winner, default, paired=True) == pytest.approx((5.0, 5.0))
    unpaired = difference_interval(winner, default)
    assert unpaired.low < -100 < 100 < unpaired.high


def test_pairs_need_equal_lengths() -> None:
    with pytest.raises(ValueError, match="same length, not 2 and 3"):
        difference_interval([1, 2], [1, 2, 3], paired=True)


def test_probability_of_improvement_by_hand() -> None:
    # Of 9 pairs: 1 beats 0; 2 beats 0 and ties 2; 3 beats 0 and 2: 4 wins and half a tie is 4.5.
    assert probability_of_improvement([1, 2, 3], [0, 2, 4]) == 0.5
    assert probability_of_improvement([5], [1, 2, 7, 8]) == 0.5
    assert probability_of_improvement([3, 3], [3]) == 0.5
    assert probability_of_improvement([1, 9], [0, 0, 0]) == 1.0


@given(SCORES, SCORES)
def test_probability_of_improvement_counts_every_pair(x: list[float], y: list[float]) -> None:
    pairs = [1.0 if a > b else 0.5 if a == b else 0.0 for a in x for b in y]
    assert probability_of_improvement(x, y) == pytest.approx(sum(pairs) / len(pairs))
    assert probability_of_improvement(x, y) + probability_of_improvement(y, x) == pytest.approx(1.0)


def test_the_paired_permutation_test_counts_signs() -> None:
    assert paired_permutation_p([2.0, 3.0, 4.0], [1.0, 1.0, 1.0]) == 1 / 8
    assert paired_permutation_p([1.0] * 3, [1.0] * 3) == 1.0
    # differences 3, 2, -1: of the eight sums 6, 4, 2, 0, 0, -2, -4, -6 two are at least 4
    assert paired_permutation_p([3.0, 2.0, 0.0], [0.0, 0.0, 1.0]) == 2 / 8
    with pytest.raises(ValueError, match="same length"):
        paired_permutation_p([1.0], [1.0, 2.0])


def test_signs_of_many_pairs_are_drawn() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(0.4, 1.0, 17)
    p = paired_permutation_p(x, np.zeros(17))
    signs = 1 - 2 * ((np.arange(2**17)[:, None] >> np.arange(17)) & 1)
    exact = np.mean((signs * x).sum(axis=1) >= x.sum() - 1e-12)
    assert 0.001 < exact < 0.5
    assert p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 2**16))
    assert paired_permutation_p(np.ones(30), np.zeros(30)) == 2**-16  # never 0


def test_the_paired_permutation_test_is_exact() -> None:
    """Under no difference, p <= 1/8 happens in at most one of eight cases."""
    rng = np.random.default_rng(0)
    found = [paired_permutation_p(*rng.normal(size=(2, 5))) for _ in range(2000)]
    assert np.mean([p <= 0.125 for p in found]) == pytest.approx(0.125, abs=0.025)


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 4000], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        # Without ties 1 - 6 sum(d^2) / (n (n^2 - 1)): d = 0, 1, -1, 0 gives 1 - 12/60.
        ([1, 2, 3, 4], [1, 3, 2, 4], 0.8),
        # Ranks (1.5, 1.5, 3) and (1, 2, 3), centred (-.5, -.5, 1) and (-1, 0, 1): 1.5 / sqrt(1.5 * 2).
        ([5, 5, 9], [1, 2, 3], math.sqrt(0.75)),
    ],
)
def test_spearman_by_hand(x: list[float], y: list[float], expected: float) -> None:
    assert spearman(x, y) == pytest.approx(expected)


def naive_ranks(values: list[float]) -> list[float]:
    below = [sum(other < value for other in values) for value in values]
    ties = [sum(other == value for other in values) for value in values]
    return [lower + (tied + 1) / 2 for lower, tied in zip(below, ties, strict=True)]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=12))
def test_spearman_is_the_correlation_of_average_ranks(pairs: list[tuple[int, int]]) -> None:
    x, y = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert math.isnan(spearman(x, y))
    else:
        assert spearman(x, y) == pytest.approx(np.corrcoef(naive_ranks(x), naive_ranks(y))[0, 1])


def test_each_row_has_ranks_of_its_own() -> None:
    rows = [[3.0, 1.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0], [4.0, 3.0, 2.0, 1.0], [2.0, -0.0, 0.0, 2.0]]
    np.testing.assert_array_equal(average_ranks(np.array(rows)), [naive_ranks(row) for row in rows])


def test_the_bound_of_an_agreement_by_hand() -> None:
    """Of two pairs, a half of all resamples draws one of them twice, which counts as 0; the rest repeats the whole."""
    assert (spearman_bound([1, 2], [3, 4], 0.4), spearman_bound([1, 2], [3, 4], 0.6)) == (0.0, 1.0)
    assert (spearman_bound([1, 2], [4, 3], 0.4), spearman_bound([1, 2], [4, 3], 0.6)) == (-1.0, 0.0)
    assert spearman_bound(range(8), range(8)) == pytest.approx(1.0)
    assert math.isnan(spearman_bound([1, 1, 1], [1, 2, 3]))


def test_expected_best_of_k_by_hand() -> None:
    assert [expected_best_of_k([0, 1], k) for k in (1, 2, 3)] == pytest.approx([0.5, 0.75, 0.875])


@given(st.lists(st.integers(0, 9).map(float), min_size=1, max_size=4), st.integers(1, 4))
def test_expected_best_of_k_averages_the_maximum_of_all_draws(values: list[float], k: int) -> None:
    maxima = [max(draw) for draw in itertools.product(values, repeat=k)]
    assert expected_best_of_k(values, k) == pytest.approx(sum(maxima) / len(maxima))


@pytest.mark.parametrize("scores", [[], [1.0, float("nan")], [float("inf")]])
def test_what_is_no_score_is_refused(scores: list[float]) -> None:
    for function in (iqm, mean, bootstrap_interval):
        with pytest.raises(ValueError, match=r"finite|at least one"):
            function(scores)


def test_other_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="level is a share"):
        bootstrap_interval([1.0, 2.0], level=95)
    with pytest.raises(ValueError, match="must be at least 1, not 0"):
        expected_best_of_k([1.0], 0)
    with pytest.raises(ValueError, match="same length >= 2, not 1 and 1"):
        spearman([1.0], [2.0])
    with pytest.raises(ValueError, match="a vector of scores"):
        probability_of_improvement([[1.0]], [1.0])


def test_tail_outside_of_an_interval_is_smaller_for_fewer_scores() -> None:
    assert expanded_tail(0.95, 1) == pytest.approx(0.025)
    # 5 scores: P(Z < -sqrt(5 / 4) * 2.776), 3 groups of 5: with t(12) = 2.179
    assert expanded_tail(0.95, 5) == pytest.approx(0.000954, rel=1e-3)
    assert expanded_tail(0.95, 5, 3) == pytest.approx(0.007426, rel=1e-3)
    assert expanded_tail(0.95, 10_000) == pytest.approx(0.025, rel=1e-3)
