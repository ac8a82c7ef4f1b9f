"""A population on the report page and in the printed results of a study."""

import shlex
from collections.abc import Container
from pathlib import Path

from tuner.features.population.facts import EVOLVE
from tuner.features.population.figures import replay_figure, tree_figure, value_figures
from tuner.features.population.section import population_section, value_name
from tuner.reporting.features import InReporting
from tuner.reporting.markup import Html
from tuner.results.records import StudySummary
from tuner.trial.folder import CHECKPOINT_FILE
from tuner.trial.messages import JsonDict


def _figures(summary: StudySummary) -> dict[str, JsonDict | None]:
    if not summary.stage(EVOLVE):
        return {}
    values = {value_name(number): drawing for number, drawing in enumerate(value_figures(summary).values())}
    return {"tree-figure": tree_figure(summary), "replay-figure": replay_figure(summary), **values}


def _search(summary: StudySummary, drawings: Container[str]) -> list[Html]:
    return [population_section(summary, drawings)] if summary.stage(EVOLVE) else []


def _watching(summary: StudySummary) -> dict[str, str]:
    folders = [run.folder for run in summary.stage(EVOLVE, summary.winner_label)]
    own = next((folder for folder in folders if (Path(folder) / CHECKPOINT_FILE).is_file()), None)
    return {} if own is None else {"watch the population's own agent": f"tuner play {shlex.quote(own)}"}


PART = InReporting(figures=_figures, search=_search, watching=_watching)
