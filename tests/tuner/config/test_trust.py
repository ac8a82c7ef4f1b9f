"""A run folder from a stranger: nothing in it is run, whatever its config names."""

import copy
import hashlib
import importlib
import importlib.util
import json
import os
import pickle
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tuner.command_line import SMALL, SMALL_AGENTS, CommandLine
from tests.tuner.commands.fake_studies import line_after
from tuner.cli import main
from tuner.commands.preflight import preflight
from tuner.config.composition import conf_folder
from tuner.config.modules_used import mark_of
from tuner.config.signatures import home_of
from tuner.config.trust import TARGETS, admit_changes, foreign_code, trusted_modules
from tuner.errors import UserError
from tuner.runs.config_checks import resolve
from tuner.runs.run_folders import read_config

Config = dict[str, Any]


@pytest.fixture(autouse=True)
def _nobody_knows_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def config() -> Config:
    resolved = resolve(preflight("train", [*SMALL, *SMALL_AGENTS["dqn"]]))
    return {key: value for key, value in resolved.items() if key not in ("resume", "trust")}


class Opened:
    """Leaves a file named `owned` when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("owned",)


def hostile(folder: Path, config: Config, change: Callable[[Config], object]) -> None:
    """A folder as a stranger may send it, with everything in it that one of the configs below wants."""
    changed = copy.deepcopy(config)
    change(changed)
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(changed))
    (folder / "checkpoint.safetensors").touch()
    (folder / "data.npy").write_bytes(pickle.dumps(Opened()))
    (folder / "hidden.py").write_text("import os\nos.mkdir('owned')\n")


def target(path: str, node: Config) -> Callable[[Config], object]:
    """The config with this node at a place that is two keys deep, or one."""
    parent, _, key = path.rpartition(".")
    return lambda config: (config.setdefault(parent, {}) if parent else config).update({key: node})


SYSTEM = {"_target_": "os.system", "command": "mkdir owned"}
PICKLED = {"_target_": "numpy.load", "file": "stranger/data.npy", "allow_pickle": True}
EXPLOITS: dict[str, Callable[[Config], object]] = {
    "os.system": target("policy", SYSTEM),
    "numpy.load": target("buffer", PICKLED),
    "numpy.load through note_rl": target("buffer", {**PICKLED, "_target_": "note_rl.noise.np.load"}),
    "import through tuner": target("buffer", {"_target_": "tuner.trial.worker.import_entry", "path": "hidden:x"}),
    "imports of tuner": target("noise", {"_target_": "tuner.runs.quiet.quiet_import", "_args_": ["hidden"]}),
    "instantiate through tuner": target(
        "policy", {"_target_": "tuner.runs.build.build_node", "path": "", "node": PICKLED, "_recursive_": False}
    ),
    "environment through note_rl": target("noise", {"_target_": "note_rl.environments.EnvFactory", "id": "hidden:X"}),
    "a package to download": target("noise", {"_target_": "tuner.hub", "package": "x", "cls": "y", "registry": "."}),
    "get_method": target("optimizer", {"_target_": "hydra.utils.get_method", "path": "hidden.x"}),
    "partial": target("agent", {"_target_": "functools.partial", "_args_": [{"_target_": "os.system"}, "mkdir owned"]}),
    "wrapper": target("wrapper.evil", {**SYSTEM, "_partial_": True}),
    "recorded video": target("wrapper.evil", {"_target_": "gymnasium.wrappers.RecordVideo", "video_folder": "owned"}),
    "nested": target("buffer.expert", {"_target_": "note_rl.examples.experts.cartpole_expert", "num_episodes": SYSTEM}),
    "in a list": target("network.hidden_sizes", [64, PICKLED]),  # type: ignore[arg-type]
    "arguments": target("schedule.eps", {"_target_": "note_rl.schedules.Linear", "_args_": [PICKLED]}),
    "tracker": target("tracker.evil", SYSTEM),
    "kwargs": target("env.kwargs", {"x": SYSTEM}),
    "environment": target("env.id", "hidden:CartPole-v1"),  # type: ignore[arg-type]
    "environment by a long way": target("env.id", "note_rl.examples.environments:hidden:X"),  # type: ignore[arg-type]
    "environment that imports": target("env", {"id": "GymV21Environment-v0", "kwargs": {"env_id": "hidden:X"}}),
    "pool that is none": target("env.id", "envpool:hidden:X"),  # type: ignore[arg-type]
    "framework": target("backend.module", "hidden"),  # type: ignore[arg-type]
    "a function": lambda config: (config.pop("backend"), config.update(agent=SYSTEM)),
    "a program": lambda config: (
        config.pop("backend"),
        config.update(
            agent={"_target_": "tuner.runs.command.Script", "command": "mkdir ../owned", "points": 1, "steps": 1}
        ),
    ),
    "secrets of the environment": target("tracker.wandb", {"project": "${oc.env:SECRET}"}),
    "a target that is looked up": target("noise", {"_target_": "${oc.env:SECRET}"}),
}


@pytest.fixture
def untouched(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever is asked, nothing of the folder may be imported or done."""
    monkeypatch.setenv("SECRET", "hidden.x")
    monkeypatch.setattr(sys, "path", [str(tuner.folder / "stranger"), *sys.path])
    before = set(sys.modules)
    yield
    assert not (tuner.folder / "owned").exists()
    assert "hidden" not in sys.modules
    assert not {name for name in set(sys.modules) - before if name.partition(".")[0] in ("torch", "tensorflow")}


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("how", EXPLOITS)
def test_a_strangers_config_runs_nothing(tuner: CommandLine, config: Config, how: str) -> None:
    hostile(tuner.folder / "stranger", config, EXPLOITS[how])
    resumed = how in ("os.system", "environment", "tracker", "secrets of the environment")
    for arguments in (("play", "stranger"), *([("train", "resume=stranger")] if resumed else [])):
        said = tuner.refused(*arguments)
        assert said.startswith(f"tuner {arguments[0]}: ")
        assert "stranger asks for code" in said or "stranger refers to something else" in said
        assert "SECRET" in said or "add trust=" in said
        assert not re.search(r"add trust=\[?(note_rl|tuner)\b(?!\.)", said), "all that these import would be let in"


def test_a_config_that_lost_a_part_is_said_to_lack_it(tuner: CommandLine, config: Config) -> None:
    hostile(tuner.folder / "mine", {key: node for key, node in config.items() if key != "agent"}, lambda config: None)
    assert "there is no agent, and a run needs one\n" in tuner.refused("play", "mine")


@pytest.mark.usefixtures("untouched")
def test_a_strangers_trial_runs_nothing(tuner: CommandLine, config: Config) -> None:
    hostile(tuner.folder / "stranger", config, EXPLOITS["os.system"])
    changed = yaml.safe_load((tuner.folder / "stranger/config.yaml").read_text())
    (tuner.folder / "stranger/config.yaml").unlink()
    (tuner.folder / "stranger/trial.json").write_text(json.dumps({"config": changed, "seed": 1, "entry": "hidden:x"}))
    assert "policy._target_=os.system" in tuner.refused("play", "stranger")


@pytest.mark.usefixtures("untouched")
def test_objects_in_yaml_are_not_made(tuner: CommandLine, config: Config) -> None:
    hostile(tuner.folder / "stranger", config, lambda config: None)
    with (tuner.folder / "stranger/config.yaml").open("a") as file:
        file.write("evil: !!python/object/apply:os.system ['mkdir owned']\n")
    assert tuner("play", "stranger").status != 0


@pytest.mark.usefixtures("untouched")
def test_what_lies_in_the_working_directory_is_not_imported_for_reading(
    tuner: CommandLine, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile(tuner.folder / "stranger", config, EXPLOITS["environment"])
    monkeypatch.chdir(tuner.folder / "stranger")
    for name in ("yaml", "rich", "torch", "antlr4", "gymnasium", "optuna"):
        (tuner.folder / "stranger" / f"{name}.py").write_text((tuner.folder / "stranger/hidden.py").read_text())
    for arguments in (("play", "."), ("report",), ("train", "resume=.")):
        monkeypatch.setattr(sys, "path", [folder for folder in sys.path if Path(folder) != Path.cwd()])
        assert tuner(*arguments).status == 2
        assert str(Path.cwd()) not in sys.path[:1]


def test_pickles_of_hydra_are_not_loaded(tuner: CommandLine) -> None:
    (tuner.folder / "config.pickle").write_bytes(pickle.dumps(Opened()))
    assert "loads a pickle" in tuner.refused("train", "--experimental-rerun", "config.pickle")
    assert not (tuner.folder / "owned").exists()


OWN = """
import os
from note_rl.agents.pytorch import DQN

class Cautious(DQN):
    pass
"""


@pytest.fixture
def own(tuner: CommandLine) -> Iterator[str]:
    (tuner.folder / "my_rl.py").write_text(OWN)
    yield "agent._target_=my_rl.Cautious"
    sys.modules.pop("my_rl", None)


def test_runs_made_here_go_on_without_a_question(tuner: CommandLine, own: str) -> None:
    assert tuner("train", *SMALL, *SMALL_AGENTS["dqn"], own, "hydra.run.dir=mine").status == 0
    assert tuner("play", "mine", "gif=null", "num_episodes=1").status == 0
    (tuner.folder / "mine").rename(tuner.folder / "moved")
    assert tuner("train", "resume=moved", "training.total_steps=300").status == 0

    text = (tuner.folder / "moved/config.yaml").read_text()
    edited = text.replace("device: cpu", "device: cpu").replace("gamma: 0.99", "gamma: 0.98")
    assert edited != text
    (tuner.folder / "moved/config.yaml").write_text(edited)
    assert "agent._target_=my_rl.Cautious" in tuner.refused("play", "moved"), "it is not what was run here"


def test_runs_of_another_machine_take_one_step(
    tuner: CommandLine, own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tuner("train", *SMALL, *SMALL_AGENTS["dqn"], own, "hydra.run.dir=mine").status == 0
    for place, arguments in (("elsewhere", ("play", "mine", "gif=null")), ("third", ("train", "resume=mine"))):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / place))
        said = tuner.refused(*arguments)
        assert "mine asks for code that tuner does not build by itself" in said
        assert said.strip().endswith("add trust=my_rl")
        further = [] if place == "elsewhere" else ["training.total_steps=300"]
        assert tuner(*arguments, *further, "trust=my_rl").status == 0
        assert tuner("play", "mine", "gif=null").status == 0, "asked once"
    assert "trust" not in yaml.safe_load((tuner.folder / "mine/config.yaml").read_text())


def test_another_module_of_the_same_name_is_not_what_was_used(
    tuner: CommandLine, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tuner("train", *SMALL, *SMALL_AGENTS["dqn"], own, "hydra.run.dir=run").status == 0
    elsewhere = tuner.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "my_rl.py").write_text(OWN)
    shutil.copytree("run", "elsewhere/run")
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder != os.getcwd()])
    monkeypatch.chdir(elsewhere)
    sys.modules.pop("my_rl")
    importlib.invalidate_caches()
    for arguments in (("play", "run"), ("train", "resume=run", "training.total_steps=300")):
        assert "agent._target_=my_rl.Cautious" in tuner.refused(*arguments), "its file lies elsewhere"
        assert "my_rl" not in sys.modules
    monkeypatch.chdir(tuner.folder)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder != str(elsewhere)])
    assert tuner("play", "run", "gif=null", "num_episodes=1").status == 0
    (tuner.folder / "my_rl.py").write_text(f"{OWN}\n# edited\n")
    assert "or has changed since: agent._target_=my_rl.Cautious" in tuner.refused("play", "run")
    assert tuner("play", "run", "gif=null", "num_episodes=1", "trust=my_rl").status == 0
    assert tuner("play", "run", "gif=null", "num_episodes=1").status == 0, "asked once"


def test_trust_in_a_module_does_not_lead_out_of_it(tuner: CommandLine, own: str, config: Config) -> None:
    hostile(tuner.folder / "stranger", config, target("policy", {**SYSTEM, "_target_": "my_rl.os.system"}))
    assert "add trust=my_rl" in tuner.refused("play", "stranger")
    assert "add trust=[my_rl,my_rl.os.system]" in tuner.refused("play", "stranger", "trust=my_rl")
    assert not (tuner.folder / "owned").exists()


def test_several_modules_are_asked_for_at_once(tuner: CommandLine, config: Config) -> None:
    def change(config: Config) -> None:
        config["agent"]["_target_"] = "my_rl.agents.Cautious"
        config["env"]["id"] = "my_envs:Maze-v0"

    hostile(tuner.folder / "stranger", config, change)
    said = tuner.refused("play", "stranger")
    assert "agent._target_=my_rl.agents.Cautious, env.id=my_envs" in said
    assert said.strip().endswith("add trust=[my_rl,my_envs]")
    assert (
        read_config(tuner.folder / "stranger", ["my_rl.agents.Cautious", "my_envs"])["env"]["id"] == "my_envs:Maze-v0"
    )


@pytest.mark.parametrize("given", [True, [1], {"a": 1}, ["my_rl", ""], "my rl", "../x"])
def test_trust_must_name_modules(given: object) -> None:
    with pytest.raises(UserError, match="must name a module"):
        trusted_modules(given)


PROGRAM = """
import json, sys
for step in (500, 1000):
    print(json.dumps({"step": step, "ret": 1.0}), file=open("log.jsonl", "a"), flush=True)
"""
COMMANDS = {
    "a script": "{python} train.py --lr {{lr}}",
    "a script within a shell": "bash -c '{python} train.py'",
    "a script beside a sign of a shell": "bash -c '({python} train.py); true'",
    "a module": "{python} -m train",
    "a folder": "{python} code",
    "a file of settings": "{python} -c pass --settings=train.py",
}


@pytest.fixture
def program(tuner: CommandLine) -> Callable[[str], tuple[str, ...]]:
    (tuner.folder / "train.py").write_text(PROGRAM)
    (tuner.folder / "code").mkdir()
    (tuner.folder / "code" / "__main__.py").symlink_to("../train.py")

    def typed(command: str) -> tuple[str, ...]:
        word = command.format(python=sys.executable)
        more = ("+agent.lr=0.1",) if "{lr}" in word else ()
        return ("agent=command", f"agent.command={word}", *more, "agent.read=jsonl", "agent.metric=ret")

    return typed


def test_a_command_is_known_by_what_is_in_its_script(
    tuner: CommandLine, program: Callable[[str], tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = (*program(COMMANDS["a script"]), "agent.step=step", "training.total_steps=1000", "tracker=jsonl")
    assert tuner("train", *arguments, "hydra.run.dir=mine").status == 0
    read_config(tuner.folder / "mine")
    elsewhere = tuner.folder / "received"  # with a script of the same name
    elsewhere.mkdir()
    shutil.copytree("mine", "received/mine")
    (elsewhere / "train.py").write_text("import os\nos.mkdir('owned')\n")
    monkeypatch.chdir(elsewhere)
    said = tuner.refused("train", "resume=mine")
    assert "asks for code that tuner does not build by itself" in said
    assert "add trust=tuner.runs.command.Script" in said
    monkeypatch.chdir(tuner.folder)
    assert read_config(tuner.folder / "mine")["agent"]["lr"] == 0.1
    (tuner.folder / "train.py").write_text(f"{PROGRAM}# edited\n")
    assert "or has changed since" in tuner.refused("train", "resume=mine")


@pytest.mark.parametrize("how", COMMANDS)
def test_the_files_that_a_command_names_are_a_part_of_it(
    tuner: CommandLine, program: Callable[[str], tuple[str, ...]], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tuner.folder)
    command = COMMANDS[how].format(python=sys.executable)
    program("")
    before = mark_of({"command": command}, "tuner.runs.command.Script")
    assert mark_of({"command": command}, "tuner.runs.command.Script") == before
    (tuner.folder / "train.py").write_text(f"{PROGRAM}# edited\n")
    importlib.invalidate_caches()
    assert mark_of({"command": command}, "tuner.runs.command.Script") != before


def test_of_a_command_without_files_and_of_other_code_the_mark_is_that_of_earlier_versions(tmp_path: Path) -> None:
    node = {"command": "nowhere.py --lr 3 'it", "lr": 3}
    place = importlib.util.find_spec("json").origin  # type: ignore[union-attr]
    content = hashlib.sha256(Path(str(place)).read_bytes()).hexdigest()
    known_by = [node, os.path.realpath(str(place)), content]
    assert mark_of(node, "json") == hashlib.sha256(json.dumps(known_by, sort_keys=True).encode()).hexdigest()


def test_a_home_that_cannot_be_written_costs_the_question_only(
    tuner: CommandLine, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tuner.folder / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tuner.folder / "file"))
    assert tuner("train", *SMALL, *SMALL_AGENTS["dqn"], own, "hydra.run.dir=mine").status == 0
    assert "add trust=my_rl" in tuner.refused("play", "mine")


def test_a_trial_of_a_study_made_here_is_known(tuner: CommandLine, own: str) -> None:
    small = ("study.num_trials=1", "study.num_race_seeds=0", "study.num_candidates=1", "executor.parallel=1")
    seeds = ("study.num_select_seeds=1", "study.num_test_seeds=1", "study.name=s", "executor=inline", "storage=journal")
    world = "env.id=my_worlds:Mine-v0"  # the other settings are those of CartPole's file
    (tuner.folder / "my_worlds.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Mine-v0', 'gymnasium.envs.classic_control:CartPoleEnv', max_episode_steps=20)\n"
    )
    searched = ("~space", "+space.agent.gamma={low: 0.9, high: 0.99}")
    assert main(["tune", *SMALL, *SMALL_AGENTS["dqn"], own, world, *small, *seeds, *searched]) == 0
    assert tuner("play", "studies/s/screen/0", "gif=null", "num_episodes=1").status == 0
    again = tuner("train", "--config-dir", "studies/s", "experiment=winner", "tracker=jsonl")
    assert (again.status, again.errors) == (0, "")


FUNCTION = """
import tuner

def train(lr, steps, rounds, run_seed):
    for number in range(1, 4):
        tuner.report(number / 3, lr * rounds)
"""
WORLDS = """
import gymnasium
gymnasium.register("Mine-v0", "gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=20)
"""
SEARCHED = ("+agent.lr=0.1", "+space.agent.lr={low: 0.05, high: 0.2}", "training.total_steps=900")
STUDIES = {
    "a command": (
        *("agent=command", f"agent.command={sys.executable} train.py {{lr}} {{seed}}", "agent.read=jsonl"),
        *("agent.metric=ret", "agent.step=step", *SEARCHED),
    ),
    "a function": (
        *("agent=function", "agent._target_=my_function.train", *SEARCHED),
        *("+agent.steps=${training.total_steps}", "+agent.run_seed=${seed}", "+agent.rounds=${training.total_steps}"),
        "+space.agent.rounds={choices: [900, 3]}",
    ),
    "a library": (
        *("agent=sb3_ppo", "env.id=my_worlds:Mine-v0", "training.total_steps=256", "agent.n_steps=128"),
        *("space=none", "+space.agent.gamma={low: 0.9, high: 0.99}", "evaluation.num_episodes=1"),
    ),
}


@pytest.mark.parametrize("kind", STUDIES)
def test_the_line_that_a_study_prints_needs_no_trust_where_it_ran(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    for name, text in {"train": PROGRAM, "my_function": FUNCTION, "my_worlds": WORLDS}.items():
        (tuner.folder / f"{name}.py").write_text(text)
    small = ("study.num_trials=3", "study.num_race_seeds=0", "study.num_candidates=1", "study.num_select_seeds=1")
    place = ("study.num_test_seeds=1", "study.name=s", "executor=inline", "storage=journal", "tracker=jsonl")
    answer = tuner("tune", *STUDIES[kind], *small, *place, "evaluation.num_points=2")
    assert answer.status == 0, answer.errors
    line = line_after(answer, "the same as a file")
    assert line[:5] == ["tuner", "train", "--config-dir", "studies/s", "experiment=winner"]
    more = ("training.total_steps=1000", "seed=9", "tracker=jsonl")
    again = tuner(*line[1:], *more, "hydra.run.dir=again")
    assert (again.status, again.errors) == (0, "")
    trained, winner = (
        read_config(tuner.folder / "again"),
        yaml.safe_load(Path("studies/s/experiment/winner.yaml").read_text()),
    )
    for name in {"steps", "total_steps"} & trained["agent"].keys():
        assert trained["agent"][name] == 1000
    assert trained["agent"].get("run_seed", 9) == 9
    searched = "gamma" if kind == "a library" else "lr"
    assert trained["agent"][searched] == winner["agent"][searched]
    assert trained["agent"].get("rounds", 900) == 900, "that it was searched counts, not what its default refers to"
    monkeypatch.setenv("XDG_STATE_HOME", str(tuner.folder / "another machine"))
    assert "asks for code" in tuner.refused(*line[1:], *more)


@pytest.fixture
def study(tuner: CommandLine) -> Path:
    """The folder of a study, as far as --config-dir is concerned; `experiment/winner.yaml` is how it is known."""
    folder = tuner.folder / "stranger"
    (folder / "experiment").mkdir(parents=True)
    (folder / "hidden.py").write_text("import os\nos.mkdir('owned')\n")
    return folder


GROUPS = {
    "os.system": {"policy": SYSTEM},
    "a callback of Hydra": {"hydra": {"callbacks": {"evil": SYSTEM}}},
    "logging": {"defaults": [{"override /hydra/job_logging": "evil"}]},
    "environment": {"env": {"id": "hidden:X"}},
    "environment by reference": {"env": {"id": "${x}:y"}},
    "environment from elsewhere": {"other": {"id": "hidden:X"}, "env": "${other}"},
    "framework from elsewhere": {"other": {"module": "hidden"}, "backend": "${other}"},
    "secrets": {"tracker": {"wandb": {"project": "${oc.env:SECRET}"}}},
    "a vouching file": {"trust": ["os"], "policy": SYSTEM},
}


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("how", GROUPS)
def test_the_groups_of_a_strangers_study_run_nothing(tuner: CommandLine, study: Path, how: str) -> None:
    text = f"# @package _global_\n{yaml.safe_dump(GROUPS[how])}"
    (study / "experiment" / "winner.yaml").write_text(text)
    for command in ("train", "tune"):
        said = tuner.refused(command, "--config-dir", "stranger", "experiment=winner")
        assert "stranger/experiment/winner.yaml " in said
    assert "winner.yaml " in tuner("train", "--config-dir", "stranger", "experiment=winner", "--cfg", "job").errors


def test_config_groups_of_the_user_are_a_part_of_the_program(tuner: CommandLine, own: str) -> None:
    folder = tuner.folder / "my_conf" / "agent"
    folder.mkdir(parents=True)
    content = {"defaults": ["dqn"], "agent": {"_target_": "my_rl.Cautious"}}
    (folder / "cautious.yaml").write_text(f"# @package _global_\n{yaml.safe_dump(content)}")
    arguments = ("train", "--config-dir", "my_conf", "agent=cautious", *SMALL, *SMALL_AGENTS["dqn"][1:])
    assert tuner(*arguments, "hydra.run.dir=mine").status == 0
    (tuner.folder / "my_conf" / "metrics.jsonl").touch()
    answer = tuner(*arguments, "hydra.run.dir=other")
    assert answer.status == 2, "it has become that of a run"
    assert "add trust=my_rl" in answer.errors
    assert tuner(*arguments, "hydra.run.dir=other", "trust=my_rl").status == 0


def targets_in(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        yield from [node["_target_"]] if "_target_" in node else []
        node = list(node.values())
    for inner in node if isinstance(node, list) else []:
        yield from targets_in(inner)


def test_everything_in_conf_is_known() -> None:
    of_a_study = ("executor", "pruner", "sampler", "storage", "study", "finder", "hydra")
    for file in conf_folder().glob("*/*.yaml"):
        content = yaml.safe_load(file.read_text()) or {}
        if file.parent.name in of_a_study or file.name in ("function.yaml", "command.yaml"):  # code of the user's own
            continue
        for package in ("keras", "pytorch"):
            for name in targets_in(content):
                assert name.replace("${backend.package}", package) in TARGETS, file
        if file.parent.name in ("env", "backend"):
            assert not list(foreign_code({file.parent.name: content})), file


def test_every_known_name_is_defined_by_ourselves_or_by_gymnasium() -> None:
    for name in TARGETS:
        home = home_of(name)
        assert home is not None, name
        assert home.partition(".")[0] == name.partition(".")[0], f"{name} comes from {home}"


@pytest.mark.parametrize(
    "more", [{"directory": "/anywhere"}, {"entity": "stranger"}, {"_args_": ["tuner", "auto", "/x"]}]
)
def test_where_a_tracker_writes_and_sends_to_is_not_for_a_stranger_to_say(
    tmp_path: Path, config: Config, more: Config
) -> None:
    usual = {"_target_": "tuner.trackers.wandb.WandbTracker", "project": "p", "mode": "offline", "entity": None}
    hostile(tmp_path / "usual", config, lambda changed: changed.update(tracker={"w": usual}))
    assert read_config(tmp_path / "usual")["tracker"] == {"w": usual}
    hostile(tmp_path / "run", config, lambda changed: changed.update(tracker={"w": {**usual, **more}}))
    with pytest.raises(UserError, match=f"tracker.w.{next(iter(more))}=.*"):
        read_config(tmp_path / "run")
    assert read_config(tmp_path / "run", ["tuner.trackers.wandb.WandbTracker"])["tracker"]["w"] == {**usual, **more}
    assert read_config(tmp_path / "run")["tracker"]["w"] == {**usual, **more}  # it was vouched for


SCRIPT = {"agent": {"_target_": "tuner.runs.command.Script", "command": "python train.py", "lr": 0.1}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"agent.command": "python other.py"}, "agent._target_=tuner.runs.command.Script"),
        ({"agent.resume_flag": "--other"}, "agent._target_=tuner.runs.command.Script"),
        ({"network": {"_target_": "my_rl.network"}}, "network._target_=my_rl.network"),
        ({"agent.lr": "${oc.env:HOME}"}, "refers to something else in agent.lr"),
    ],
)
def test_settings_of_a_storage_bring_no_code_that_was_not_typed(changes: Config, said: str) -> None:
    admit_changes(SCRIPT, {"agent.lr": 0.2}, "the storage")
    with pytest.raises(UserError, match=re.escape(said)):
        admit_changes(SCRIPT, changes, "the storage")


def test_settings_of_a_storage_may_bring_code_that_is_trusted() -> None:
    admit_changes(SCRIPT, {"agent.command": "python other.py"}, "the storage", ["tuner.runs.command.Script"])
