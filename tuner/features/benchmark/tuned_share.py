"""Sensitivity: the share of tuning that a default configuration leaves on the table, by the studies of a storage.

share = (tuned - default) / (tuned - floor): *default* and *tuned* are interquartile means of the test runs of a study,
tuned the better of default and winner, and *floor* is what its random policy scored. 0: nothing is left, 1: the default
does no better than chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.features.benchmark.entrants import Cell
from tuner.results.features import special
from tuner.results.records import TEST, StudySummary
from tuner.results.statistics import iqm
from tuner.runs.functions import function_name
from tuner.study import StudyStore, home_to_read, summarise
from tuner.study.storage.open_storage import check_url, has_studies


@dataclass(frozen=True)
class TunedShare:
    """Result of a study for an agent in an environment.

    Attributes:
        agent: Of the benchmark.
        env: Of the benchmark.
        study: Name of the study.
        default: Test score of the default configuration.
        tuned: Test score of the winner, or of the default configuration where that is the better one.
        floor: Score of a random policy.
    """

    agent: str
    env: str
    study: str
    default: float
    tuned: float
    floor: float

    @property
    def share(self) -> float:
        """From 0; above 1 where the default is worse than chance."""
        return (self.tuned - self.default) / (self.tuned - self.floor)


def tuned_shares(cells: Sequence[Cell], url: str, metric: str) -> list[TunedShare]:
    """By the finished studies of a storage with the agent, environment, metric and number of steps of a cell.

    Args:
        cells: Of the benchmark; of settings that are compared with the same agent, the first ones.
        url: Of the storage; if it is not there, nothing is known.
        metric: Of the benchmark.
    """
    check_url(url)
    if not has_studies(url):
        return []
    with StudyStore(url) as store:
        found = [summarise(store, name, home_to_read(store, name)) for name in store.names()]
    return shares_of(cells, found, metric)


def shares_of(cells: Sequence[Cell], summaries: Sequence[StudySummary], metric: str) -> list[TunedShare]:
    """By the studies among these that measured a cell.

    Args:
        cells: Of the benchmark.
        summaries: Of studies and sweeps.
        metric: Of the benchmark.
    """
    places = {(cell.agent, cell.env): cell for cell in reversed(cells)}
    known = [
        _share(cell, summary)
        for cell in reversed(places.values())
        for summary in summaries
        if summary.metric == metric and _is_of(cell, summary)
    ]
    return [one for one in known if one is not None]


def _is_of(cell: Cell, summary: StudySummary) -> bool:
    run = cell.run_config
    steps = summary.budget.get("environment steps per run")
    return (
        summary.agent == function_name(run).lower()
        and summary.env_id == run["env"]["id"]
        and steps == run["training"]["total_steps"]
        and not summary.is_sweep
        and not special(summary)
    )


def _share(cell: Cell, summary: StudySummary) -> TunedShare | None:
    scores = [
        [run.score for run in summary.stage(TEST, label) if run.score is not None]
        for label in (summary.default_label, summary.winner_label)
        if label is not None
    ]
    if len(scores) < 2 or not all(scores) or summary.random_score is None:
        return None
    default, winner = (float(iqm(own)) for own in scores)
    tuned = max(default, winner)
    if tuned <= summary.random_score:
        return None
    return TunedShare(cell.agent, cell.env, summary.name, default, tuned, summary.random_score)
