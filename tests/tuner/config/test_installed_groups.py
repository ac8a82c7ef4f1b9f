"""A package that is installed beside `tuner` adds choices by an entry point; built here in a folder, without pip."""

import json
import logging
import sys
from pathlib import Path

import pytest

from tests.tuner.command_line import SMALL, SMALL_AGENTS, CommandLine, tuner
from tuner.config.composition import compose, conf_folder, config_loader
from tuner.config.installed_groups import GROUP, installed_groups
from tuner.config.trust import admit
from tuner.errors import UserError

__all__ = ["tuner"]

TRACKER = """
from pathlib import Path
class NotesTracker:
    def __init__(self, file_name): self.file_name = file_name
    def start_run(self, info): return Notes(info.folder / self.file_name)
    def close(self, timeout_s=10.0): pass
class Notes:
    def __init__(self, path): self.path = path
    def log(self, step, metrics):
        with self.path.open("a") as file: file.write(f"{step}\\n")
    def finish(self, exit_code=0, summary=None): pass
"""
FILE = (
    "# Notes of each run.\nnotes:\n  _target_: tuner_notes.NotesTracker\n  file_name: notes.txt # in the run's folder\n"
)


def install(place: Path, name: str, value: str, files: dict[str, str]) -> None:
    """The files that pip leaves of a package: its modules, and its metadata beside them."""
    for path, text in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    info = place / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name.partition('-')[2]} = {value}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages that has one: `tuner-notes`."""
    place = tmp_path / "site"
    files = {"tuner_notes/__init__.py": TRACKER, "tuner_notes/conf/tracker/notes.yaml": FILE}
    install(place, "tuner-notes", "tuner_notes.conf", files)
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.delitem(sys.modules, "tuner_notes", raising=False)
    return place


def test_nothing_of_the_package_is_imported_to_find_its_folder(site: Path) -> None:
    (site / "tuner_notes" / "__init__.py").write_text("raise AssertionError('imported')\n")
    (found,) = [one for one in installed_groups(conf_folder()) if one.package == "tuner-notes"]
    assert (found.folder, found.choices) == (site / "tuner_notes" / "conf", ("tracker=notes",))


def test_its_choice_is_used_like_any_other(site: Path, tuner: CommandLine) -> None:
    answer = tuner("train", *SMALL[1:], *SMALL_AGENTS["dqn"], "tracker=[notes,jsonl]", "hydra.run.dir=run")
    assert answer.status == 0, answer.errors
    assert int((tuner.folder / "run" / "notes.txt").read_text().split()[-1]) == 240
    complaint = tuner.refused("train", "tracker=notes", "tracker.notes.fil_name=a")
    assert "unknown key tracker.notes.fil_name" in complaint


def test_it_is_listed(site: Path, tuner: CommandLine) -> None:
    answer = tuner("options", "dqn", "json=true")
    assert json.loads(answer.output)["installed"]["tuner-notes"] == ["tracker=notes"]
    assert "tracker=notes" in tuner("options", "dqn").output
    page = tuner("train", "tracker=notes", "--help").output
    assert "mlflow, notes, tensorboard" in page
    assert "tracker=notes: Notes of each run" in page
    assert "in the run's folder" in page
    assert "notes" in tuner.refused("train", "tracker=note"), "and proposed"


def test_it_changes_no_choice_that_was_there(tmp_path: Path, site: Path) -> None:
    mine = tmp_path / "mine"
    for place in (site / "tuner_notes" / "conf", mine):
        (place / "env").mkdir(parents=True)
    for name in ("cartpole", "own"):
        (site / "tuner_notes" / "conf" / "env" / f"{name}.yaml").write_text("id: Theirs-v0\n")
    (mine / "env" / "own.yaml").write_text("id: Mine-v0\n")
    assert compose(config_loader(), "train", ["env=cartpole"]).env.id == "CartPole-v1"
    assert compose(config_loader(mine), "train", ["env=own"]).env.id == "Mine-v0"
    assert compose(config_loader(), "train", ["env=own"]).env.id == "Theirs-v0"


def test_a_file_of_a_name_that_is_taken_is_left_out_with_a_warning(
    tmp_path: Path, site: Path, tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    more = {"tuner_more/conf/tracker/notes.yaml": FILE, "tuner_more/conf/env/cartpole.yaml": "id: Theirs-v0\n"}
    install(tmp_path / "more", "tuner-zmore", "tuner_more.conf", {**more, "tuner_more/conf/env/own.yaml": "id: A-v0\n"})
    monkeypatch.syspath_prepend(str(tmp_path / "more"))
    told = json.loads(tuner("options", "dqn", "json=true").output)["installed"]
    assert (told["tuner-notes"], told["tuner-zmore"]) == (["tracker=notes"], ["env=own"])
    left_out = [message for message in caplog.messages if "is left out" in message]
    assert [message.partition(":")[0] for message in left_out] == [
        "the installed package tuner-zmore brings env=cartpole, which is a choice of tuner",
        "the installed package tuner-zmore brings tracker=notes, which is a choice of tuner-notes",
    ]


def test_another_application_finds_its_executors(site: Path) -> None:
    from hydra_plugins.tuner_sweeper import ExecutorSource

    source = ExecutorSource("tuner", "tuner://executor")
    assert "theirs" not in source.list("executor", None)
    (site / "tuner_notes" / "conf" / "executor").mkdir()
    (site / "tuner_notes" / "conf" / "executor" / "theirs.yaml").write_text("_target_: tuner_notes.Theirs\n")
    assert {"theirs", "inline"} <= set(source.list("executor", None))
    assert source.load_config("executor/theirs").config == {"_target_": "tuner_notes.Theirs"}


def test_the_run_of_somebody_else_that_names_it_is_asked_about(site: Path) -> None:
    """Arguments of its classes in a stranger's folder, such as an address to send to, were not chosen here."""
    config = {"tracker": {"notes": {"_target_": "tuner_notes.NotesTracker", "file_name": "/etc/somewhere"}}}
    with pytest.raises(UserError, match="trust=tuner_notes"):
        admit(config, "the folder")
    admit(config, "the folder", ["tuner_notes"])
    admit(config, "the folder")


def test_a_package_that_names_no_folder_is_left_out_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    values = {"tuner-gone": "tuner_gone.conf", "tuner-module": "tuner_module", "tuner-odd": "odd:thing"}
    values["tuner-bare"] = "tuner_bare.conf"  # as a package whose build has left out all that is no Python
    for name, value in values.items():
        install(tmp_path, name, value, {"tuner_module.py": "", "tuner_bare/conf/__init__.py": ""})
    monkeypatch.syspath_prepend(str(tmp_path))
    with caplog.at_level(logging.WARNING):
        found = {one.package for one in installed_groups(conf_folder())}
        installed_groups(conf_folder())
    assert not found & values.keys()
    assert sorted(message.split()[3] for message in caplog.messages) == sorted(values), "each once"
    assert compose(config_loader(), "train", []).env.id == "CartPole-v1"
