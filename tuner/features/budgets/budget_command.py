"""`tuner tune study.budgets=[10k,30k,100k]`: a study for each budget, then which of them pays."""

import importlib.util
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from omegaconf import DictConfig
from rich.markup import escape
from rich.text import Text

from tuner.checking.features import typed_again
from tuner.checking.hydra_messages import parse_overrides
from tuner.commands import tune as one_study
from tuner.commands.study_from_config import define
from tuner.commands.study_plan import make_plan
from tuner.config.composition import run_config_of
from tuner.config.typed_command import typed_config_dir, typed_line
from tuner.errors import UserError
from tuner.features.budgets.budget_page import budgets_csv, write_budgets_page
from tuner.features.budgets.budget_points import BudgetPoint, advice, called, compared_budgets, point_of
from tuner.features.budgets.budget_studies import BudgetStudies
from tuner.features.budgets.budget_table import BudgetTable
from tuner.results.csv_text import csv_text
from tuner.results.number_format import join_words
from tuner.runs.config_checks import resolve
from tuner.runs.functions import function_name, is_function
from tuner.study import STOPPED, StudyError, StudyStore, how_it_stopped
from tuner.study.storage.open_storage import IN_MEMORY, check_url, has_studies
from tuner.study.storage.store import DEFINITION
from tuner.support.console import PlainConsole
from tuner.support.help_columns import width_of
from tuner.support.interrupts import EXIT_INTERRUPTED
from tuner.support.text_files import atomic_write
from tuner.trial.messages import JsonDict

CSV_FILE: Final = "budgets.csv"


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses what one of the studies would refuse, before the first one begins."""
    url = str(config.storage.url)
    if url in IN_MEMORY:
        raise UserError("study.budgets keeps several studies, and storage=memory keeps none: choose another storage")
    swept = next((one.input_line for one in parse_overrides(overrides) if one.is_sweep_override()), None)
    if swept is not None:
        raise UserError(f"study.budgets makes several studies already: type a command for each value of {swept}")
    studies = BudgetStudies.of(config, overrides, config_dir)
    made = []
    for place in range(len(studies.steps)):
        typed = studies.typed(place, from_earlier=_began_with_earlier(studies, place, url) is True)
        made.append(studies.composed(typed))
        try:
            one_study.check(made[-1], folder, typed, config_dir)
        except UserError as refusal:
            raise UserError(studies.of_all(place, str(refusal))) from refusal
    _refuse_equal_runs([run_config_of(resolve(one)) for one in made])


def _refuse_equal_runs(configs: Sequence[JsonDict]) -> None:
    """Refuses a function that does not get the number of steps: its runs would be the same with each budget."""
    first, *others = configs
    if others and is_function(first) and all(one["agent"] == first["agent"] for one in others):
        raise UserError(
            f"study.budgets changes training.total_steps, and {function_name(first)} gets no argument that follows it: "
            "all runs would be the same. Give it one, such as '+agent.steps=${training.total_steps}'"
        )


def plan(config: DictConfig, overrides: Sequence[str], config_dir: str | Path | None) -> int:
    """Prints what each study does."""
    studies = BudgetStudies.of(config, overrides, config_dir)
    for place in range(len(studies.steps)):
        typed = studies.typed(place, from_earlier=False)
        composed = studies.composed(typed)
        said = make_plan(define(composed, typed, config_dir), resolve(composed), width_of(sys.stdout))
        PlainConsole().print(Text(f"{said}\n"), soft_wrap=True)
    return 0


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Runs the studies, or what is left of them, and says which budget is worth its steps."""
    del folder  # study.folder says where studies live
    console, config_dir = PlainConsole(), typed_config_dir()
    studies = BudgetStudies.of(config, overrides, config_dir)
    again = typed_line("tune", typed_again(overrides), config_dir)
    points: list[BudgetPoint] = []
    failed: dict[int, StudyError] = {}
    for place, steps in enumerate(studies.steps):
        began = _began_with_earlier(studies, place, str(config.storage.url))
        from_earlier = place - 1 not in failed if began is None else began
        typed = studies.typed(place, from_earlier=from_earlier)
        console.print(f"{steps:,} steps, study {studies.name_of(place)}", style="bold", highlight=False)
        try:
            result = one_study.tune(studies.composed(typed), typed, config_dir=config_dir, console=console)
        except STOPPED as stop:
            console.print(f"{how_it_stopped(stop)}:\n  [bold]{escape(again)}[/bold]", highlight=False, soft_wrap=True)
            return EXIT_INTERRUPTED
        except StudyError as error:
            failed[place] = error
            console.print(escape(f"no result: {error}"), style="yellow", highlight=False, soft_wrap=True)
            continue
        one_study.page_of(result)
        console.print(escape(result.verdict.sentence), highlight=False)
        if (point := point_of(steps, result.summary)) is not None:
            points.append(point)
    _show(compared_budgets(points), studies, again, console)
    if failed:
        without = join_words(f"{studies.steps[place]:,} steps" for place in failed)
        raise UserError(f"{without}: no result, as said above. The same command tries again:\n  {again}")
    return 0


def _began_with_earlier(studies: BudgetStudies, place: int, url: str) -> bool | None:
    """Whether a study began with the best of the one before; None: it has not begun."""
    check_url(url)
    if not has_studies(url):
        return None
    with StudyStore(url) as store:
        begun = store.find(studies.name_of(place))
        about = None if begun is None else begun.user_attrs.get(DEFINITION)
    starts = () if about is None else about.get("warm_start", ())
    return None if about is None else any(str(name).startswith(f"{studies.start_of(place)}/") for name in starts)


def _show(points: Sequence[BudgetPoint], studies: BudgetStudies, command: str, console: PlainConsole) -> None:
    """Prints what each budget comes to, and writes it down."""
    if not points:
        console.print("no study has tested a configuration to its end", highlight=False)
        return
    console.print()
    console.print(BudgetTable(points))
    console.print(escape(advice(points)), highlight=False, soft_wrap=True)
    for point in points:
        if point.pays:
            what = f"{called(point)} with {point.steps:,} steps{f', in {point.where}' if point.where else ''}"
            console.print(
                f"train {escape(what)}:\n  [bold]{escape(point.command)}[/bold]",
                highlight=False,
                soft_wrap=True,
            )
    folder = studies.folder / studies.name
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write(folder / CSV_FILE, csv_text(budgets_csv(points)))
    if importlib.util.find_spec("plotly") is None:
        console.print("for the page: pip install 'note-rl[report]', and the same command again", highlight=False)
        return
    page = write_budgets_page(points, studies.name, command, folder)
    console.print(f"look at everything:\n  [bold]{escape(shlex.quote(str(page)))}[/bold]", soft_wrap=True)
