"""Making Optuna's samplers and pruners: what they need to be installed, and how they are seeded."""

import importlib.util
import inspect
from collections.abc import Callable

from optuna.samplers import BaseSampler, QMCSampler

from tuner.errors import UserError
from tuner.protocol import sampler_seed
from tuner.study.store import quiet_optuna

SamplerFactory = Callable[..., BaseSampler]
"""A sampler class or a partial of one; called with `seed=` if it takes one."""

_NEEDED = {
    "GPSampler": ("scipy", "torch"),
    "QMCSampler": ("scipy",),
    "CmaEsSampler": ("cmaes",),
    "WilcoxonPruner": ("scipy",),
}
"""What Optuna imports late, when some trials have been run already."""


def require_packages(kind: str) -> None:
    """Refuses a sampler or pruner, given by the name of its class, whose packages are not installed.

    Raises:
        UserError: Says what to install.
    """
    missing = [package for package in _NEEDED.get(kind, ()) if importlib.util.find_spec(package) is None]
    if missing:
        raise UserError(
            f"{kind} needs {' and '.join(missing)}, which is not installed: pip install {' '.join(missing)}"
        )


def make_sampler(factory: SamplerFactory, study_seed: int, num_trials: int) -> BaseSampler:
    """The sampler of a study that has so many trials already.

    Made anew for a study that is continued, it must not draw its first points again. A low-discrepancy sequence is the
    exception: its place is kept in the storage, and its seed must stay the same.
    """
    target = getattr(factory, "func", factory)
    if isinstance(target, type):
        require_packages(target.__name__)
        if issubclass(target, QMCSampler):
            num_trials = 0
    parameters = inspect.signature(factory).parameters
    takes_seed = "seed" in parameters or any(kind.kind is kind.VAR_KEYWORD for kind in parameters.values())
    with quiet_optuna():
        return factory(seed=sampler_seed(study_seed, num_trials)) if takes_seed else factory()
