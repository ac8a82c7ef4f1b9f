"""One test for each private name of wandb: it says what breaks if the name is gone or means something else."""

import json
import threading

import pytest
import wandb
from wandb.analytics.opentelemetry import opentelemetry_proxy

from tuner.trackers.wandb.sdk import wandb_errors
from tuner.trackers.wandb.wandb_internals import (
    disable_usage_statistics,
    lost_service_errors,
    report_as_json,
    server_errors,
)

NAMES = ("WandbServiceConnectionError", "HandleAbandonedError", "MailboxClosedError", "AlreadyJoinedError")


@pytest.mark.parametrize("name", ["ServerResponseError", "WandbApiFailedError"])
def test_server_errors(name: str) -> None:
    """Errors of a server that refuses: without one of them, it ends the study, or a report in a traceback."""
    (found,) = (one for one in server_errors() if one.__name__ == name)
    assert not issubclass(found, wandb.Error), "or it needs no name of its own any more"
    assert found in wandb_errors()


@pytest.mark.parametrize("name", [*NAMES, "RunCancelledError"])
def test_lost_service_errors(name: str) -> None:
    """Errors of a lost service process: without one of them, a study ends when that process is killed."""
    (found,) = (one for one in lost_service_errors() if one.__name__ == name)
    assert issubclass(found, Exception)
    assert not issubclass(found, (wandb.Error, ConnectionError)), "or it needs no name of its own any more"
    assert found in wandb_errors()


def test_disable_usage_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    """opentelemetry_proxy.disable: without it, a server that does not answer holds up the end of the process."""
    monkeypatch.setattr(opentelemetry_proxy, "_disabled", threading.Event())
    disable_usage_statistics()
    assert opentelemetry_proxy._disabled.is_set()


def test_report_as_json() -> None:
    """Report._to_model: without it, a report cannot be written into a file."""
    import wandb_workspaces.reports.v2 as reports

    title = json.loads(report_as_json(reports.Report(project="p", entity="", title="a study")))["displayName"]
    assert title == "a study"
