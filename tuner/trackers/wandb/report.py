"""A W&B report of a study, over the runs that were tracked online. The only module that knows `wandb_workspaces`."""

import importlib.util
from typing import TYPE_CHECKING

from tuner.errors import UserError
from tuner.results.records import StudySummary
from tuner.results.verdict import verdict
from tuner.trackers.wandb.local import has_key

_LONGEST_TITLE = 128

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
    if importlib.util.find_spec("wandb_workspaces") is None:
        raise UserError(
            "publish=true needs wandb-workspaces, which is not installed: pip install 'note-rl[wandb-report]'"
        )
    if not has_key():
        raise UserError("publish=true needs a W&B account: wandb login, or WANDB_API_KEY; report.html needs neither")
    from tuner.trackers.wandb.sdk import wandb_errors

    try:
        report = build_report(summary, project, entity)
        report.save(draft=True)
    except Exception as error:
        if type(error) is not Exception and not isinstance(error, wandb_errors()):  # it raises plain ones itself
            raise
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UserError(f"W&B did not take the report: {reason}\nThe page has been written all the same.") from error
    return str(report.url)


def build_report(summary: StudySummary, project: str, entity: str | None) -> "Report":
    """The report, not yet sent: the verdict, how the search went, learning curves by stage, parameters."""
    import wandb_workspaces.reports.v2 as wr

    found = verdict(summary)
    details = "\n".join(f"- {detail}" for detail in (*found.details, *summary.notes))
    own = f"Group = '{summary.name}'"
    place = {"project": project, **({"entity": entity} if entity else {})}
    screened = wr.Runset(**place, name="screening", filters=f"{own} and JobType = 'screen'")
    tested = wr.Runset(**place, name="test", filters=f"{own} and JobType = 'test'")
    whole = wr.Runset(**place, name="study", filters=f"{own} and JobType = 'study'")
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
