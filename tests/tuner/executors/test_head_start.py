"""An executor that is begun while its command is still checked."""

from collections.abc import Iterator
from typing import Any

import pytest
from psutil import pid_exists

from tests.tuner.command_line import SMALL, CommandLine
from tuner.executors import head_start
from tuner.executors.executor_factory import make_executor
from tuner.executors.local import LocalExecutor

LOCAL = {"_target_": "tuner.executors.local.LocalExecutor", "parallel": 1, "backend": None}


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    head_start.end()


def begin(**settings: Any) -> int:
    """The number of the fork server's process."""
    head_start.begin({**LOCAL, **settings})
    pid = head_start._begun[0].executor.server_pid
    assert pid is not None
    return pid


def server_of(node: dict[str, Any]) -> int | None:
    with make_executor(node) as executor:
        assert isinstance(executor, LocalExecutor)
        return executor.server_pid


def test_the_one_that_was_begun_is_handed_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pid = begin()
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")  # as it is within a job
    assert server_of(LOCAL) == pid
    assert not pid_exists(pid), "it is closed by whom it was handed out to"
    assert server_of(LOCAL) is None, "another one, whose server is started with its first trial"


@pytest.mark.parametrize("change", ["settings", "variables", "modules"])
def test_another_one_is_made_where_something_has_changed(monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    pid = begin()
    if change == "variables":
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    if change == "modules":
        monkeypatch.syspath_prepend("elsewhere")
    assert server_of({**LOCAL, "parallel": 2} if change == "settings" else LOCAL) is None
    assert pid_exists(pid)
    head_start.end()
    assert not pid_exists(pid)


def test_only_executors_of_this_machine_are_begun() -> None:
    head_start.begin({"_target_": "tuner.executors.inline.InlineExecutor"})
    assert head_start._begun == []


def test_a_command_that_is_refused_leaves_nothing_running(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int | None] = []
    warm_up = LocalExecutor.warm_up

    def noted(executor: LocalExecutor) -> None:
        warm_up(executor)
        pids.append(executor.server_pid)

    monkeypatch.setattr(LocalExecutor, "warm_up", noted)
    assert "there is no study in this storage yet" in tuner.refused("tune", *SMALL, "warm_start=study:earlier")
    (pid,) = pids
    assert pid is not None
    assert not pid_exists(pid)
