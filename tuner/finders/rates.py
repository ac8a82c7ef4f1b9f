"""The search for a learning rate: its study, and what follows from it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from note_rl.settings import RolloutSettings
from tuner.errors import UserError
from tuner.finders import range_test
from tuner.finders.candidates import Budget, Contest
from tuner.finders.curves import RISE, Points, Suggestion, points_of, rates_of, suggest
from tuner.finders.study import Finding, Measured, Plan, Workplace, run_plan
from tuner.finders.subjects import Subject
from tuner.finders.verdicts import Comparison, compare, counted_seeds
from tuner.names import did_you_mean
from tuner.trial.context import TrialContext
from tuner.trial.messages import JsonDict
from tuner.wording import format_number

Mode: TypeAlias = Literal["auto", "loss", "kl", "return"]
MODES: Final = get_args(Mode)
_ALIASES = {"reward": "return"}
_NUM_COMB: Final = 17
_NUM_RETURN: Final = 7
ONLINE: Final = "online"


@dataclass(frozen=True)
class RateSettings:
    """How a learning rate is searched.

    Attributes:
        mode: loss: the rate rises on frozen data; kl: each rate takes one phase from the same parameters, and how far
            the policy moves is measured; return: whole trainings at a few rates; auto: kl for agents that learn from
            rollouts, else loss.
        start_lr, end_lr: Of the range.
        num_steps: Steps of growth from the one to the other; kl and return try fewer rates.
        num_rates: Rates that kl and return try; None: 17 and 7.
        num_seeds: Each test is done with so many seeds.
        seed: The first of them.
        skip_begin, skip_end: Points left out where the steepest one is looked for.
        episodes, total_steps: Of each training in mode return; in the others `episodes` asks for an ordinary training
            with a rising rate besides, to look at.
        group: Index of the optimizer in a list whose rate is searched; None: all together, in proportion.
        options: Further arguments of train().
    """

    mode: str = "auto"
    start_lr: float = 1e-6
    end_lr: float = 1.0
    num_steps: int = 100
    num_rates: int | None = None
    num_seeds: int = 3
    seed: int = 0
    skip_begin: int = 5
    skip_end: int = 0
    episodes: int | None = None
    total_steps: int | None = None
    group: int | None = None
    options: JsonDict = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuses what makes no range."""
        object.__setattr__(self, "mode", _ALIASES.get(self.mode, self.mode))
        if self.mode not in MODES:
            raise UserError(f"mode={self.mode} is unknown{did_you_mean(self.mode, MODES)}; there is {', '.join(MODES)}")
        if not 0.0 < self.start_lr < self.end_lr < math.inf:
            raise UserError(f"start_lr={self.start_lr:g} must be above 0 and below end_lr={self.end_lr:g}")
        for name, least in (("num_steps", 5), ("num_rates", 3), ("num_seeds", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise UserError(f"{name}={value} must be a whole number, at least {least}")
        Budget(self.episodes, self.total_steps)

    @property
    def seeds(self) -> list[int]:
        """Of the tests."""
        return list(range(self.seed, self.seed + self.num_seeds))


@dataclass(frozen=True)
class RateSearch:
    """What the search for a learning rate came to.

    Attributes:
        mode: Which test was done.
        suggestion: The rate, and the range around it.
        points: Of each seed; empty in mode return.
        curves: What each seed's test measured: rates, losses, in mode kl also kl and ess.
        online: Returns and losses of the ordinary training with a rising rate, if there was one.
        comparison: Of the rates, in mode return.
        folder: Of the study.
        failures: What went wrong in single runs.
    """

    mode: str
    suggestion: Suggestion
    points: tuple[Points, ...]
    curves: tuple[JsonDict, ...]
    online: JsonDict | None
    comparison: Comparison | None
    folder: Path
    failures: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict in plain words."""
        found, failed = self.suggestion, tuple(f"one run failed: {failure}" for failure in self.failures)
        if found.rate is None or found.low is None or found.high is None:
            return (f"No learning rate can be suggested: {found.reason}.", *failed)
        line = (
            f"Learning rate {found.rate:.3g}, to be searched from {found.low:.3g} to {found.high:.3g}: {found.reason}."
        )
        return (line, *failed)


@dataclass(frozen=True)
class _Tests:
    """Called in the process of each run."""

    subject: Subject
    mode: str
    rates: tuple[float, ...]
    online_rates: tuple[float, ...]
    settings: RateSettings

    def __call__(self, context: TrialContext, point: JsonDict) -> Measured:
        test, _, seed = str(point["test"]).partition(" ")
        agent, optimizer = self.subject.build(int(seed))
        context.built({})
        if test == ONLINE:
            assert self.settings.episodes is not None
            length = range_test.Length(self.settings.episodes, context.alive)
            found = range_test.online_ramp(agent, optimizer, self.online_rates, length, self.settings.options)
            return Measured((max(found["rates"], default=self.online_rates[0]),), found)
        tests: dict[str, Callable[..., JsonDict]] = {"loss": range_test.loss_ramp, "kl": range_test.kl_comb}
        found = tests[test](agent, optimizer, self.rates, context.report, self.settings.group)
        found["losses"] = [loss if math.isfinite(loss) else None for loss in found["losses"]]
        found["kl"] = [kl if math.isfinite(kl) else None for kl in found.get("kl", [])]
        found["ess"] = [ess if math.isfinite(ess) else 0.0 for ess in found.get("ess", [])]
        return Measured((_points(self.mode, found, self.settings).stable,), found)


def chosen_mode(asked: str, experience: Any) -> str:
    """The mode that auto stands for: policies that learn from rollouts are measured by how much they change."""
    if asked != "auto":
        return asked
    return "kl" if isinstance(experience, RolloutSettings) else "loss"


def search_rates(subject: Subject, name: str, mode: str, settings: RateSettings, workplace: Workplace) -> RateSearch:
    """Runs the study of a search for a learning rate, or what is left of it.

    Args:
        subject: Whose rate is searched.
        name: Of the subject, for people.
        mode: loss, kl or return.
        settings: How.
        workplace: Where.
    """
    num_rates = {"loss": settings.num_steps + 1, "kl": settings.num_rates or _NUM_COMB}.get(
        mode, settings.num_rates or _NUM_RETURN
    )
    rates = rates_of(settings.start_lr, settings.end_lr, num_rates - 1).tolist()
    if mode == "return":
        return _by_return(subject, name, rates, settings, workplace)
    online = rates_of(settings.start_lr, settings.end_lr, settings.num_steps).tolist()
    tests = [f"{mode} {seed}" for seed in settings.seeds]
    tests += [] if settings.episodes is None else [f"{ONLINE} {settings.seed}"]
    job = _Tests(subject, mode, tuple(rates), tuple(online), settings)
    about = {"subject": subject.about, "mode": mode, "rates": rates, "online": _shown(settings)}
    plan = Plan("lr", name, about, {"test": tests}, job, backend=subject.backend, seed=settings.seed)
    folder, findings = run_plan(plan, workplace)
    done = {str(one.point["test"]): one.data for one in findings if one.complete}
    curves = tuple(done[test] for test in tests if test in done and not test.startswith(ONLINE))
    points = tuple(_points(mode, curve, settings) for curve in curves)
    failures = tuple(f"{one.point['test']}: {one.reason or one.outcome}" for one in findings if not one.complete)
    if not curves:
        raise UserError(f"no range test came to a good end: {'; '.join(failures)}")
    online_found = done.get(f"{ONLINE} {settings.seed}")
    return RateSearch(mode, _suggestion(mode, points, curves), points, curves, online_found, None, folder, failures)


def _shown(settings: RateSettings) -> JsonDict:
    return {"episodes": settings.episodes, "num_steps": settings.num_steps, "group": settings.group,
            "options": {name: str(value) for name, value in settings.options.items()}}  # fmt: skip


def _losses(curve: JsonDict) -> list[float]:
    return [math.nan if loss is None else loss for loss in curve["losses"]]


def _points(mode: str, curve: JsonDict, settings: RateSettings) -> Points:
    """The telling points of one test; the comb has a point after the first rate that breaks the loss."""
    losses = _losses(curve)
    if mode == "kl":
        best, cut = min([curve["before"], *(loss for loss in losses if math.isfinite(loss))]), len(losses)
        for index, loss in enumerate(losses):
            if not loss - best <= RISE * max(abs(best), curve["before"] - best):
                cut = index
                break
        kept = losses[:cut] or losses[:1]
        found = points_of(curve["rates"], kept, settings.skip_begin // 2, settings.skip_end, beta=0.3)
        stable = curve["rates"][max(cut - 1, 0)]
        return Points(stable, cut < len(losses), found.steep, found.valley, found.minimum)
    return points_of(curve["rates"], losses, settings.skip_begin, settings.skip_end)


def _suggestion(mode: str, points: Sequence[Points], curves: Sequence[JsonDict]) -> Suggestion:
    stable = [found.stable for found in points]
    if mode == "loss":
        diverged = sum(found.diverged for found in points)
        reason = (
            f"the loss falls steepest around {_median([one.steep for one in points])} and "
            + (f"is stable up to {_median(stable)}" if diverged else "does not diverge within the range")
            + f" ({counted_seeds(len(points))})"
        )
        return suggest([found.suggestion for found in points], stable, reason)
    at_kl = [range_test.rate_at_kl(one["rates"], [math.inf if kl is None else kl for kl in one["kl"]], one["ess"])
             for one in curves]  # fmt: skip
    found = [_least(kl, point.suggestion) for kl, point in zip(at_kl, points, strict=True)]
    reason = (
        f"a training phase changes the policy by KL {range_test.KL_TARGET} around {_median(at_kl)}, the loss falls "
        f"steepest around {_median([one.steep for one in points])} ({counted_seeds(len(points))})"
    )
    return suggest(found, stable, reason)


def _least(*rates: float | None) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return min(known) if known else None


def _median(rates: Sequence[float | None]) -> str:
    known = sorted(rate for rate in rates if rate is not None)
    return f"{known[len(known) // 2]:.2g}" if known else "no rate"


def _by_return(
    subject: Subject, name: str, rates: list[float], settings: RateSettings, workplace: Workplace
) -> RateSearch:
    """Whole trainings at a few rates, from the same beginnings."""
    job = Contest({name: subject}, Budget(settings.episodes, settings.total_steps), "reward", settings.options)
    about = {"subject": subject.about, "mode": "return", "total_steps": settings.total_steps, **_shown(settings)}
    points: dict[str, Sequence[Any]] = {"learning_rate": rates, "seed": settings.seeds}
    num_steps = settings.total_steps or settings.episodes or 1
    plan = Plan("lr", name, about, points, job, backend=subject.backend, seed=settings.seed, num_steps=num_steps)
    folder, findings = run_plan(plan, workplace)
    named = {f"{rate:.3g}": rate for rate in rates}
    renamed = [
        Finding({"candidate": f"{one.point['learning_rate']:.3g}", "seed": one.point["seed"]}, one.outcome, one.value,
                one.reason, one.seconds, one.folder, one.data)
        for one in findings
    ]  # fmt: skip
    comparison = compare(list(named), renamed)
    failures = tuple(f"{rate}: {why}" for rate, why in comparison.failures.items())
    return RateSearch("return", _best_rate(comparison, named, rates), (), (), None, comparison, folder, failures)


def _best_rate(comparison: Comparison, named: dict[str, float], rates: list[float]) -> Suggestion:
    """The rate of the best returns; the range reaches half a step of the grid over all that are tied with it."""
    best = comparison.best
    if best is None:
        return Suggestion(None, reason="no rate came to the end with every seed")
    tied = [named[name] for name in comparison.tied]
    if len(tied) == len(rates):
        return Suggestion(None, reason="the returns of all rates are tied: train longer, or with more seeds")
    step = math.sqrt(rates[1] / rates[0])
    seeds = counted_seeds(len(comparison.seeds))
    reason = f"the best returns ({format_number(best.score)} over {seeds}), {len(tied)} of {len(rates)} rates tied"
    low, high = (float(f"{rate:.3g}") for rate in (min(tied) / step, max(tied) * step))
    return Suggestion(float(best.name), low, high, reason)
