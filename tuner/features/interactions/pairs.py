"""Which pairs of parameters act together: what two of them do beyond the sum of what each does alone.

The functional ANOVA of Hutter, Hoos & Leyton-Brown (2014, https://proceedings.mlr.press/v32/hutter14.html), its second
order: what an additive model leaves over is learned by a Gaussian process, whose variance over the space is divided
up by the indices of Sobol (2001, https://doi.org/10.1016/S0378-4754(00)00270-6). A random forest in its place finds
half as many pairs in 40 trials: no split is of use by itself where only two together are.
"""

import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import combinations
from typing import Any, Final

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial

from tuner.features.interactions.facts import Interactions
from tuner.results.metric import FloatArray
from tuner.study.importance import additive_model, judged_trials, places_of, shuffled
from tuner.trial.messages import JsonDict

_SHUFFLES: Final = 20
_POINTS: Final = 256
_MOST_TRIALS: Final = 150
"""More take minutes."""
_NOTHING: Final = 1e-6
_LIBRARIES: Final = ("SALib", "sklearn")


def interactions(study: optuna.Study, space: JsonDict, maximised: bool = True) -> Interactions | None:
    """How much of what makes a run good or bad two parameters do together; None where that cannot be estimated.

    What is left beside the main effects is shuffled among neighbouring trials twenty times; the largest share of any
    pair is what chance reaches in one study of twenty.

    Args:
        study: Of the screening stage, or of a sweep.
        space: As `Space.describe` gives it.
        maximised: Whether higher values of the first objective are better.
    """
    trials = _spread(judged_trials(study))
    known = [name for name in space if trials and all(name in trial.params for trial in trials)]
    scores = [trial.values[0] if maximised else -trial.values[0] for trial in trials]
    if (
        len(trials) < Interactions.MIN_TRIALS
        or len(known) < 2
        or len(set(scores)) < 2
        or not all(map(find_spec, _LIBRARIES))
    ):
        return None
    places = np.stack([_places(trials, name) for name in known], axis=1)
    model = _Model(places)
    searched = [name for name in space if any(name in trial.params for trial in trials)]
    residuals = additive_model(trials, searched).residuals(scores)
    rng = np.random.default_rng(0)  # a report is the same each time it is made
    chance = max(share for _ in range(_SHUFFLES) for share in model.pairs(shuffled(residuals, rng)).values())
    found = model.pairs(residuals)
    paths = [space[name]["path"] for name in known]
    ordered = sorted(found, key=lambda pair: -found[pair])
    pairs = tuple((paths[first], paths[second], found[first, second]) for first, second in ordered)
    return Interactions(pairs, chance)


def _spread(trials: Sequence[FrozenTrial]) -> Sequence[FrozenTrial]:
    """As many as can be learned from, early and late ones."""
    if len(trials) <= _MOST_TRIALS:
        return trials
    return [trials[round(index)] for index in np.linspace(0, len(trials) - 1, _MOST_TRIALS)]


def _places(trials: Sequence[FrozenTrial], name: str) -> FloatArray:
    """Where values lie in their range, from 0 to 1; choices in the order in which they are listed."""
    domain, drawn = trials[0].distributions[name], [trial.params[name] for trial in trials]
    if isinstance(domain, CategoricalDistribution):
        indices = np.array([domain.to_internal_repr(value) for value in drawn])
        return np.asarray((indices + 0.5) / len(domain.choices), dtype=np.float64)
    assert isinstance(domain, FloatDistribution | IntDistribution)
    return places_of(drawn, domain)


class _Model:
    """Gaussian processes over the same trials.

    Args:
        places: Of each trial's values in their ranges, from 0 to 1; [N, D].
    """

    def __init__(self, places: FloatArray) -> None:
        from SALib.sample import sobol

        self._places = places
        names = [str(index) for index in range(places.shape[1])]
        self._problem = {"num_vars": len(names), "names": names, "bounds": [[0.0, 1.0]] * len(names)}
        self._points = sobol.sample(self._problem, _POINTS, calc_second_order=True, seed=0)

    def pairs(self, target: FloatArray) -> Mapping[tuple[int, int], float]:
        """Variance over the space of what each pair does together, by a model that has learned the target, [N]."""
        from SALib.analyze import sobol
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

        num = self._places.shape[1]
        signal = ConstantKernel(0.5, (1e-3, 10.0)) * RBF([0.5] * num, (0.1, 10.0))
        model: Any = GaussianProcessRegressor(signal + WhiteKernel(0.5, (1e-2, 2.0)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a length scale at its bound: that does nothing
            values = model.fit(self._places, target).predict(self._points)
        variance = float(values.var())
        together = list(combinations(range(num), 2))
        if variance < _NOTHING:
            return dict.fromkeys(together, 0.0)
        shares = sobol.analyze(self._problem, values, calc_second_order=True, num_resamples=2, seed=0)["S2"]
        return {pair: max(float(shares[pair]) * variance, 0.0) for pair in together}
