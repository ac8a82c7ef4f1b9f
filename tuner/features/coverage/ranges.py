"""How much of each range a search has looked at, and what lies beyond the edge at which its winner is.

Parts of a range are counted as in stratified designs (McKay, Beckman & Conover 1979,
https://doi.org/10.1080/00401706.1979.10489755): n even draws leave each of k parts empty with probability
(1 - 1/k)^n, so they visit k (1 - (1 - 1/k)^n) of them on average.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from tuner.features.coverage.facts import Coverage, Reach
from tuner.features.coverage.wider_range import widened
from tuner.results.metric import FloatArray
from tuner.study.importance import places_of
from tuner.study.space.parameter_text import ONE_MINUS
from tuner.trial.messages import JsonDict

MIN_TRIALS: Final = 16
"""With fewer a half of them says nothing about where a search looks."""
NUM_PARTS: Final = 10
_AT_EDGE: Final = 0.1
_NEAR_EDGE: Final = 0.25
_BEST_SHARE: Final = 1 / 3
_MOST: Final = 2 / 3
_ROUNDING: Final = 1e-9


def coverage(trials: Sequence[FrozenTrial], space: JsonDict, winner: int | None) -> Coverage | None:
    """Where the trials of a search lie; None where fewer than `MIN_TRIALS` have ended.

    An edge is reported where two things hold, as one trial in five lies near an end of its range by chance: the winner
    is in the outermost tenth of a range (or has its first or last step), and two thirds of the best third of the
    complete feasible trials are in the outermost quarter on the same side. Parameters without an order, and those that
    only some trials have, are left out.

    Args:
        trials: Of the screening stage, in the order they were started.
        space: As `Space.describe` gives it.
        winner: Number of the trial that the study has chosen; None: it has not, or it has chosen none of them.
    """
    ended = [trial for trial in trials if trial.state.is_finished()]
    if len(ended) < MIN_TRIALS:
        return None
    chosen = next((index for index, trial in enumerate(ended) if trial.number == winner), None)
    scores = [trial.values[0] if _may_win(trial) else -math.inf for trial in ended]
    best = [index for index in np.argsort(scores)[::-1].tolist() if scores[index] > -math.inf]
    best = best[: math.ceil(_BEST_SHARE * len(best))]
    found = []
    for name, described in space.items():
        if not all(name in trial.params for trial in ended):
            continue
        domain = ended[0].distributions[name]
        if not isinstance(domain, FloatDistribution | IntDistribution) or domain.single():
            continue
        places = _places([trial.params[name] for trial in ended], domain)
        edge = "" if chosen is None else _edge(places[chosen], places[best], _half_part(domain))
        found.append(_reach(described, places, min(NUM_PARTS, _num_values(domain)), edge))
    return Coverage(len(ended) - len(ended) // 2, tuple(sorted(found, key=lambda reach: reach.path)))


def _may_win(trial: FrozenTrial) -> bool:
    return trial.state == TrialState.COMPLETE and all(excess <= 0.0 for excess in trial.constraints.values())


def _reach(described: Mapping[str, Any], places: FloatArray, num_parts: int, edge: str) -> Reach:
    """Of one parameter, given where its values lie, and the end of its coordinate at which the winner is."""
    if edge and described["scale"] == ONE_MINUS:  # 1 - value is drawn: where that is low, the value is high
        edge = "high" if edge == "low" else "low"
    widen = widened(described, edge) if edge else ""
    parts = np.minimum((places * num_parts).astype(int), num_parts - 1)
    late = parts[len(parts) // 2 :]
    return Reach(
        path=str(described["path"]),
        num_parts=num_parts,
        num_visited=len(set(parts.tolist())),
        num_late=len(set(late.tolist())),
        expected_late=num_parts * (1.0 - (1.0 - 1.0 / num_parts) ** len(late)),
        edge=edge if widen else "",
        widen=widen,
    )


def _edge(winner: float, best: FloatArray, outermost: float) -> str:
    """The end of its coordinate at which the winner lies together with most of the best trials; empty: at none.

    Args:
        winner: Its place in the range.
        best: Places of the best trials.
        outermost: How far from the end the first value lies.
    """
    for edge, own, others in (("low", winner, best), ("high", 1.0 - winner, 1.0 - best)):
        if own <= max(_AT_EDGE, outermost) and np.mean(others < _NEAR_EDGE) >= _MOST - _ROUNDING:
            return edge
    return ""


def _places(drawn: Sequence[float], domain: FloatDistribution | IntDistribution) -> FloatArray:
    """Where values lie in their range, from 0 to 1; of a range with steps, each in the middle of its part."""
    if domain.step is None or domain.log:
        return places_of(drawn, domain)
    return np.asarray((np.asarray(drawn) - domain.low) / domain.step + 0.5) / _num_values(domain)


def _half_part(domain: FloatDistribution | IntDistribution) -> float:
    """How far from the end of a range its first value lies, plus what rounding may do."""
    return 0.0 if domain.step is None or domain.log else 0.5 / _num_values(domain) + _ROUNDING


def _num_values(domain: FloatDistribution | IntDistribution) -> int:
    """The number of values; of a range without steps the number of its parts."""
    return NUM_PARTS if domain.step is None else round((domain.high - domain.low) / domain.step) + 1
