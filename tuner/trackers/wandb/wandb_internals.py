"""The names of wandb that are no part of its interface, all of them in this file; written for wandb 0.31.

`wandb.Error` is not the base of what its service process raises, and no document lists that. The tests in
`tests/tuner/trackers/test_wandb_internals.py` say for each name what breaks without it.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from wandb_workspaces.reports.v2 import Report


def server_errors() -> tuple[type[Exception], ...]:
    """Exceptions of wandb when the server refuses.

    Raises:
        ImportError: wandb is not installed, or broken.
    """
    from wandb.sdk.lib.service.service_connection import WandbApiFailedError
    from wandb.sdk.mailbox.mailbox_handle import ServerResponseError

    return (WandbApiFailedError, ServerResponseError)


def lost_service_errors() -> tuple[type[Exception], ...]:
    """Exceptions of wandb when its service process has died, or is being ended."""
    from wandb.sdk.lib.asyncio_manager import AlreadyJoinedError, RunCancelledError
    from wandb.sdk.lib.service.service_token import WandbServiceConnectionError
    from wandb.sdk.mailbox import HandleAbandonedError, MailboxClosedError

    return (
        ConnectionError,
        WandbServiceConnectionError,
        HandleAbandonedError,
        MailboxClosedError,
        AlreadyJoinedError,
        RunCancelledError,
    )


def disable_usage_statistics() -> None:
    """Does not send how wandb itself is used: a server that does not answer would hold up the end of the process."""
    with suppress(ImportError):  # inner parts of wandb: they may move
        from wandb.analytics.opentelemetry.opentelemetry_proxy import disable

        disable()


def report_as_json(report: "Report") -> str:
    """Returns a report as W&B keeps it; its library can only send it."""
    return cast(str, report._to_model().model_dump_json(by_alias=True, exclude_none=True, indent=2))
