# ruff: noqa: T201
"""Whose main effects are nearest to the true ones? The additive model of a report against what libraries have.

    python tests/benchmarks/importances.py [number of studies: 20]

Each study has eight parameters, and scores with noise: four have an effect of their own, two only act together. What a
parameter brings is the share that the variance of its main effect has in that of all, found once by averaging over many
points. Printed are, for each number of trials, half the sum of absolute errors of the shares (0: exact, 1: all of it is
given to what does nothing), in how many studies the three parameters that matter most came first, and the seconds that
one fit takes; a report fits forty more, on shuffled scores, to tell what is chance. `Gaussian process` is what the
report takes its pairs of parameters from (Sobol's first-order indices by SALib of a Gaussian process of scikit-learn),
`fANOVA` and `PED-ANOVA` are Optuna's evaluators. Needs the extra report.
"""

import sys
import time
import warnings
from collections.abc import Callable, Mapping

import numpy as np
import optuna
from optuna.importance import FanovaImportanceEvaluator, PedAnovaImportanceEvaluator, get_param_importances
from SALib.analyze import sobol as analyze
from SALib.sample import sobol
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from tuner.results.statistics import average_ranks
from tuner.study.importance import additive_model

NAMES = [f"x{index}" for index in range(8)]
NOISE = 0.4
PROBLEM = {"num_vars": len(NAMES), "names": NAMES, "bounds": [[0, 1]] * len(NAMES)}
Shares = Mapping[str, float]


def score(x: np.ndarray) -> np.ndarray:
    """A hill, a slope, a valley and a step; two that act together; the other two do nothing. x: [8, N]."""
    hill = 3 * np.exp(-(((x[0] - 0.7) / 0.25) ** 2))
    together = 6 * (x[4] - 0.5) * (x[5] - 0.5)
    return np.asarray(hill + 1.5 * x[1] - 4 * (x[2] - 0.4) ** 2 + 0.5 * (x[3] > 0.5) + together)


def true_shares() -> np.ndarray:
    """Of each parameter, by averaging over the others at 100 places; [8]."""
    points = np.random.default_rng(1).random((len(NAMES), 20_000))
    variances = []
    for index in range(len(NAMES)):
        moved = points.copy()
        means = []
        for place in (np.arange(100) + 0.5) / 100:
            moved[index] = place
            means.append(score(moved).mean())
        variances.append(np.var(means))
    return np.asarray(variances) / sum(variances)


def additive(study: optuna.Study) -> Shares:
    """The report's own."""
    return additive_model(study.trials, NAMES).effects([trial.value or 0.0 for trial in study.trials])


def gaussian_process(study: optuna.Study) -> Shares:
    """First-order indices of a Gaussian process over ranks."""
    points = np.array([[trial.params[name] for name in NAMES] for trial in study.trials])
    ranks = average_ranks(np.array([trial.value for trial in study.trials]))
    kernel = ConstantKernel(0.5, (1e-3, 10)) * RBF([0.5] * len(NAMES), (0.1, 10.0)) + WhiteKernel(0.5, (1e-2, 2))
    model = GaussianProcessRegressor(kernel).fit(points, (ranks - ranks.mean()) / ranks.std())
    spread = sobol.sample(PROBLEM, 256, calc_second_order=False, seed=0)
    found = analyze.analyze(PROBLEM, model.predict(spread), calc_second_order=False, num_resamples=2, seed=0)
    return dict(zip(NAMES, np.maximum(found["S1"], 0), strict=True))


METHODS: dict[str, Callable[[optuna.Study], Shares]] = {
    "additive model": additive,
    "Gaussian process": gaussian_process,
    "fANOVA": lambda study: get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0)),
    "PED-ANOVA": lambda study: get_param_importances(study, evaluator=PedAnovaImportanceEvaluator()),
}
SAMPLERS: dict[str, Callable[[int], optuna.samplers.BaseSampler]] = {
    "random": optuna.samplers.RandomSampler,
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed, multivariate=True),
}


def studied(sampler: optuna.samplers.BaseSampler, num_trials: int, seed: int) -> optuna.Study:
    """A study of `num_trials` trials."""
    rng = np.random.default_rng(seed)

    def objective(trial: optuna.Trial) -> float:
        x = np.array([[trial.suggest_float(name, 0, 1)] for name in NAMES])
        return float(score(x)[0] + rng.normal(0, NOISE))

    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(objective, n_trials=num_trials)
    return study


def main() -> None:
    """Prints a line for each sampler, number of trials and method."""
    num_studies = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    true = true_shares()
    first = set(np.argsort(-true)[:3])
    print("true shares:", " ".join(f"{share:.2f}" for share in true))
    print(f"{'':34}error  first three right  seconds")
    for sampler, make in SAMPLERS.items():
        for num_trials in (20, 40, 100):
            studies = [studied(make(seed), num_trials, seed) for seed in range(num_studies)]
            for name, shares_of in METHODS.items():
                begin = time.perf_counter()
                found = np.array([[shares_of(study).get(one, 0.0) for one in NAMES] for study in studies])
                seconds = (time.perf_counter() - begin) / num_studies
                total = found.sum(axis=1, keepdims=True)
                found = np.where(total > 0, found / np.where(total > 0, total, 1), 1 / len(NAMES))
                error = np.abs(found - true).sum(axis=1).mean() / 2
                right = sum(set(np.argsort(-one)[:3]) == first for one in found)
                start = f"{sampler:7}{num_trials:4} trials  {name:18}"
                print(f"{start} {error:.3f}  {right:5} of {num_studies:<9}  {seconds:.4f}")


if __name__ == "__main__":
    main()
