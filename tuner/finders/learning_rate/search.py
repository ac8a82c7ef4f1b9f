"""The search for a learning rate: its study, and what follows from it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from note_rl.learners.declarations import check_loss, has_loss
from note_rl.settings import RolloutSettings
from tuner.errors import UserError
from tuner.finders.comparison.candidates import CandidateBudget, CandidateTrial
from tuner.finders.comparison.verdicts import Comparison, compare, counted_seeds
from tuner.finders.finder_study import FinderPlace, FinderRun, Plan, run_plan
from tuner.finders.learning_rate import range_test
from tuner.finders.learning_rate.loss_curves import Points, Suggestion, rates_of, suggest
from tuner.finders.learning_rate.tests import ONLINE, RangeTests, RateSettings, points_in
from tuner.finders.subjects import Subject
from tuner.results.number_format import format_number
from tuner.trial.messages import JsonDict

_NUM_COMB: Final = 17
_NUM_RETURN: Final = 7


@dataclass(frozen=True)
class RateSearch:
    """Result of the search for a learning rate.

    Attributes:
        mode: Which test was done.
        suggestion: The rate, and the range around it.
        points: Of each seed; empty in mode return.
        curves: Measurements of each seed's test: rates, losses, in mode kl also kl and ess.
        online: Returns and losses of the ordinary training with a rising rate, if there was one.
        comparison: Of the rates, in mode return.
        folder: Of the study.
        failures: Failures of single runs.
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


def chosen_mode(asked: str, experience: Any, kind: type, has_memory: bool = False) -> str:
    """The mode that auto stands for: policies that learn from rollouts are measured by how much they change.

    Args:
        asked: auto, or a mode.
        experience: Settings.
        kind: Class of the agent. One that has no loss is measured by its returns, one that searches ahead by its loss.
        has_memory: Whether its network has one: probabilities of its actions are known within whole sequences only.

    Raises:
        AgentContractError: Such an agent is to be measured by its loss.
        UserError: The change of a policy with a memory is to be measured, or of one that searches ahead.
    """
    if asked == "kl" and has_memory:
        raise UserError(
            "finder.mode=kl (metrics) compares the probabilities of single actions, which an agent with a memory has "
            "within whole sequences only: use loss"
        )
    searches = getattr(kind, "searches_ahead", False)
    if asked == "kl" and searches:
        raise UserError(
            f"finder.mode=kl (metrics) compares the probabilities of actions before and after a step of training, and "
            f"those of {kind.__name__} are the visits of a search, not those of its network: use loss"
        )
    if asked in ("loss", "kl"):
        check_loss(kind)
    if asked != "auto":
        return asked
    if not has_loss(kind):
        return "return"
    return "kl" if isinstance(experience, RolloutSettings) and not (has_memory or searches) else "loss"


AtRate = Callable[[float], Subject]
"""The subject that begins to train at this rate, its schedule (if any) in proportion."""


def search_rates(
    subject: Subject, at_rate: AtRate, name: str, mode: str, settings: RateSettings, workplace: FinderPlace
) -> RateSearch:
    """Runs the study of a search for a learning rate, or what is left of it.

    Args:
        subject: Whose rate is searched.
        at_rate: Makes the subject that trains at a rate.
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
        return _by_return({str(rate): at_rate(rate) for rate in rates}, name, rates, settings, workplace)
    online = rates_of(settings.start_lr, settings.end_lr, settings.num_steps).tolist()
    tests = [f"{mode} {seed}" for seed in settings.seeds]
    tests += [] if settings.episodes is None else [f"{ONLINE} {settings.seed}"]
    job = RangeTests(subject, mode, tuple(rates), tuple(online), settings)
    about = {"subject": subject.about, "mode": mode, "rates": rates, "online": _shown(settings)}
    plan = Plan("lr", name, about, {"test": tests}, job, backend=subject.backend, seed=settings.seed)
    folder, findings = run_plan(plan, workplace)
    done = {str(one.point["test"]): one.data for one in findings if one.complete}
    curves = tuple(done[test] for test in tests if test in done and not test.startswith(ONLINE))
    points = tuple(points_in(mode, curve, settings) for curve in curves)
    failures = tuple(f"{one.point['test']}: {one.reason or one.outcome}" for one in findings if not one.complete)
    if not curves:
        raise UserError(f"no range test came to a good end: {'; '.join(failures)}")
    online_found = done.get(f"{ONLINE} {settings.seed}")
    return RateSearch(mode, _suggestion(mode, points, curves), points, curves, online_found, None, folder, failures)


def _shown(settings: RateSettings) -> JsonDict:
    return {"episodes": settings.episodes, "num_steps": settings.num_steps, "group": settings.group,
            "options": {name: str(value) for name, value in settings.options.items()}}  # fmt: skip


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
    subjects: Mapping[str, Subject], name: str, rates: list[float], settings: RateSettings, workplace: FinderPlace
) -> RateSearch:
    """Whole trainings at a few rates, from the same beginnings."""
    budget, first = CandidateBudget(settings.episodes, settings.total_steps), subjects[str(rates[0])]
    job = CandidateTrial(subjects, budget, "reward", settings.options, key="learning_rate")
    about = {"subject": first.about, "mode": "return", "total_steps": settings.total_steps, **_shown(settings)}
    points: dict[str, Sequence[Any]] = {"learning_rate": rates, "seed": settings.seeds}
    num_steps = settings.total_steps or settings.episodes or 1
    plan = Plan("lr", name, about, points, job, backend=first.backend, seed=settings.seed, num_steps=num_steps)
    folder, findings = run_plan(plan, workplace)
    named = {f"{rate:.3g}": rate for rate in rates}
    renamed = [
        FinderRun({"candidate": f"{one.point['learning_rate']:.3g}", "seed": one.point["seed"]}, one.outcome, one.value,
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
