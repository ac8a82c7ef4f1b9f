"""A stranger's study, named with --config-dir: nothing outside of it is imported, called, read or written."""

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from tests.tuner.command_line import SMALL, CommandLine
from tuner.checking.config_folders import admit_folder
from tuner.commands.preflight import admit_groups
from tuner.config.composition import compose, config_loader, to_json
from tuner.config.trust import TARGETS, foreign_code, remember
from tuner.errors import UserError

SECRET = "the value of a secret"
OWNED = {"_target_": "os.mkdir", "path": "owned"}
FACTORY = {"version": 1, "filters": {"f": {"()": "os.mkdir", "path": "owned"}}}


@dataclass
class Folder:
    """Files by path, and links with what they lead to; `{out}` stands for a folder beside it."""

    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    def write(self, place: Path) -> Path:
        """Makes the study, and beside it what none of its files may lead to."""
        study, out = place / "study", place / "outside"
        (out / "experiment").mkdir(parents=True)
        evil = f"# @package _global_\n{yaml.safe_dump({'tracker': {'x': OWNED}})}"
        for name in ("winner.yaml", "evil.yaml", "experiment/winner.yaml", "experiment/evil.yaml"):
            (out / name).write_text(evil)
        (place / "modules").mkdir()
        (place / "modules" / "hidden.py").write_text("import os\nos.mkdir('owned')\n")
        study.mkdir()
        (study / "report.json").write_text("{}")
        for name, text in self.files.items():
            (study / name).parent.mkdir(parents=True, exist_ok=True)
            (study / name).write_text(text.replace("{out}", str(out)))
        for name, target in self.links.items():
            (study / name).parent.mkdir(parents=True, exist_ok=True)
            (study / name).symlink_to(target.replace("{out}", str(out)))
        return study


def winner(content: Mapping[str, Any], header: str = "# @package _global_") -> Folder:
    return Folder({"experiment/winner.yaml": f"{header}\n{yaml.safe_dump(dict(content))}"})


def with_file(name: str, content: Mapping[str, Any]) -> Folder:
    return Folder({**winner({}).files, name: yaml.safe_dump(dict(content))})


NESTED = "${oc.${tracker.w.project}:'{_target_: os.mkdir, path: owned}'}"
WANDB = {"_target_": "tuner.trackers.wandb.WandbTracker", "project": "decode", "mode": "offline"}
BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)
)
WAYS = {
    "package of Hydra with a logging factory": winner({"job_logging": FACTORY}, "# @package hydra"),
    "package of Hydra with the environment": winner({"env_set": {"PYTHONPATH": "{out}"}}, "# @package hydra.job"),
    "package of Hydra with a folder": winner({"dir": "{out}/run"}, "#@package hydra.run"),
    "package in a second file": Folder(
        {
            **winner({"defaults": [{"/x": "y"}]}).files,
            "x/y.yaml": f"\n  # @package hydra\n{yaml.safe_dump({'job_logging': FACTORY})}",
        }
    ),
    "linked folder": Folder(links={"experiment": "../outside/experiment"}),
    "linked file": Folder(links={"experiment/winner.yaml": "{out}/winner.yaml"}),
    "linked group": Folder(winner({"defaults": [{"/wrapper": "evil"}]}).files, {"wrapper": "../outside"}),
    "path that leads out": winner({"defaults": ["/../outside/evil"]}),
    "path that leads out of its group": winner({"defaults": ["../../outside/evil"]}),
    "choice that leads out": winner({"defaults": [{"/wrapper": "../../outside/evil"}]}),
    "path from the root": winner({"defaults": ["/{out}/evil"]}),
    "resolver by reference": winner({"tracker": {"w": WANDB, "x": NESTED}}),
    "secret by reference": winner(
        {"tracker": {"w": {**WANDB, "project": "env", "entity": "${oc.${tracker.w.project}:SECRET}"}}}
    ),
    "secret of the storage": winner({"env": {"kwargs": {"x": "${storage.url}"}}}),
    "resolver later": winner({"env": {"kwargs": {"x": "\\${oc.env:SECRET}"}}}),
    "resolver in pieces": winner({"env": {"kwargs": {"a": "$", "b": "{oc.env:SECRET}", "c": "${.a}${.b}"}}}),
    "key of Hydra": winner({"hydra": {"job": {"env_set": {"X": "1"}}}}),
    "choice of Hydra": winner({"defaults": [{"override /hydra/job_logging": "disabled"}]}),
    "group of Hydra": with_file("hydra/job_logging/warnings.yaml", FACTORY),
    "choice elsewhere": winner({"defaults": [{"/agent@hydra.job": "dqn"}]}),
    "another storage": with_file("storage/sqlite.yaml", {"url": "sqlite:///{out}/x.db"}),
    "another executor": winner({"executor": {"_target_": "os.mkdir"}}),
    "another study": winner({"study": {"folder": "{out}"}}),
    "another run": winner({"resume": "{out}"}),
    "whole command": with_file("train.yaml", {"defaults": ["base"]}),
    "function": winner({"policy": OWNED}),
    "module": winner({"env": {"id": "hidden:X"}}),
    "target by reference": winner({"env": {"kwargs": {"t": "os.mkdir"}}, "policy": {"_target_": "${env.kwargs.t}"}}),
    "search of a module": winner({"space": {"env": {"id": {"choices": ["hidden:X", "CartPole-v1"]}}}}),
    "search of a function": with_file("space/evil.yaml", {"policy": {"_target_": {"choices": ["os.mkdir"]}}}),
    "search by a linked group": Folder(
        {**winner({"defaults": [{"override /space": "x"}]}).files, "agent/x.yaml": "env: {id: {choices: [hidden:X]}}"},
        {"space": "agent"},
    ),
    "values without number": Folder({"experiment/winner.yaml": BOMB}),
}


@dataclass
class Seen:
    """Files opened, imports and actions of this process while `looking` is set."""

    looking: bool = False
    events: list[str] = field(default_factory=list)

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        """Called by Python for each event."""
        if self.looking and (event in ("open", "import") or event.startswith(("os.", "subprocess.", "shutil."))):
            self.events.append(f"{event} {arguments[0]}")


SEEN = Seen()


@pytest.fixture(scope="module", autouse=True)
def _hook() -> None:
    sys.addaudithook(SEEN)  # which stays, and does nothing unless it is looking


@contextmanager
def untouched(out: Path) -> Iterator[None]:
    """Whatever happens, nothing in that folder is opened, and nothing is made or run."""
    SEEN.events, SEEN.looking = [], True
    try:
        yield
    finally:
        SEEN.looking = False
    opened = [event for event in SEEN.events if str(out) in event and event.startswith("open")]
    done = [event for event in SEEN.events if event.startswith(("os.mkdir", "os.system", "subprocess.", "os.rename"))]
    assert not opened
    assert not done
    assert not [event for event in SEEN.events if event == "import hidden"]


@pytest.fixture(autouse=True)
def _state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("nobody")))
    monkeypatch.setenv("SECRET", SECRET)


@pytest.mark.parametrize("way", WAYS)
def test_no_way_leads_out_of_a_strangers_study(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    study = WAYS[way].write(tuner.folder)
    monkeypatch.setattr(sys, "path", [str(tuner.folder / "modules"), *sys.path])
    command = "tune" if way in ("another storage", "another executor", "another study") else "train"
    with untouched(tuner.folder / "outside"):
        said = tuner.refused(command, "--config-dir", "study", "experiment=winner", *SMALL)
    assert str(study.name) in said
    shown = tuner(command, "--config-dir", "study", "experiment=winner", "--cfg", "job", "--resolve")
    assert (shown.status, shown.output) == (2, "")
    searched = f"hydra.searchpath=[file://{study}]"
    assert tuner(command, searched, "experiment=winner").status == 2
    assert SECRET not in said + shown.errors
    assert not (tuner.folder / "owned").exists()


BY_REFERENCE: dict[str, dict[str, Any]] = {
    "target": {"env": {"id": "os.mkdir"}, "agent": {"t": {"_target_": "${env.id}"}}},
    "argument": {"env": {"id": "CartPole-v1"}, "agent": {"t": {"_target_": "mine.train", "a": "${env.id}"}}},
    "what is looked up": {"agent": {"t": {"_target_": "hydra.utils.get_class", "path": "${env.id}"}}},
    "framework": {"env": {"id": "hidden"}, "backend": {"module": "${env.id}"}},
    "environment": {"env": {"id": "hidden:X"}, "agent": {"env": {"id": "${env.id}", "kwargs": {"a": 1}}}},
    "environment elsewhere": {"agent": {"x": "hidden:X", "env": {"id": "${agent.x}"}}},
}


@pytest.mark.parametrize("what", BY_REFERENCE)
def test_what_runs_is_no_reference_in_any_file(tuner: CommandLine, what: str) -> None:
    """The file is looked at as it is written: of what is composed, some resolves only when more is typed."""
    content = BY_REFERENCE[what]
    remember({"agent": {"_target_": "mine.train"}, "env": {"id": "hidden:X"}})
    with pytest.raises(UserError, match="asks for code"):
        admit_folder(winner(content).write(tuner.folder))
    agent = {**content.get("agent", {}), "y": "${env.kwargs.render_mode}"}
    study = winner({**content, "agent": agent}).write(tuner.folder / "second")
    assert "asks for" in tuner.refused(
        "train", "--config-dir", str(study), "experiment=winner", "+env.kwargs.render_mode=human"
    )


@pytest.mark.parametrize(
    "of_agent",
    [
        {"env": {"id": "my_envs:Own-v0", "kwargs": {"cmd": "x"}}},
        {"env": {"id": "${env.id}", "kwargs": {"cmd": "x"}}},
        {"env": {"kwargs": {"cmd": "x"}}},
        {"env": {"kwargs": {"cmd": "x"}}, "y": "${env.kwargs.render_mode}"},
        {"env": {"kwargs": "${agent.policy_kwargs}"}, "policy_kwargs": {"cmd": "x"}},
    ],
)
def test_an_environment_that_is_known_is_not_built_with_a_strangers_arguments(
    tmp_path: Path, of_agent: dict[str, Any]
) -> None:
    content = {"defaults": [{"override /agent": "sb3_ppo"}], "env": {"id": "my_envs:Own-v0", "kwargs": {}}}
    own, chosen = winner(content).write(tmp_path / "own"), ["experiment=winner"]
    remember({"env": content["env"]})
    remember(to_json(compose(config_loader(own), "train", chosen), ["env"]))
    admit_groups(own, chosen, "train")
    study = winner({**content, "agent": of_agent}).write(tmp_path / "stranger")
    with pytest.raises(UserError, match=r"asks for code|refers to nothing in agent"):
        admit_groups(study, [*chosen, "+env.kwargs.render_mode=human"], "train")


def test_the_environment_of_an_agent_is_that_of_the_run_only_as_a_whole() -> None:
    env = {"id": "my_envs:Own-v0", "num_envs": 2, "kwargs": {}}
    shared, other = {"id": "my_envs:Own-v0", "kwargs": {}}, {"id": "my_envs:Own-v0", "kwargs": {"cmd": "x"}}
    marks = [[code.mark for code in foreign_code({"env": env, "agent": {"env": one}})] for one in (shared, other)]
    assert [len(found) for found in marks] == [1, 2]


def test_links_within_and_what_hydra_does_not_read_are_no_matter(tmp_path: Path) -> None:
    inner = {"agent/quick.yaml": "defaults: [dqn]\n", "wandb/run-1/note.txt": "x", "notes.yaml": "title: mine\n"}
    links = {"wandb/latest-run": "run-1", "data.bin": "{out}/winner.yaml", "agent/same.yaml": "quick.yaml"}
    folder = Folder({**winner({"agent": {"gamma": 0.5}}).files, **inner}, links).write(tmp_path)
    admit_groups(folder, ["experiment=winner", "agent=same"], "train")
    composed = compose(config_loader(folder), "train", ["experiment=winner", "agent=same"])
    assert composed.agent.gamma == 0.5


def test_what_is_typed_beside_a_strangers_study_is_the_users_own(tmp_path: Path) -> None:
    folder = winner({"agent": {"gamma": 0.5}}).write(tmp_path / "theirs")
    own = tmp_path / "mine" / "tracker"
    own.mkdir(parents=True)
    (own / "csv.yaml").write_text("csv: {_target_: my_trackers.CsvTracker, path: '${oc.env:SECRET}'}\n")
    typed = ["experiment=winner", "agent._target_=my_rl.Agent", "env.id=my_envs:Maze-v0", "hydra.job.name=x"]
    searched = f"hydra.searchpath=[file://{own.parent}]"
    admit_groups(folder, [*typed, searched, "tracker=csv", "agent.gamma=0.1,0.2"], "train")
    (folder / "tracker").mkdir()
    (folder / "tracker" / "csv.yaml").write_text("csv: {_target_: my_trackers.CsvTracker, path: elsewhere}\n")
    with pytest.raises(UserError, match="tracker"):
        admit_groups(folder, [*typed, searched, "tracker=csv"], "train")


def pieces() -> st.SearchStrategy[str]:
    """References, resolvers and texts, within each other."""
    plain = st.sampled_from(["env", "decode", "SECRET", "oc", "tracker.w.project", ".a", "storage.url", "agent.gamma"])
    inside = lambda inner: st.one_of(  # noqa: E731
        inner.map(lambda name: f"${{{name}}}"),
        st.tuples(inner, inner).map(lambda pair: f"${{oc.{pair[0]}:{pair[1]}}}"),
        st.tuples(inner, inner).map(lambda pair: f"${{{pair[0]}:{pair[1]}}}"),
        st.tuples(inner, inner).map("".join),
        inner.map(lambda text: f"\\{text}"),
    )
    return st.recursive(plain, inside, max_leaves=4)


SECTIONS = ("tracker", "env", "agent", "policy", "hydra", "job_logging", "env_set", "storage", "study", "defaults", "x")
NAMED = ("outside", "experiment", "evil", "winner", "hydra", "storage", "wrapper", "dqn")
PATHS = st.lists(st.sampled_from(("..", ".", "", *NAMED)), min_size=1, max_size=4).map("/".join)
HEADERS = st.sampled_from(
    (
        *("# @package _global_", "", "# @package hydra", "#@package hydra.job", " # @package _global_.hydra"),
        *("# @package x", "# about\n# @package hydra", "# @package _group_", "#  @package  storage"),
    )
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(pieces(), st.just(OWNED), st.just(FACTORY), st.just(WANDB), st.just("hidden:X"), st.integers(0, 3)),
    lambda inner: st.dictionaries(st.sampled_from([*SECTIONS, "_target_", "id", "module", "project", "a"]), inner),
    max_leaves=4,
)
KINDS = st.sampled_from(("", "/", "override /", "optional /", "//"))
GROUPS = st.builds("{}{}{}".format, KINDS, PATHS, st.sampled_from(("", "@hydra", "@x")))
CHOICES = st.one_of(PATHS, st.dictionaries(GROUPS, PATHS, min_size=1, max_size=1))


def text(header: str, content: dict[str, Any], chosen: list[Any]) -> str:
    return f"{header}\n{yaml.safe_dump({**content, 'defaults': chosen} if chosen else content)}"


TEXTS = st.builds(
    text,
    HEADERS,
    st.dictionaries(st.sampled_from(SECTIONS[:-2]), VALUES, max_size=3),
    st.lists(CHOICES, max_size=2),
)
NAMES = st.sampled_from(
    (
        *("experiment/other.yaml", "wrapper/evil.yaml", "agent/dqn.yaml", "hydra/help/tuner.yaml"),
        *("storage/sqlite.yaml", "train.yaml", "x/y.yaml", "base.yaml", "tracker/wandb.yaml"),
    )
)
LINKS = st.dictionaries(
    st.sampled_from(["wrapper", "experiment/inner", "agent", "optimizer/adam.yaml", "hydra"]),
    st.sampled_from(["{out}", "../outside", "{out}/evil.yaml", "experiment", "../outside/experiment"]),
    max_size=1,
)
FOLDERS = st.builds(
    lambda first, others, links: Folder(
        {
            "experiment/winner.yaml": first,
            **{name: text for name, text in others.items() if name.partition("/")[0] not in links},
        },
        links,
    ),
    TEXTS,
    st.dictionaries(NAMES, TEXTS, max_size=2),
    LINKS,
)


def targets(node: object) -> Iterator[object]:
    if isinstance(node, dict):
        yield from [node["_target_"]] if "_target_" in node else []
        node = list(node.values())
    for inner in node if isinstance(node, list) else []:
        yield from targets(inner)


def of_hydra(config: DictConfig) -> Any:
    section: Any = OmegaConf.to_container(config.hydra, resolve=False)
    return {key: value for key, value in section.items() if key not in ("runtime", "overrides", "job")}, {
        key: value for key, value in section["job"].items() if key != "override_dirname"
    }


def harmless(config: DictConfig, plain: DictConfig) -> None:
    """The composed configuration names only parts of tuner, looks nothing up, and leaves Hydra as it is."""
    assert of_hydra(config) == of_hydra(plain)
    for part in ("storage", "executor", "study", "resume", "trust"):
        assert config.get(part) == plain.get(part)
    for key in set(map(str, config)) - {"hydra"}:
        if isinstance(plain.get(key), DictConfig) and not isinstance(config[key], DictConfig):
            continue  # a text in place of settings, which is refused when it is used
        try:
            value = OmegaConf.to_container(OmegaConf.create({key: config[key]}), resolve=True)
        except OmegaConfBaseException:
            continue  # which is refused when it is used
        assert SECRET not in str(value)
        assert "oc.env" not in str(value)
        assert set(targets(value)) <= TARGETS
        assert "hidden" not in str(value)


@settings(max_examples=40)
@given(folder=FOLDERS)
def test_what_is_admitted_of_any_folder_is_harmless(folder: Folder) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name).resolve()
        study = folder.write(place)
        with untouched(place / "outside"):
            try:
                admit_groups(study, ["experiment=winner"], "train")
            except UserError:
                return
            config = compose(config_loader(study), "train", ["experiment=winner"])
        harmless(config, compose(config_loader(), "train", []))
