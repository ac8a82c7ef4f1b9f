"""A W&B report of a study, sent or as a file, over its tracked runs. The only module that knows `wandb_workspaces`."""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tuner.errors import UserError
from tuner.results.records import StudySummary
from tuner.results.verdict import verdict
from tuner.support.text_files import atomic_write
from tuner.trackers.wandb.run_mode import has_key
from tuner.trackers.wandb.wandb_internals import report_as_json

REPORT_FILE: Final = "report_wandb.json"

_LONGEST_TITLE: Final = 128

if TYPE_CHECKING:
    from wandb_workspaces.reports.v2 import Report


def publish_report(summary: StudySummary, project: str, entity: str | None = None) -> str:
    """Writes a report into a W&B project; each call makes a new one, as a draft that its owner can share.

    Args:
        summary: Of the study.
        project: That its runs were sent to.
        entity: User or team; None: that of the key.

    Returns:
        Its address.

    Raises:
        UserError: `wandb-workspaces` is not installed, or W&B does not take the report.
    """
    _require_package("true")
    if not has_key():
        raise UserError("publish=true needs a W&B account: wandb login, or WANDB_API_KEY; report.html needs neither")
    from tuner.trackers.wandb.sdk import wandb_errors
    from tuner.trackers.wandb.wandb_internals import disable_usage_statistics

    disable_usage_statistics()
    try:
        report = build_report(summary, project, entity)
        report.save(draft=True)
    except Exception as error:
        if type(error) is not Exception and not isinstance(error, wandb_errors()):  # it raises plain ones itself
            raise
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UserError(f"W&B did not take the report: {reason}\nThe page has been written all the same.") from error
    return str(report.url)


def write_report(summary: StudySummary, project: str, entity: str | None, folder: Path) -> Path:
    """Writes the report as W&B keeps it into a file; neither an account nor a server is needed.

    Args:
        summary: Of the study.
        project: That its runs are in, or will be.
        entity: User or team; None: that of the key that it is sent with.
        folder: Of the study; a file of an earlier report is replaced.

    Returns:
        The path of the file.

    Raises:
        UserError: `wandb-workspaces` is not installed, or the folder cannot be written.
    """
    _require_package("file")
    report = build_report(summary, project, entity or "", look_up=False)
    text = report_as_json(report)
    try:
        atomic_write(folder / REPORT_FILE, text + "\n")
    except OSError as error:
        raise UserError(f"the report for W&B cannot be written to {folder}: {error.strerror}") from error
    return folder / REPORT_FILE


def _require_package(publish: str) -> None:
    if importlib.util.find_spec("wandb_workspaces") is None:
        raise UserError(
            f"publish={publish} needs wandb-workspaces, which is not installed: pip install 'note-rl[wandb-report]'"
        )


def build_report(summary: StudySummary, project: str, entity: str | None, *, look_up: bool = True) -> "Report":
    """The report, not yet sent: the verdict, how the search went, learning curves by stage, parameters.

    Args:
        summary: Of the study.
        project: That its runs are in.
        entity: User or team; None: W&B is asked whose the key is.
        look_up: Whether W&B is asked for the project of the runs, where there is an entity; a report whose sets of runs
            have none is over those of its own project.
    """
    import wandb_workspaces.reports.v2 as wr

    found = verdict(summary)
    details = "\n".join(f"- {detail}" for detail in (*found.details, *summary.notes))
    own = f"Group = '{summary.name}'"
    place = {"project": project} if entity is None else {"project": project, "entity": entity}
    source = place if look_up else {}
    screened = wr.Runset(**source, name="screening", filters=f"{own} and JobType = 'screen'")
    tested = wr.Runset(**source, name="test", filters=f"{own} and JobType = 'test'")
    whole = wr.Runset(**source, name="study", filters=f"{own} and JobType = 'study'")
    columns = [wr.ParallelCoordinatesPlotColumn(metric=wr.Config(path)) for path in summary.importances]
    score = wr.ParallelCoordinatesPlotColumn(metric=wr.SummaryMetric("value"))
    best = wr.LinePlot(title="best screening score", y=["study/best_screening_score"])
    curves = wr.LinePlot(title="learning curves", y=["report/value"])
    blocks = [
        wr.P(found.sentence),
        *([wr.MarkdownBlock(details)] if details else []),
        wr.PanelGrid(runsets=[whole], panels=[best]),
        wr.H2("Screening"),
        wr.PanelGrid(runsets=[screened], panels=[curves, wr.ParallelCoordinatesPlot(columns=[*columns, score])]),
        wr.H2("Test seeds"),
        wr.PanelGrid(runsets=[tested], panels=[curves]),
        *([wr.H2("Train it again"), wr.CodeBlock(code=summary.retrain_command)] if summary.retrain_command else []),
    ]
    return wr.Report(**place, title=f"Study {summary.name}"[:_LONGEST_TITLE], description=found.sentence, blocks=blocks)
