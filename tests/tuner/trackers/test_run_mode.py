"""Whether W&B is asked over the network, and where its service may keep its log."""

import os
import stat
from pathlib import Path

import pytest

from tests.wandb_offline import without_account
from tuner.errors import UserError
from tuner.trackers.wandb.run_mode import CACHE_VARIABLE, have_a_cache, resolve_mode
from tuner.trackers.wandb.tracker import WandbTracker

FAKE_KEY = "0123456789" * 4


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_account(monkeypatch, tmp_path)


def test_auto_is_online_with_a_key_and_offline_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_mode("auto") == "offline"
    (tmp_path / "netrc").write_text("machine example.com login user password x\n")
    assert resolve_mode("auto") == "offline"
    (tmp_path / "netrc").write_text(f"machine api.wandb.ai login user password {FAKE_KEY}\n")
    assert resolve_mode("auto") == "online"
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.com")
    assert resolve_mode("auto") == "offline"
    monkeypatch.setenv("WANDB_API_KEY", FAKE_KEY)
    assert resolve_mode("auto") == "online"
    monkeypatch.setenv("WANDB_MODE", "dryrun")
    assert resolve_mode("auto") == "offline"
    assert resolve_mode("disabled") == "disabled"


def test_what_cannot_be_meant_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"^mode=onlin is unknown"):
        WandbTracker(mode="onlin")
    with pytest.raises(UserError, match=r"project='a/b' is no W&B project"):
        WandbTracker(project="a/b")
    with pytest.raises(UserError, match="server_timeout_s=0 must be greater than 0"):
        WandbTracker(server_timeout_s=0)
    monkeypatch.setenv("WANDB_MODE", "sometimes")
    with pytest.raises(UserError, match="WANDB_MODE=sometimes is unknown"):
        WandbTracker()


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (CACHE_VARIABLE, "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "")  # is put back afterwards


@pytest.mark.usefixtures("no_variables")
def test_a_home_that_can_be_written_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    have_a_cache()
    assert os.environ[CACHE_VARIABLE] == ""
    assert (tmp_path / ".cache" / "wandb" / "logs").is_dir()


@pytest.mark.usefixtures("no_variables")
@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME"])
def test_elsewhere_it_is_a_private_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    (tmp_path / "file").touch()  # in which nobody can make a folder, not even root
    monkeypatch.setenv(variable, str(tmp_path / "file"))
    have_a_cache()
    made = Path(os.environ[CACHE_VARIABLE])
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    have_a_cache()
    assert os.environ[CACHE_VARIABLE] == str(made)
    made.rmdir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]
