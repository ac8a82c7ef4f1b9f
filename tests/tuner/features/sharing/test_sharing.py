"""An agent that is packed acts as before where it is unpacked; other archives are refused and leave nothing."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import yaml

import tuner as api
from tests.tuner.command_line import SMALL, SMALL_AGENTS, SMALL_STUDY, CommandLine
from tuner.errors import UserError
from tuner.features.sharing import agent_archive
from tuner.features.sharing.agent_archive import DIGESTS_FILE, FILES, pack, unpack

OBSERVATIONS = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """An archive of files that are no agent."""
    folder = tmp_path / "made"
    folder.mkdir()
    for name in FILES:
        (folder / name).write_text(f"{name} {'x' * 100}")
    pack(folder, tmp_path / "a.zip")
    return tmp_path / "a.zip"


def rewritten(source: Path, **changes: str | None) -> Path:
    """The archive with other contents of some files; None: without the file."""
    target = source.with_name("other.zip")
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, "w") as after:
        kept = {one.filename: before.read(one) for one in before.infolist()}
        for name, text in {**kept, **{name.replace("__", "."): text for name, text in changes.items()}}.items():
            if text is not None:
                after.writestr(name, text)
    return target


@pytest.mark.parametrize("framework", ["torch", "keras"])
def test_an_agent_acts_as_before(tuner: CommandLine, framework: str) -> None:
    words = (*SMALL_AGENTS["dqn"], *SMALL, f"backend={framework}", "hydra.run.dir=runs/mine", "tracker=jsonl")
    assert tuner("train", *words).status == 0
    answer = tuner("push", "runs/mine")
    assert answer.status == 0, answer
    assert "tuner pull mine.zip" in answer.output
    answer = tuner("pull", "mine.zip", "folder=theirs/dqn")
    assert answer.status == 0, answer
    assert "Trained for 240 environment steps." in answer.output
    before, after = (api.load_agent(place).predict(OBSERVATIONS)[0] for place in ("runs/mine", "theirs/dqn"))
    np.testing.assert_array_equal(before, after)
    kept = yaml.safe_load((tuner.folder / "theirs" / "dqn" / "config.yaml").read_text())
    assert kept["tracker"] == {}
    assert "mine.zip is there already" in tuner.refused("push", "runs/mine")
    sizes = [(tuner.folder / place / "checkpoint.safetensors").stat().st_size for place in ("runs/mine", "theirs/dqn")]
    assert sizes[1] < sizes[0]  # without the replay buffer
    assert tuner("play", "theirs/dqn", "num_episodes=1", "gif=null").status == 0


def test_a_study_is_packed_with_its_verdict(tuner: CommandLine) -> None:
    assert tuner("tune", *SMALL_AGENTS["dqn"], *SMALL, *SMALL_STUDY, "study.name=s").status == 0
    answer = tuner("push", "s", "file=winner.zip", "weights=best")
    assert answer.status == 0, answer
    answer = tuner("pull", "winner.zip")
    assert answer.status == 0, answer
    assert "test IQM" in answer.output
    assert "tuner train " in answer.output
    assert (tuner.folder / "runs" / "winner" / "config.yaml").is_file()


def test_the_same_files_make_the_same_archive(packed: Path) -> None:
    again = packed.with_name("b.zip")
    pack(packed.parent / "made", again)
    assert again.read_bytes() == packed.read_bytes()
    assert [path.name for path in packed.parent.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"config__yaml": "agent: {}"}, "config.yaml is not the file that was packed"),
        ({"checkpoint__safetensors": None}, "it has no checkpoint.safetensors"),
        ({"evil__py": "x"}, "it holds 'evil.py'"),
        ({"../evil": "x"}, r"it holds '\.\./evil'"),
        ({"digests__json": "[]"}, "holds no digests"),
        ({"digests__json": "{"}, "cannot be read"),
    ],
)
def test_other_archives_are_refused(packed: Path, changes: dict[str, str | None], why: str) -> None:
    folder = packed.parent / "runs" / "theirs"
    with pytest.raises(UserError, match=why):
        unpack(rewritten(packed, **changes), folder)
    assert not folder.exists()
    assert list(folder.parent.iterdir()) == []
    assert not (packed.parent / "evil").exists()


def test_a_damaged_archive_and_one_that_is_too_large_are_refused(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = packed.parent / "theirs"
    kept = packed.read_bytes()
    place = kept.index(b"\x00config.yaml") if b"\x00config.yaml" in kept else kept.index(b"config.yaml")
    changed = packed.with_name("changed.zip")
    changed.write_bytes(
        kept[: place + 16] + bytes(255 - one for one in kept[place + 16 : place + 40]) + kept[place + 40 :]
    )
    with pytest.raises(UserError, match=r"damaged|no archive"):
        unpack(changed, folder)
    torn = packed.with_name("torn.zip")
    torn.write_bytes(packed.read_bytes()[:-40])
    with pytest.raises(UserError, match="damaged, or no archive"):
        unpack(torn, folder)
    monkeypatch.setitem(agent_archive._MOST_BYTES, "config.yaml", 50)
    with pytest.raises(UserError, match=r"config\.yaml is larger than an agent can be"):
        unpack(packed, folder)
    assert not folder.exists()


def test_digests_are_those_of_the_files(packed: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        digests = json.loads(archive.read(DIGESTS_FILE))
    assert sorted(digests) == sorted(FILES)


def test_refusals(tuner: CommandLine) -> None:
    assert "name a run or a study" in tuner.refused("push")
    assert "must end in .zip" in tuner.refused("push", "runs/x", "file=a.tar")
    assert "is not the folder of a run, nor a study" in tuner.refused("push", "runs/x")
    assert "there is no file a.zip" in tuner.refused("pull", "a.zip")
    assert "name the file" in tuner.refused("pull")
