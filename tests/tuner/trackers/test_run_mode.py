from pathlib import Path

import pytest

from tests.wandb_offline import without_account
from tuner.errors import UserError
from tuner.trackers.wandb.run_mode import resolve_mode
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
