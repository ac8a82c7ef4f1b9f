"""Making Optuna's samplers and pruners: what they need to be installed, and how they are seeded."""

import importlib.util
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, Final

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import BasePruner, HyperbandPruner
from optuna.samplers import BaseSampler, BruteForceSampler, CmaEsSampler, GridSampler, QMCSampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tuner.errors import UserError
from tuner.results.protocol import sampler_seed
from tuner.results.records import Scalar
from tuner.study.optuna_internals import (
    min_resource,
    num_grid_points,
    pass_over_undrawn,
    random_states,
    restore_with,
    samplers_within,
)
from tuner.study.sampling.cma import load_state
from tuner.study.space.drawn_points import near
from tuner.study.space.space import Space
from tuner.study.storage.store import quiet_optuna

SamplerFactory = Callable[..., BaseSampler]
"""A sampler class or a partial of one; called with `seed=` if it takes one."""

_LARGEST_GRID = 100_000
"""Points; Optuna keeps all of them in memory and in the storage."""

_FEWEST_TO_COMPARE = 2
"""Complete trials besides the first one, before it is judged by them."""

_MOST_DRAWS = 100
"""Near expected values, before a trial is left to the sampler: where few values are searched, they repeat."""

_NEEDED = {
    "GPSampler": ("scipy", "torch"),
    "QMCSampler": ("scipy",),
    "CmaEsSampler": ("cmaes",),
    "WilcoxonPruner": ("scipy",),
}
"""Packages that Optuna imports late, when some trials have been run already."""


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


def make_sampler(factory: SamplerFactory, study_seed: int, num_trials: int, space: Space | None) -> "SeededByTrial":
    """The sampler of a study that has a number of trials already.

    Made anew for a study that is continued, it must not draw its first points again. Low-discrepancy sequences and
    grids are the exception: their place is kept in the storage, and their seed must stay the same.

    Args:
        factory: Called with `seed` and `space`, where it takes these.
        study_seed: Root of all randomness of the study.
        num_trials: Trials there are.
        space: The search space; None: known to be walkable.

    Raises:
        UserError: A package is missing, or the sampler cannot walk through this space.
    """
    target = getattr(factory, "func", factory)
    if target is grid:
        num_trials = 0
    if isinstance(target, type):
        require_packages(target.__name__)
        if issubclass(target, QMCSampler | GridSampler):
            num_trials = 0
        if space is not None and issubclass(target, BruteForceSampler):
            _require_finite(space)
    parameters = inspect.signature(factory).parameters
    given: dict[str, object] = {}
    if "seed" in parameters or any(kind.kind is kind.VAR_KEYWORD for kind in parameters.values()):
        given["seed"] = sampler_seed(study_seed, num_trials)
    if "space" in parameters:
        given["space"] = space
    try:
        with quiet_optuna():
            sampler = factory(**given)
    except (TypeError, ValueError) as error:
        raise UserError(f"sampler ({getattr(target, '__name__', target)}) cannot be built: {error}") from error
    if not isinstance(sampler, BaseSampler):
        raise UserError(f"sampler builds {type(sampler).__name__}, which is no sampler of Optuna's: choose sampler=tpe")
    mend(sampler)
    expected = {} if space is None else _expected(space)
    if expected and isinstance(sampler, GridSampler | BruteForceSampler):
        raise UserError(f"{type(sampler).__name__} tries every point, so a prior changes nothing: leave prior out")
    return SeededByTrial(sampler, study_seed, expected, space)


def _expected(space: Space) -> dict[str, Scalar]:
    """The points that are expected to be good, by Optuna's name."""
    return {one.name: one.prior for one in space.parameters if one.has_prior}


def mend(sampler: BaseSampler) -> None:
    """Changes what some samplers of Optuna's do otherwise than a study needs, also within other samplers."""
    for one in samplers_within(sampler):
        if isinstance(one, CmaEsSampler):
            restore_with(one, load_state)
        if isinstance(one, BruteForceSampler):
            pass_over_undrawn(one)


class SeededByTrial(BaseSampler):
    """A sampler, seeded anew for each trial, and for each parameter that it draws on its own.

    What is proposed then follows from the seed, the number of the trial and the results that are known, and not from
    how often and where the study was stopped, be it between two trials or while one was being entered.

    Of the first trials, in which parameters are drawn on their own, every second one draws near the values that are
    expected to be good, as long as the trial with these values, the first one, is in the better half. Later trials go
    by results alone, so a wrong expectation is left behind.

    Args:
        inner: Optuna's sampler.
        study_seed: Root of all randomness of the study.
        expected: By name, the points that are expected to be good.
        space: What is searched: a draw near these points that repeats an earlier trial is drawn again.

    Attributes:
        inner: Optuna's sampler.
        before_end: Called with each trial that is about to be closed.
    """

    NUM_NEAR_PRIORS: Final = 10

    def __init__(
        self,
        inner: BaseSampler,
        study_seed: int,
        expected: Mapping[str, Scalar] | None = None,
        space: Space | None = None,
    ) -> None:
        self.inner = inner
        self._expected, self._space = expected or {}, space
        self._draws: dict[int, int | None] = {}  # which draw near the expected values the first trials take
        self.before_end: list[Callable[[FrozenTrial], object]] = []
        self._study_seed = study_seed
        self._states = random_states(inner)

    def __str__(self) -> str:
        return str(self.inner)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """As the sampler does."""
        return self.inner.infer_relative_search_space(study, trial)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Seeds, and prepares a trial."""
        self._reseed(trial.number)
        self.inner.before_trial(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Seeds, and draws what is drawn together."""
        self._reseed(trial.number)
        return self.inner.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Seeds by the parameter, and draws it."""
        is_near = trial.number < self.NUM_NEAR_PRIORS and trial.number % 2 == 0
        if param_name in self._expected and is_near:
            if trial.number not in self._draws:
                self._draws[trial.number] = self._new_draw(study, trial.number) if _is_borne_out(study) else None
            if (draw := self._draws[trial.number]) is not None:
                return self._near(param_name, param_distribution, trial.number, draw)
        self._reseed(trial.number, param_name)
        return self.inner.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """As the sampler does, once all is known of the trial."""
        for call in self.before_end:
            call(trial)
        self.inner.after_trial(study, trial, state, values)

    def reseed_rng(self) -> None:
        """As the sampler does."""
        self.inner.reseed_rng()

    def _near(self, name: str, distribution: BaseDistribution, number: int, draw: int) -> Scalar:
        seed = sampler_seed(self._study_seed, number, f"{name}, draw {draw + 1}" if draw else name)
        return near(distribution, self._expected[name], np.random.default_rng(seed))

    def _new_draw(self, study: Study, number: int) -> int | None:
        """The first draw that is no earlier trial once more; None: all values near by were tried."""
        if self._space is None:
            return 0
        earlier = [one.params for one in study.get_trials(deepcopy=False) if one.number < number]
        for draw in range(_MOST_DRAWS):
            try:
                point = self._space.draw(lambda name, one, draw=draw: self._near(name, one, number, draw))  # type: ignore[misc]
            except KeyError:  # something else is searched, too, and the sampler draws it
                return draw
            if point not in earlier:
                return draw
        return None

    def _reseed(self, number: int, name: str = "") -> None:
        for state in self._states:
            state.seed(sampler_seed(self._study_seed, number, name))


def _is_borne_out(study: Study) -> bool:
    """Whether the first trial is in the better half so far, or that is not known yet."""
    ended = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL))
    first = next((one for one in ended if one.number == 0), None)
    others = [one.value for one in ended if one.number != 0 and one.state is TrialState.COMPLETE and one.values]
    if first is None or len(study.directions) > 1 or len(others) < _FEWEST_TO_COMPARE:
        return True
    if first.state is not TrialState.COMPLETE or first.value is None:
        return False
    sign = 1.0 if study.direction is StudyDirection.MAXIMIZE else -1.0
    return sign * first.value >= median(sign * value for value in others if value is not None)


def require_objectives(factory: SamplerFactory, num_objectives: int) -> None:
    """Refuses a sampler that cannot search for this number of objectives.

    Raises:
        UserError: Names some that can.
    """
    kind = getattr(factory, "func", factory)
    if num_objectives > 1 and isinstance(kind, type) and issubclass(kind, CmaEsSampler):
        raise UserError(f"{kind.__name__} knows one objective only; for several choose tpe, random, gp or nsga2")


def require_pruner(made: object) -> BasePruner:
    """The object, if it is a pruner of Optuna's.

    Raises:
        UserError: It is something else.
    """
    if not isinstance(made, BasePruner):
        raise UserError(f"pruner builds {type(made).__name__}, which is no pruner of Optuna's: choose pruner=median")
    if isinstance(made, HyperbandPruner) and min_resource(made) < 1:  # it would find out at the first report
        raise UserError(f"pruner.min_resource={min_resource(made)} must be at least 1")
    return made


def grid(space: Space, num_points: int = 3, seed: int | None = None) -> GridSampler:
    """A grid over the space: every choice, every step of a stepped range, and a number of points of any other range.

    Args:
        space: The search space.
        num_points: Of a range without steps, evenly on its own scale, both ends included.
        seed: Of the order in which points are taken.

    Raises:
        UserError: Fewer than 2 points, or a parameter that is there only sometimes.
    """
    if num_points < 2:
        raise UserError(f"sampler.num_points={num_points} must be at least 2: both ends of a range are on the grid")
    conditional = [parameter.path for parameter in space.parameters if parameter.when]
    if conditional:
        raise UserError(
            f"sampler=grid cannot walk through {conditional[0]}, which has a `when`: use brute_force or tpe"
        )
    counts = [_count(parameter.distribution, num_points) for parameter in space.parameters]
    if math.prod(counts) > _LARGEST_GRID:
        raise UserError(
            f"sampler.num_points={num_points} makes a grid of {math.prod(counts):.3g} points over {len(counts)} "
            f"parameters, more than {_LARGEST_GRID:,}: take fewer points, search fewer parameters, or use sampler=qmc"
        )
    points = {parameter.name: list(_points(parameter.distribution, num_points)) for parameter in space.parameters}
    return GridSampler(points, seed=seed)


def num_distinct(sampler: BaseSampler, space: Space) -> int | None:
    """How many trials there are before a sampler would repeat itself; None if there is no end to them."""
    if isinstance(sampler, SeededByTrial):
        sampler = sampler.inner
    if isinstance(sampler, GridSampler):
        return num_grid_points(sampler)
    if isinstance(sampler, BruteForceSampler) and not any(parameter.when for parameter in space.parameters):
        return math.prod(len(list(_points(parameter.distribution, 0))) for parameter in space.parameters)
    return None


def _count(distribution: BaseDistribution, num_points: int) -> int:
    """How many points `_points` gives, at most."""
    if isinstance(distribution, CategoricalDistribution):
        return len(distribution.choices)
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high, step = distribution.low, distribution.high, distribution.step
    steps = math.inf if step is None else round((high - low) / step) + 1
    is_free = step is None or (isinstance(distribution, IntDistribution) and step == 1)
    return int(min(num_points, steps) if is_free else steps)


def _points(distribution: BaseDistribution, num_points: int) -> Iterator[Any]:
    """All points of a distribution with a given or a finite number of them."""
    if isinstance(distribution, CategoricalDistribution):
        yield from distribution.choices
        return
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high, step = distribution.low, distribution.high, distribution.step
    is_whole = isinstance(distribution, IntDistribution)
    stepped = step is not None and not (is_whole and step == 1 and 0 < num_points < high - low + 1)
    if stepped:
        assert step is not None
        yield from (low + index * step for index in range(round((high - low) / step) + 1))
        return
    spaced = np.geomspace(low, high, num_points) if distribution.log else np.linspace(low, high, num_points)
    values = np.clip(spaced, low, high).tolist()
    yield from dict.fromkeys(map(round, values)) if is_whole else values


def _require_finite(space: Space) -> None:
    for parameter in space.parameters:
        distribution = parameter.distribution
        if isinstance(distribution, FloatDistribution) and distribution.step is None:
            raise UserError(
                f"sampler=brute_force tries every value, and space.{parameter.path} has no end of them: "
                "give it a step or choices, or use sampler=grid"
            )
