"""How processes end that track with W&B: each test runs a script of its own."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.wandb_offline import without_account

FAKE_KEY = "0123456789" * 4


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_account(monkeypatch, tmp_path)


def run_script(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(folder)],
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_dead_wandb_service_is_one_warning(tmp_path: Path) -> None:
    result = run_script(
        """
        import sys
        from pathlib import Path
        import psutil
        from tuner.trackers.base import RunInfo
        from tuner.trackers.wandb.tracker import WandbTracker

        def kill_services():
            services = [child for child in psutil.Process().children(True) if child.name().startswith("wandb-")]
            for service in services:
                service.kill()
            psutil.wait_procs(services)
            print(len(services), "killed")

        tracker = WandbTracker()
        runs = [tracker.start_run(RunInfo(name, "group", {}, Path(sys.argv[1], name))) for name in "ab"]
        runs[0].log(1, {"loss": 1.0})
        tracker._calls.submit(kill_services)
        for step in range(2, 9):
            runs[0].log(step, {"loss": 1.0})
        for run in runs:
            run.finish()
        tracker.start_run(RunInfo("c", "group", {}, Path(sys.argv[1], "c"))).finish()
        tracker.close(60)
        """,
        tmp_path,
    )
    assert result.returncode == 0
    assert "0 killed" not in result.stdout
    (warning,) = result.stderr.splitlines()
    assert warning.startswith("W&B is off for the rest of this session: ")
    assert "onnection" in warning  # lost, or reset by the peer


def test_the_end_of_the_process_is_quiet_when_nobody_closed(tmp_path: Path) -> None:
    """A server that accepts connections and never answers; the tracker is in the middle of it when the script ends."""
    script = """
        import socket, sys, threading
        from pathlib import Path
        from tuner.trackers.base import RunInfo
        from tuner.trackers.wandb.tracker import WandbTracker

        import os
        server = socket.create_server(("127.0.0.1", 0))
        server.settimeout(60)
        os.environ["WANDB_BASE_URL"] = f"http://127.0.0.1:{server.getsockname()[1]}"
        tracker = WandbTracker(server_timeout_s=2)
        tracker.start_run(RunInfo("a", "b", {}, Path(sys.argv[1]))).log(1, {"x": 1.0})
        server.accept()  # W&B has begun to ask
    """
    result = run_script(script, tmp_path / "run", WANDB_API_KEY=FAKE_KEY)
    assert (result.stdout, result.stderr, result.returncode) == ("", "", 0)


def test_a_service_that_hangs_does_not_hold_up_the_end(tmp_path: Path) -> None:
    result = run_script(
        """
        import sys
        from pathlib import Path
        import psutil
        from tuner.trackers.base import RunInfo
        from tuner.trackers.wandb.tracker import WandbTracker

        tracker = WandbTracker(server_timeout_s=0.5)
        run = tracker.start_run(RunInfo("a", "b", {}, Path(sys.argv[1])))
        run.finish()
        tracker.close(60)
        (service,) = [child for child in psutil.Process().children() if child.name() == "wandb-core"]
        service.suspend()
        """,
        tmp_path / "run",
    )
    assert (result.stdout, result.stderr, result.returncode) == ("", "", 0)
