"""A comparison of candidates as one study, and the plots of it: what OptFinder and ParallelFinder share."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import Count
from tuner.config.section_base import Section
from tuner.errors import UserError
from tuner.finders import plots
from tuner.finders.comparison.candidates import CandidateBudget, CandidateTrial, Metric
from tuner.finders.comparison.verdicts import Comparison, compare
from tuner.finders.finder_study import FinderPlace, FinderRun, Plan, run_plan
from tuner.finders.subjects import ConfiguredSubject, Subject, common_backend
from tuner.trial.messages import JsonDict

_WHAT = {"loss": "mean loss", "frozen_loss": "mean loss on fixed data"}


@dataclass(frozen=True)
class ComparisonSettings(Section):
    """How candidates are compared.

    Attributes:
        budget: How long each trains.
        metric: The score that decides.
        num_seeds: On which each trains; the same ones for all.
        seed: The first of them.
        options: Further arguments of train().
    """

    budget: CandidateBudget
    metric: Metric = "reward"
    num_seeds: int = setting(3, Count())
    seed: int = setting(0, Count(0))
    options: JsonDict | None = None


@dataclass(frozen=True)
class ComparisonResult:
    """Result of a comparison of candidates.

    Attributes:
        comparison: Standings, ties and failures.
        findings: Of every run.
        folder: Of the study.
        rates: Learning rate of each candidate, where it was looked for before.
        about_rates: These in words.
    """

    comparison: Comparison
    findings: tuple[FinderRun, ...]
    folder: Path
    rates: Mapping[str, float] = field(default_factory=dict)
    about_rates: str = ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict in plain words."""
        return (*self.comparison.sentences, *filter(None, [self.about_rates]), *self._cautions())

    def _cautions(self) -> Iterator[str]:
        steps = [one.data["num_gradient_steps"] for one in self.findings if "num_gradient_steps" in one.data]
        if steps and not any(steps):
            yield "No run took a gradient step, so that nothing was learned: train longer, or begin to learn earlier."
        if self.comparison.what == _WHAT["frozen_loss"]:
            yield (
                "How fast a loss on fixed data falls does not say how well the agent learns: compare returns, too "
                "(metric reward)."
            )

    def curves(self, key: str) -> dict[str, list[list[float]]]:
        """Values that each candidate's runs recorded under this name ("rewards", "losses"), by seed."""
        found: dict[str, list[list[float]]] = {}
        for finding in sorted(self.findings, key=lambda one: int(one.point["seed"])):
            if finding.complete:
                found.setdefault(str(finding.point["candidate"]), []).append(finding.data.get(key, []))
        return {name: found[name] for name in self._names if name in found}

    @property
    def _names(self) -> list[str]:
        return [standing.name for standing in self.comparison.standings] + list(self.comparison.failures)


def run_comparison(
    kind: str, title: str, subjects: Mapping[str, Subject], settings: ComparisonSettings, workplace: FinderPlace
) -> ComparisonResult:
    """Runs the study, or what is left of it.

    Args:
        kind: Of the finder.
        title: The comparison in words.
        subjects: The candidates by name.
        settings: How they are compared.
        workplace: Where.

    Raises:
        UserError: Fewer than two candidates, or no run came to a good end.
    """
    if len(subjects) < 2:
        raise UserError(f"there is nothing to compare: {len(subjects)} candidate, at least 2 are needed")
    budget, options = settings.budget, settings.options or {}
    about = {
        "subjects": {name: subject.about for name, subject in subjects.items()},
        "metric": settings.metric,
        "budget": vars(budget),
        "options": {name: str(value) for name, value in options.items()},
    }
    seeds = list(range(settings.seed, settings.seed + settings.num_seeds))
    plan = Plan(
        kind,
        title,
        about,
        {"candidate": list(subjects), "seed": seeds},
        CandidateTrial(subjects, budget, settings.metric, options),
        directions=("maximize",) if settings.metric == "reward" else ("minimize",),
        backend=common_backend(list(subjects.values())),
        seed=settings.seed,
        num_steps=budget.total_steps or budget.episodes or budget.num_gradient_steps,
    )
    folder, findings = run_plan(plan, workplace)
    higher = settings.metric == "reward"
    what = _WHAT.get(settings.metric) or _kind_of_return(subjects, budget)
    comparison = compare(list(subjects), findings, higher_is_better=higher, what=what)
    return ComparisonResult(comparison, tuple(findings), folder)


def _kind_of_return(subjects: Mapping[str, Subject], budget: CandidateBudget) -> str:
    if any(isinstance(subject, ConfiguredSubject) for subject in subjects.values()):
        return "return (half area under the curve, half its end)"
    return "mean return" if budget.total_steps is None else "area under the curve of returns"


def distinct(names: Sequence[str]) -> list[str]:
    """The names, numbered where one stands for several."""
    return [name if names.count(name) == 1 else f"{name} {names[: index + 1].count(name)}"
            for index, name in enumerate(names)]  # fmt: skip


class ComparisonPlots:
    """The plots of a finder that compares.

    Attributes:
        result: Of the last find().
    """

    result: ComparisonResult | None = None

    @property
    def _found(self) -> ComparisonResult:
        if self.result is None:
            raise UserError("nothing was found yet: call find() first")
        return self.result

    def plot_reward(self, sma: int = 1, path: str | os.PathLike[str] | None = None) -> None:
        """Draws the returns of each candidate over its episodes, the mean over seeds.

        Args:
            sma: Episodes of the simple moving average.
            path: File to write; None: a window.
        """
        plots.plot_candidates(self._found.curves("rewards"), "episode", "return", sma, path)

    def plot_loss(self, sma: int = 1, path: str | os.PathLike[str] | None = None) -> None:
        """Draws the losses of each candidate; see `plot_reward`."""
        on_fixed_data = self._found.comparison.what == _WHAT["frozen_loss"]
        axis = "gradient step" if on_fixed_data else "episode"
        plots.plot_candidates(self._found.curves("losses"), axis, "loss", sma, path)

    def plot_scores(self, path: str | os.PathLike[str] | None = None) -> None:
        """Draws the score of each candidate with each seed, the best one and its ties marked."""
        plots.plot_standings(self._found.comparison, path)


def best_log(comparison: Comparison, optimizers: Mapping[str, Any]) -> dict[str, Any]:
    """The manuals' record: the best score, as best_reward or best_loss, and best_opt."""
    best = comparison.best
    log: dict[str, Any] = {"best_reward": -1e9, "best_loss": 1e9, "best_opt": None}
    if best is not None:
        log["best_reward" if comparison.higher_is_better else "best_loss"] = best.score
        log["best_opt"] = optimizers[best.name]
    return log
