"""Which parameters matter, and what chance alone would have made of them."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from tuner.results.insights.main_effects import NUM_PLACES, AdditiveModel, Term, contrasts, polynomials
from tuner.results.metric import Curve, FloatArray, Metric, Timing
from tuner.results.records import Importances
from tuner.study.storage.trial_records import ENDING_ATTRIBUTE, OUTCOME_ATTRIBUTE, curve_of, time_limit_of, times_of
from tuner.trial.messages import JsonDict, Outcome

MIN_TRIALS = 10
"""With fewer trials the importances are noise."""

NULL_LEVEL = 0.95
PERMUTATIONS = 40
_BLOCK = 5
_MAX_MOMENTS = 6
_JUDGED = (TrialState.COMPLETE, TrialState.PRUNED)
"""A pruned trial counts with its last score: without those that were ended for being low, bad values were missing."""


def importances(
    study: optuna.Study, space: JsonDict, maximised: bool = True, permutations: int = PERMUTATIONS
) -> Importances:
    """Importance of each parameter for a good value; without any where there are too few trials, or too equal ones.

    The values are shuffled among neighbouring trials a number of times; what importance a parameter has then is chance
    and the sampler's doing, and the `NULL_LEVEL` quantile of it is the parameter's null.

    Args:
        study: Of the screening stage, or of a sweep.
        space: As `Space.describe` gives it.
        maximised: Whether higher values of the first objective are better.
        permutations: How often values are shuffled; 0: no null.
    """
    trials = judged_trials(study)
    sign = 1.0 if maximised else -1.0
    return _over_trials(trials, [sign * trial.values[0] for trial in trials], space, permutations)


def judged_trials(study: optuna.Study) -> list[FrozenTrial]:
    """The trials whose values tell something, in the order they were started."""
    ended = study.get_trials(deepcopy=False, states=_JUDGED)
    return [trial for trial in ended if trial.values and math.isfinite(trial.values[0])]


def additive_model(trials: Sequence[FrozenTrial], names: Sequence[str]) -> AdditiveModel:
    """Of what each of these parameters does by itself; each is in one of the trials at least."""
    return AdditiveModel({name: _term(name, trials) for name in names})


def profiles(trials: Sequence[FrozenTrial], scores: Sequence[float], names: Sequence[str]) -> dict[str, FloatArray]:
    """Effect of each numeric parameter on the rank of a trial, at evenly spaced places of its range: name -> [M].

    Nothing where there are too few trials, or too equal ones; in units of the standard deviation of ranks.
    """
    known = [name for name in names if any(name in trial.params for trial in trials)]
    if len(trials) < MIN_TRIALS or len(set(scores)) < 2 or not known:
        return {}
    shapes = additive_model(trials, known).shapes(scores)
    return {name: shape for name, shape in shapes.items() if len(shape) == NUM_PLACES}


def over_time(study: optuna.Study, space: JsonDict, metric: Metric) -> tuple[Importances, ...]:
    """Importances for the score after parts of the budget; a pruned run keeps the score that it had in the end."""
    judged = [(trial, curve) for trial in study.get_trials(deepcopy=False, states=_JUDGED) if (curve := _curve(trial))]
    limit = max((time_limit_of(trial.user_attrs.get(ENDING_ATTRIBUTE, {})) for trial, _ in judged), default=0.0)
    found = []
    for moment in _moments([curve for trial, curve in judged if trial.state is TrialState.COMPLETE]):
        begun = [
            (trial, metric.partial(curve, moment, Timing(_times(trial), limit)))
            for trial, curve in judged
            if curve[0][0] <= moment
        ]
        importance = _over_trials([trial for trial, _ in begun], [score for _, score in begun], space, PERMUTATIONS)
        if importance.shares:
            found.append(replace(importance, fraction=moment))
    return tuple(found)


def _curve(trial: FrozenTrial) -> Curve:
    """The curve that a run reported; empty for a failed run."""
    if trial.user_attrs.get(OUTCOME_ATTRIBUTE) not in (Outcome.COMPLETE, Outcome.PRUNED):
        return ()
    curve = curve_of(trial.user_attrs.get(ENDING_ATTRIBUTE, {}))
    return curve if all(math.isfinite(value) for _, value in curve) else ()


def _times(trial: FrozenTrial) -> Curve:
    return times_of(trial.user_attrs.get(ENDING_ATTRIBUTE, {}))


def _moments(curves: Sequence[Curve]) -> list[float]:
    """A few of the fractions at which all these runs have reported, the first and the last among them."""
    if not curves:
        return []
    shared = set.intersection(*({step for step, _ in curve} for curve in curves))
    steps = sorted(step for step in shared if 0.0 < step <= 1.0)
    return sorted({steps[round(index)] for index in np.linspace(0, len(steps) - 1, _MAX_MOMENTS)}) if steps else []


def _over_trials(
    trials: Sequence[FrozenTrial], scores: Sequence[float], space: JsonDict, permutations: int
) -> Importances:
    """Over these trials in the order they were started; higher scores are better."""
    known = [name for name in space if any(name in trial.params for trial in trials)]
    if len(trials) < MIN_TRIALS or len(set(scores)) < 2 or not known:
        return Importances()
    model = additive_model(trials, known)
    found = model.effects(scores)
    total = sum(found.values())
    if not total > 0.0:
        return Importances()
    rng = np.random.default_rng(0)  # a report is the same each time it is made
    values = np.asarray(scores, dtype=np.float64)
    by_chance = [model.effects(shuffled(values, rng)) for _ in range(permutations)]
    null = {name: float(np.quantile([one[name] for one in by_chance], NULL_LEVEL)) for name in known if by_chance}
    ordered = sorted(known, key=lambda name: -found[name])
    return Importances(
        {space[name]["path"]: found[name] / total for name in ordered},
        {space[name]["path"]: min(null[name] / total, 1.0) for name in ordered if name in null},
    )


def _term(name: str, trials: Sequence[FrozenTrial]) -> Term:
    having = [index for index, trial in enumerate(trials) if name in trial.params]
    domain = trials[having[0]].distributions[name]
    drawn = [trials[index].params[name] for index in having]
    if isinstance(domain, CategoricalDistribution):
        term = contrasts([int(domain.to_internal_repr(value)) for value in drawn], len(domain.choices))
    else:
        assert isinstance(domain, FloatDistribution | IntDistribution)
        term = polynomials(places_of(drawn, domain))
    return term.among(len(trials), having)


def places_of(drawn: Sequence[float], domain: FloatDistribution | IntDistribution) -> FloatArray:
    """Where values lie in their range, from 0 to 1."""
    spread = np.log if domain.log else np.asarray
    low, high, values = spread(float(domain.low)), spread(float(domain.high)), spread(np.asarray(drawn, dtype=float))
    return np.asarray((values - low) / (high - low) if high > low else np.full(len(drawn), 0.5), dtype=np.float64)


def shuffled(scores: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Numbers of trials in another order, each near its place.

    A sampler closes in on good regions, also in a parameter that does nothing: early trials are bad and spread out,
    late ones good and close together. Shuffled over the whole study this would pass for importance.
    """
    blocks = np.arange(len(scores)) // _BLOCK
    return scores[np.argsort(blocks + rng.random(len(scores)))]
