"""An agent that is packed acts as before where it is unpacked; other archives are refused and leave nothing."""

import json
import os
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

import tuner as api
from note_rl.training.checkpoint import read_checkpoint
from tests.tuner.command_line import SMALL, SMALL_AGENTS, SMALL_STUDY, CommandLine
from tuner.errors import UserError
from tuner.features.sb3.sb3_trainer import Sb3
from tuner.features.sharing import agent_archive, push
from tuner.features.sharing.agent_archive import DIGESTS_FILE, FILES, RESULT_FILE, STATE_FILES, pack, unpack
from tuner.features.sharing.private_settings import private_settings
from tuner.runs.run_folders import CONFIG_FILE

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


@pytest.mark.slow_in_keras
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


def test_what_is_of_this_machine_is_in_no_file_of_the_archive(tuner: CommandLine) -> None:
    (tuner.folder / "joes_groups").mkdir()
    assert tuner("train", *SMALL_AGENTS["dqn"], *SMALL, "hydra.run.dir=joes_run").status == 0
    typed = ("init=joes_run", "env.max_episode_steps=77", "study.name=s")
    words = ("tune", "--config-dir", "joes_groups", *SMALL_AGENTS["dqn"], *SMALL, *SMALL_STUDY, *typed)
    assert tuner(*words).status == 0
    answer = tuner("push", "s")
    assert answer.status == 0, answer
    with zipfile.ZipFile(tuner.folder / "s.zip") as archive:
        texts = {name: archive.read(name).decode(errors="replace") for name in archive.namelist()}
    assert not [name for name, text in texts.items() if "joes_" in text]
    result = texts[RESULT_FILE]
    assert "    tuner train " in result
    assert "env.max_episode_steps=77" in result
    assert "Left out, as it is of the machine that this comes from: --config-dir, init." in result
    command, left_out = push._for_others("tuner train agent=ppo '+env.kwargs.map=/home/joe/map' ++env.kwargs.token=a1")
    assert (command, left_out) == ("tuner train agent=ppo", ["env.kwargs.map", "env.kwargs.token"])


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


def test_what_killed_processes_were_unpacking_is_removed(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead_pid = 7
    monkeypatch.setattr(agent_archive, "lives", lambda pid: pid != dead_pid)
    left, kept = (packed.parent / f".a.{pid}-abc_1234.unpacked" for pid in (dead_pid, os.getpid()))
    others = packed.parent / f".a.{dead_pid}-abc_1234.aside"
    for folder in (left, kept, others):
        (folder / "run").mkdir(parents=True)
    unpack(packed, packed.parent / "theirs")
    assert [left.exists(), kept.exists(), others.exists()] == [False, True, True]


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


def test_a_model_of_stable_baselines3_is_packed_as_arrays(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ("training.total_steps=48", "evaluation.num_points=2", "evaluation.num_episodes=1", "tracker=jsonl")
    words = ("agent=sb3_dqn", "agent.learning_starts=8", "agent.buffer_size=200", "agent.net_arch=[8]")
    assert tuner("train", *words, *small, "agent.normalize_obs=true", "hydra.run.dir=runs/mine").status == 0
    assert "keeps its last weights only" in tuner.refused("push", "runs/mine", "weights=best")
    with monkeypatch.context() as without_models:
        without_models.delattr(Sb3, "_model")
        answer = tuner("push", "runs/mine")
    assert answer.status == 0, answer
    answer = tuner("pull", "mine.zip", "folder=theirs")
    assert "Trained for 48 environment steps." in answer.output, answer
    with zipfile.ZipFile(tuner.folder / "mine.zip") as archive:
        assert sorted(archive.namelist()) == sorted([CONFIG_FILE, RESULT_FILE, DIGESTS_FILE, *STATE_FILES])
    arrays, _ = read_checkpoint(tuner.folder / "theirs" / STATE_FILES[1])
    assert not [name for name in arrays if name.startswith("replay")]
    before, after = (api.load_agent(place).predict(OBSERVATIONS)[0] for place in ("runs/mine", "theirs"))
    np.testing.assert_array_equal(before, after)
    assert tuner("play", "theirs", "num_episodes=1", "gif=null").status == 0
    (tuner.folder / "runs" / "mine" / "state").rename(tuner.folder / "away")
    assert "has no checkpoint yet" in tuner.refused("push", "runs/mine", "file=again.zip")


def test_what_only_the_code_of_the_user_can_read_is_not_packed(tuner: CommandLine) -> None:
    assert tuner("train", "agent=synthetic", "tracker=jsonl", "hydra.run.dir=runs/f").status == 0
    message = tuner.refused("push", "runs/f")
    assert "only that code can read what it has saved" in message
    assert "runs/f/config.yaml: give that file and the code" in message
    small = ("executor=inline", "study.num_trials=2", "study.num_test_seeds=1", "storage=journal", "study.name=s")
    assert tuner("tune", "agent=synthetic", *small).status == 0
    assert "settings are in studies/s/experiment/winner.yaml: give" in tuner.refused("push", "s")


def test_settings_that_are_of_this_machine_are_named_with_the_archive(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (*SMALL_AGENTS["dqn"], *SMALL, "hydra.run.dir=runs/mine", "tracker=jsonl")
    assert tuner("train", *words).status == 0
    path = tuner.folder / "runs" / "mine" / "config.yaml"
    config = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**config, "init": "/home/joe/private/run"}))
    assert "of this machine" not in tuner("push", "runs/mine").output, "init is left out"
    monkeypatch.setattr(push, "private_settings", lambda settings: [f"env.id={settings['env']['id']} (a place)"])
    answer = tuner("push", "runs/mine", "file=second.zip")
    assert "in the archive, as in the run: env.id=CartPole-v1 (a place)" in answer.output


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"env": {"id": "ALE/Pong-v5", "kwargs": {"map": "maps/a.txt", "frameskip": 4}}}, []),
        ({"env": {"kwargs": {"map": "/data/maps/a.txt"}}}, ["env.kwargs.map=/data/maps/a.txt ("]),
        ({"env": {"kwargs": {"rom": "~/roms"}}}, ["env.kwargs.rom=~/roms ("]),
        ({"agent": {"layers": ["C:\\Users\\joe\\net"]}}, ["agent.layers=C:"]),
        ({"env": {"kwargs": {"server": "https://example.org/a/b"}}}, []),
        ({"env": {"kwargs": {"api_key": "abc"}}}, ["env.kwargs.api_key (it looks like a secret)"]),
        ({"env": {"kwargs": {"db": "postgresql://me:hush@host/db"}}}, ["env.kwargs.db (it looks like a secret)"]),
        *(
            ({"env": {"kwargs": {"at": text}}}, [f"env.kwargs.at={text[:3]}"])
            for text in (
                *("C:/Users/joe/x", "file:///home/joe/x", "sqlite:////home/joe/x.db", "a:/home/joe/x", "//nas/joe/x"),
                r"\\server\share",
            )
        ),
        *(
            ({"env": {"kwargs": {name: "hush"}}}, [f"env.kwargs.{name} (it looks like a secret)"])
            for name in ("pwd", "credentials", "auth", "auth_header", "private_key", "aws_access_key_id", "bearer")
        ),
        ({"env": {"kwargs": {"password": 123456}}}, ["env.kwargs.password (it looks like a secret)"]),
        ({"env": {"tokens": {"github": "hush"}}}, ["env.tokens.github (it looks like a secret)"]),
        ({"env": {"kwargs": {"num_tokens": 8, "author": "joe", "uses_password": True, "token": ""}}}, []),
        ({"env": {"kwargs": {"db": "sqlite:///here.db", "ratio": "a/b", "url": "s3://bucket/a/b"}}}, []),
    ],
)
def test_private_settings(config: dict[str, object], named: list[str]) -> None:
    found = private_settings(config)
    assert len(found) == len(named)
    assert all(one.startswith(begin) for one, begin in zip(found, named, strict=True))
    assert "hush" not in str(found)


def test_a_long_result_is_printed_in_part(tuner: CommandLine) -> None:
    made = tuner.folder / "made"
    made.mkdir()
    (made / CONFIG_FILE).write_text("agent: {}")
    (made / "checkpoint.safetensors").write_text("weights")
    (made / RESULT_FILE).write_text("".join(f"line {number}\n" for number in range(100)))
    pack(made, tuner.folder / "long.zip")
    answer = tuner("pull", "long.zip")
    assert answer.status == 0, answer
    assert "line 39\n... and 60 more lines in runs/long/result.md" in answer.output
    assert "line 40\n" not in answer.output


def test_an_archive_that_the_disk_has_no_room_for_is_refused(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=100))
    with pytest.raises(UserError, match=r"needs 0\.0 MB, .* choose another disk with folder="):
        unpack(packed, packed.parent / "theirs")
    assert not (packed.parent / "theirs").exists()
