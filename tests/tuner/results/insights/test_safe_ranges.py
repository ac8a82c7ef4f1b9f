"""Ranges in which trials are as good as the winner, by hand."""

from dataclasses import replace

from tests.tuner.results.insights.small_studies import study, trial
from tuner.results.insights.safe_ranges import good_trials, safe_ranges


def test_a_safe_range_spans_the_trials_that_tie_with_the_winner() -> None:
    scores = (10.0, 9.0, 11.0, 1.0, 2.0, 0.0, 1.0, 2.0)
    rates = (1e-3, 3e-3, 1e-2, 5e-3, 1e-1, 1e-5, 1e-4, 1.0)
    kinds = ("b", "a", "b", "c", "a", "c", "c", "c")
    screened = [trial(n, scores[n], rate=rates[n], kind=kinds[n]) for n in range(8)]
    summary = study(*screened, tests=(8.0, 10.0, 12.0), importances={"kind": 0.9, "rate": 0.1})
    assert [one.label for one in good_trials(summary)[0]] == ["trial 0", "trial 1", "trial 2"]
    kind, rate = safe_ranges(summary)
    assert (kind.path, kind.choices, kind.low, kind.best) == ("kind", ("b", "a"), None, "b")
    assert (kind.num_good, kind.num_inside) == (3, 4)  # trial 4 has kind a and is bad
    assert (rate.low, rate.high, rate.best) == (1e-3, 1e-2, 1e-3)
    assert (rate.tried_low, rate.tried_high) == (1e-5, 1.0)
    assert (rate.num_good, rate.num_inside, rate.precision) == (3, 4, 0.75)  # trial 3 lies within and is bad


def test_where_noise_is_unknown_the_best_quarter_stands_for_the_good_ones() -> None:
    summary = study(*(trial(n, float(n), rate=float(n)) for n in range(16)), winner_label=None)
    (found,) = safe_ranges(summary)
    assert (found.low, found.high, found.num_good) == (12.0, 15.0, 4)
    lower = replace(summary, maximised=False, is_sweep=True)
    (found,) = safe_ranges(lower)
    assert (found.low, found.high) == (0.0, 3.0)
    assert safe_ranges(study(*(trial(n, float(n), rate=1.0) for n in range(7)))) == ()
