"""Each candidate at a learning rate of its own, so that none loses because of a rate that was made for another."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tuner.errors import UserError
from tuner.finders.comparison.comparison_study import ComparisonResult, ComparisonSettings, run_comparison
from tuner.finders.finder_study import FinderPlace
from tuner.finders.subjects import Subject
from tuner.results.number_format import counted, join_words

_BRACKET = 10.0  # how far the first and the last rate lie from a candidate's own one


@dataclass(frozen=True)
class RateCandidate:
    """A candidate whose learning rate can be varied.

    Attributes:
        own: The rate that it was given.
        at: Makes what trains at a rate.
    """

    own: float
    at: Callable[[float], Subject]


def run_at_best_rates(
    kind: str,
    title: str,
    candidates: Mapping[str, RateCandidate],
    num_rates: int,
    settings: ComparisonSettings,
    workplace: FinderPlace,
) -> ComparisonResult:
    """A comparison in which each candidate trains at the best of as many rates, found on a seed that it does not use.

    Args:
        kind: Of the finder.
        title: The comparison in words.
        candidates: By name.
        num_rates: Tried for each.
        settings: How they are compared.
        workplace: Where.

    Raises:
        UserError: A number of rates that makes no sense, or what `run_comparison` raises.
    """
    grids = {name: rates_around(one.own, num_rates) for name, one in candidates.items()}
    points = {f"{name} at {rate:.3g}": (name, rate) for name, rates in grids.items() for rate in rates}
    apart = replace(settings, seed=settings.seed + settings.num_seeds, num_seeds=1)
    named = workplace if workplace.name is None else replace(workplace, name=f"{workplace.name}-rates")
    subjects = {label: candidates[name].at(rate) for label, (name, rate) in points.items()}
    best: dict[str, float] = {}
    for standing in run_comparison("rates", title, subjects, apart, named).comparison.standings:  # best first
        name, rate = points[standing.name]
        best.setdefault(name, rate)
    chosen = {name: best.get(name, one.own) for name, one in candidates.items()}  # who fails with all fails again
    final = {name: candidates[name].at(rate) for name, rate in chosen.items()}
    result = run_comparison(kind, title, final, settings, workplace)
    return replace(result, rates=chosen, about_rates=_describe(chosen, grids))


def rates_around(own: float, num_rates: int) -> list[float]:
    """A tenth of a candidate's own rate to ten times it, in even steps of their logarithm.

    Raises:
        UserError: Fewer than 2 rates, or an own rate that is not above 0.
    """
    if isinstance(num_rates, bool) or not isinstance(num_rates, int) or num_rates < 2:
        raise UserError(f"num_rates={num_rates} must be 0 (each candidate's own rate) or a whole number, at least 2")
    if not own > 0.0:
        raise UserError(f"a learning rate of {own:g} cannot be varied: give the optimizer one above 0, or num_rates=0")
    return [own * _BRACKET ** (2.0 * index / (num_rates - 1) - 1.0) for index in range(num_rates)]


def _describe(rates: Mapping[str, float], grids: Mapping[str, list[float]]) -> str:
    num_rates = max(map(len, grids.values()))
    listed = ", ".join(f"{name} at {rate:.3g}" for name, rate in rates.items())
    words = f"Compared at the best of {counted(num_rates, 'learning rate')} each, found on another seed: {listed}."
    at_end = [name for name, rate in rates.items() if rate in (grids[name][0], grids[name][-1])]
    if at_end:
        words += f" Of {join_words(at_end)} that is an end of its range: a rate beyond may do better still."
    return words
