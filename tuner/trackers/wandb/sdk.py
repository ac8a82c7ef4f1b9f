"""Data for `wandb`, and its errors: settings of a run, its tables, the exceptions it raises."""

import logging
from typing import TYPE_CHECKING

from tuner.support.plain_text import printable_copy
from tuner.trackers.base import Table
from tuner.trackers.wandb.wandb_internals import lost_service_errors, server_errors

if TYPE_CHECKING:
    import wandb

logger = logging.getLogger(__name__)


def run_settings(timeout_s: float, sweep_id: str | None = None) -> "wandb.Settings":
    """Quiet, without the user's code, console or git, and bounded in time; a part of a sweep of W&B's, if any."""
    import wandb

    return wandb.Settings(
        console="off",
        silent=True,
        disable_code=True,
        save_code=False,
        disable_git=True,
        symlink=False,  # `latest-run` links mean nothing with several runs open
        x_save_requirements=False,
        init_timeout=timeout_s,
        finish_timeout=timeout_s,
        sweep_id=sweep_id,
        finish_timeout_raises=True,
        # By default the stop button of one run's page would interrupt the whole study.
        stop_fn=lambda: logger.info("the stop button of W&B does not stop a run of a study"),
    )


def table_of(table: Table) -> "wandb.Table":
    """A table of ours as W&B's; a column may hold numbers and texts."""
    import wandb

    rows = printable_copy([list(row) for row in table.rows])
    return wandb.Table(columns=list(table.columns), data=rows, allow_mixed_types=True)


def wandb_errors() -> tuple[type[Exception], ...]:
    """Exceptions of wandb when it, its service process, the server, the disk or an argument is at fault."""
    try:
        import wandb

        of_server = server_errors()
    except ImportError:  # it is not installed, or broken
        return (ImportError,)
    return (wandb.Error, *of_server, OSError, ValueError, TypeError, *lost_service_errors())
