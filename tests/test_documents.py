"""README files and guides: commands are accepted, examples run, tables and links name what is there."""

import ast
import copy
import csv
import inspect
import json
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from omegaconf import OmegaConf

from note_rl.policy import GreedyQPolicy
from note_rl.settings import ReplaySettings, RolloutSettings
from note_rl.settings.set_arguments import settings_from_set
from note_rl.training.train_options import TrainOptions
from note_rl.types import Update
from tests.documents import (
    BLOCKS,
    CLASSES,
    DOCUMENTS,
    FILES,
    ROOT,
    Block,
    blocks_of,
    blocks_with,
    commands_of,
    quoted,
    rows_in,
    section,
    text_of,
)
from tests.note_rl.samples import sample
from tests.recorded import minari_dataset
from tests.tuner.command_line import SMALL, SMALL_AGENTS, CommandLine, files_read_once, tuner
from tests.tuner.test_layering import ROOMS
from tuner.commands import COMMANDS
from tuner.commands.preflight import preflight

__all__ = ["files_read_once", "tuner"]

SMALL_STUDY = (
    *("study.num_trials=3", "study.num_race_seeds=0", "study.num_candidates=1", "study.num_select_seeds=1"),
    *("study.num_test_seeds=1", "executor=inline", "storage=journal"),
)
SMALLER = {"30_000": "256", "evaluate(20)": "evaluate(1)"}
"""Replacements in code that is run."""


def names_in(cell: str) -> list[str]:
    """Quoted words that are no setting, command or title of an extra."""
    return [name for name in quoted(re.sub(r"\(extra `\w+`\)", "", cell)) if re.fullmatch(r"\w+", name)]


@pytest.fixture(scope="session")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the data sets lie that commands name."""
    home = tmp_path_factory.mktemp("minari")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(home))
        minari_dataset("cartpole/expert-v0", "CartPole-v1", lambda obs: int(obs[2] > 0), [70])
        minari_dataset("pendulum/expert-v0", "Pendulum-v1", lambda obs: np.zeros(1, np.float32), [70])
    return home


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, datasets: Path) -> Iterator[Path]:
    """The working directory, with all that the documents' commands name."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(datasets))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for path, code in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(code)
    yield tmp_path
    for module in [name for name in sys.modules if name.startswith("my_")]:
        del sys.modules[module]
    gymnasium.registry.pop("Corridor-v0", None)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_block_has_its_class(document: str) -> None:
    blocks = blocks_of(document)
    assert text_of(document).count("\n```") == 2 * len(blocks)
    for block in blocks:
        assert block.use in CLASSES.get(block.language, ()), block.text
        assert (block.use in ("file", "of")) == bool(block.argument)


def test_a_file_has_one_content_and_its_path_stands_above_it() -> None:
    for block in BLOCKS:
        if block.use == "file":
            assert FILES[block.argument] == block.text, block.argument
            assert f"`{block.argument}`" in block.before[-400:], block.argument
            assert block.argument.endswith(".py" if block.language == "python" else ".yaml")


# Each once.
CHECKED = {" ".join(words): words for block in blocks_with("sh", "check") for words in commands_of(block)}


@pytest.mark.parametrize("words", CHECKED.values(), ids=CHECKED)
def test_commands_are_accepted_as_typed(words: list[str], examples: Path) -> None:
    accept(words)


def accept(words: list[str]) -> None:
    command, *rest = words
    if command in ("find", "options"):
        rest[0] = f"{COMMANDS[command].positional}={rest[0]}"
    config_dir = None
    if "--config-dir" in rest:
        at = rest.index("--config-dir")
        _, config_dir = rest.pop(at), rest.pop(at)
    overrides = [word for word in rest if word != "-m"]
    found = COMMANDS[command]
    found.checked(found.meant(overrides), config_dir, multirun="-m" in rest)


def test_commands_that_are_only_shown_have_names_and_settings_that_there_are() -> None:
    conf = ROOT / "conf"
    known = {path.name for path in conf.iterdir()} | {"hydra", "trust"}
    for path in conf.glob("*.yaml"):
        known |= set(re.findall(r"^ *(\w+):", path.read_text(), re.MULTILINE))
    for block in blocks_with("sh", "shown"):
        for command, *rest in commands_of(block):
            assert command in {*COMMANDS, "-sc", "version"}, command
            keys = [word.partition("=")[0].lstrip("+~") for word in rest if re.match(r"[\w.+~]+=", word)]
            assert {key.partition(".")[0] for key in keys} <= known | {"install"}, rest


@pytest.mark.parametrize("block", blocks_with("output", "of"), ids=lambda block: block.argument)
def test_output_is_what_the_command_prints(block: Block, tuner: CommandLine) -> None:
    name, *words = shlex.split(block.argument)
    answer = tuner(*words)
    assert name == "tuner"
    assert re.fullmatch(re.escape(block.text).replace(r"\.\.\.", ".*"), answer.output + answer.errors, re.DOTALL)


@pytest.mark.parametrize("block", blocks_with("python", "check"), ids=lambda block: block.document)
def test_calls_are_accepted(block: Block) -> None:
    import tuner as package

    for call in [node for node in ast.walk(ast.parse(block.text)) if isinstance(node, ast.Call)]:
        if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "tuner":
            inspect.signature(getattr(package, call.func.attr)).bind(
                *call.args, **{one.arg: 0 for one in call.keywords}
            )
            if call.func.attr in ("train", "tune"):
                preflight(call.func.attr, ast.literal_eval(call.args[0]))


def test_code_that_is_only_shown_imports_what_there_is() -> None:
    for node in (node for block in blocks_with("python", "shown") for node in ast.walk(ast.parse(block.text))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("note_rl", "tuner", "tests")):
            spec = find_spec(node.module or "")
            assert spec is not None
            assert spec.origin is not None
            assert all(name.name in Path(spec.origin).read_text() for name in node.names), ast.unparse(node)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(document)):
        path, _, anchor = target.partition("#")
        if path.startswith("https:"):
            continue
        file = (ROOT / document).parent / path if path else ROOT / document
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_choices_are_those_of_conf() -> None:
    text = section("README.md", "What is in it")
    named = {}
    for groups, names in rows_in(text, "group"):
        for group, part in zip(names_in(groups), names.split(";") if "," in groups else [names], strict=True):
            named[group] = names_in(part)
    named["agent"] = [name for first, *_ in rows_in(text, "algorithm (`agent=`)") for name in names_in(first)]
    del named["experiment"]  # the folder is linked
    for group, names in named.items():
        assert set(names) == {path.stem for path in (ROOT / "conf" / group).glob("*.yaml")}, group


VOCABULARY = rows_in(text_of("tuner/guide/python.md"), "Python: `agent.set(...)`, `agent.train(...)`")
PYTHON_NAMES = {name for first, _ in VOCABULARY for code in quoted(first) for name in re.findall(r"(\w+)=", code)}


@pytest.mark.parametrize("name", sorted(PYTHON_NAMES - {"total_steps", "episodes"}))
def test_python_names_of_the_vocabulary_are_arguments(name: str) -> None:
    if name not in {field.name for field in fields(TrainOptions)}:
        settings_from_set(**{name: None, "policy": GreedyQPolicy()})  # refuses what it does not know


def test_other_names_of_the_vocabulary_are_settings() -> None:
    ways = (["agent=ppo"], ["agent=prioritized_dqn"], ["agent=ddpg_her"], ["agent=acer"], ["collector=pool"])
    configs = [OmegaConf.to_container(preflight("train", way)) for way in ways]
    more = {f"buffer.{field.name}" for kind in (ReplaySettings, RolloutSettings) for field in fields(kind)}
    for second in (second for _, second in VOCABULARY):
        for plus, key in re.findall(r"`(\+?)([\w.]+)=", second):
            assert key in more | {"agent.frame_stack"} if plus else any(_has(config, key) for config in configs), key


TABLES = {
    "tuner/guide/from-xagents.md": "xagents",
    "tuner/guide/from-sb3.md": "Stable-Baselines3",
    "tuner/guide/from-rl-zoo3.md": "rl-zoo3",
}
LAYERS = """[dense-0]
units=8
activation=tanh
[dense-1]
output=1
"""


def typed_in(document: str, first_heading: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Commands and their settings that the last column of a document's tables says to type."""
    headings = re.findall(r"^\| ([^|]+) \| here \|$", text_of(document), re.MULTILINE)
    assert headings[0] == first_heading
    for first, second in re.findall(r"^\| (.+?) \| (.+) \|$", text_of(document), re.MULTILINE):
        if "(" in first:  # a call in Python
            continue
        for words in map(shlex.split, quoted(second.replace("\\|", "/"))):
            command, rest = (words[1], words[2:]) if words[0] == "tuner" else ("train", words)
            settings = tuple(word for word in rest if re.match(r"[~+\w.@]+=|~", word) and not word.endswith("=RUN"))
            if words[0] == "tuner" or settings == tuple(rest):
                yield command, settings


def batches(lines: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[tuple[str, list[str]]]:
    """Settings of the default run together, as long as none has two values; each line that makes a choice by itself."""
    merged: dict[str, str] = {}
    for command, settings in lines:
        given = {word.partition("=")[0]: word for word in settings}
        chooses = any((ROOT / "conf" / key.partition("@")[0].lstrip("+")).is_dir() for key in given)
        if command != "train" or chooses or any(merged.get(key, word) != word for key, word in given.items()):
            yield command, list(settings)
        else:
            merged |= given
    yield "train", list(merged.values())


@pytest.mark.parametrize("document", TABLES)
def test_what_users_of_other_libraries_are_to_type_is_accepted(document: str, examples: Path) -> None:
    """All that a run can be asked for; a run or study to go on with is for other tests."""
    for name in ("model", "actor", "critic"):
        Path(f"{name}.cfg").write_text(LAYERS)
    lines = list(typed_in(document, TABLES[document]))
    assert len(lines) > 20
    for command, settings in batches(lines):
        assert command in COMMANDS
        preflight(COMMANDS[command].config_name, settings)


def _has(config: Any, key: str) -> bool:
    for part in key.split("."):
        if part not in config:
            return False
        config = config[part]
    return True


@pytest.mark.parametrize("package", ["note_rl", "tuner"])
def test_rooms_are_listed_from_the_ground_up(package: str) -> None:
    text = section(f"{package}/README.md", "Folders")
    listed = [name for first, _ in rows_in(text, "folder") for name in quoted(first)]
    assert [name.removesuffix("/").removesuffix(".py") for name in listed] == list(ROOMS[package])


def test_groups_and_commands_are_listed() -> None:
    text, conf = section("conf/README.md", "Files and groups"), ROOT / "conf"
    groups = [name for first, _ in rows_in(text, "group") for name in quoted(first)]
    assert sorted(groups) == sorted(f"{path.name}/" for path in conf.iterdir() if path.is_dir())
    files = [name for first, _ in rows_in(text, "file") for name in quoted(first)]
    assert sorted(files) == sorted(path.name for path in conf.glob("*.yaml"))


RUN = {
    "README.md",
    *(f"tuner/guide/{name}.md" for name in ("agents", "alphazero", "adapt", "extend", "python", "recurrent")),
}
"""Documents whose blocks are run by the tests below, which look at what comes of it."""


def test_every_document_with_blocks_that_are_run_has_its_test() -> None:
    assert {block.document for block in BLOCKS if block.use == "run"} == RUN


def run_code(document: str) -> dict[str, Any]:
    """Executes the Python blocks of a document that are to be run, made small; what they have defined."""
    names: dict[str, Any] = {}
    for block in blocks_of(document):
        if (block.language, block.use) == ("python", "run"):
            code = block.text
            for old, new in SMALLER.items():
                code = code.replace(old, new)
            exec(code, names)
    return names


def run_commands(tuner: CommandLine, document: str, *more: str) -> None:
    """Types the commands of a document that are to be run, made small; runs of `tuner train` go to run0, run1, ..."""
    blocks = [block for block in blocks_of(document) if (block.language, block.use) == ("sh", "run")]
    for number, (command, *words) in enumerate(words for block in blocks for words in commands_of(block)):
        run = ("tracker=jsonl",) if "agent=synthetic" in words else (*SMALL, *more)
        size = (*run, *([f"hydra.run.dir=run{number}"] if command == "train" else SMALL_STUDY))
        typed = {word.partition("=")[0] for word in words} & {"tracker", "executor", "storage"}
        answer = tuner(command, *words, *(word for word in size if word.partition("=")[0] not in typed))
        assert answer.status == 0, answer.errors


def test_the_agent_of_the_front_page_believes_a_part() -> None:
    import torch

    agent = run_code("README.md")["CautiousDQN"](4, (8,), 2)
    agent.target_q_net = lambda next_s: torch.tensor([[1.0, 3.0]])
    assert float(agent.next_value(None)) == pytest.approx(0.9 * 3.0)


def test_the_agent_of_the_guide_trains() -> None:
    names = run_code("tuner/guide/python.md")
    assert names["agent"].num_env_steps == 256
    assert names["agent"].num_gradient_steps == 256 // 64 * 32
    assert 8 <= names["agent"].evaluate(1).mean <= 500


def test_an_agent_searches_in_the_simulator_of_the_guide() -> None:
    agent = run_code("tuner/guide/alphazero.md")["agent"]
    assert type(agent.simulator).__name__ == "StateSimulator"
    assert agent.predict(np.array([-0.5, 0.0], np.float32))[0] in range(3)


def test_an_algorithm_is_added(tuner: CommandLine, examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.runs.training.LOG_INTERVAL_S", 0.0)
    run_commands(tuner, "tuner/guide/agents.md", "buffer.learning_starts=64")
    trials = [json.loads(path.read_text()) for path in (examples / "studies").glob("*/screen/*/trial.json")]
    assert {trial["config"]["agent"]["_target_"] for trial in trials} == {"my_agents.MellowmaxDQN"}
    assert len({trial["config"]["agent"]["omega"] for trial in trials}) == 3
    lines = [json.loads(line) for line in (examples / "run0" / "metrics.jsonl").read_text().splitlines()]
    softness = [line["train/softness"] for line in lines if "train/softness" in line]
    assert softness
    assert 0.0 < min(softness) <= max(softness) <= np.log(2) / 10.0  # of two actions, by the omega of the YAML

    import torch
    from my_agents import MellowmaxDQN  # the example

    agent = MellowmaxDQN(4, (8,), 2, omega=2.0)
    agent.target_q_net = lambda next_s: torch.tensor([[1.0, 3.0]])
    expected = np.log((np.exp(2.0 * 1.0) + np.exp(2.0 * 3.0)) / 2) / 2.0
    assert float(agent.next_value(None)) == pytest.approx(expected)


def test_an_agent_takes_its_updates_by_itself(examples: Path) -> None:
    import torch
    from my_patient_a2c import PatientA2C  # the example

    agent = PatientA2C(2, (3,), 2, critic_steps=3)
    by_hand = copy.deepcopy(agent.critic)
    agent.learner.prepare([torch.optim.SGD(group, 0.1) for group in agent.param], None, (), "auto")
    given = sample(1, 8, advantage=True, return_=True)
    loss = agent.learner.update(given, {}).loss
    obs, wanted = (torch.from_numpy(values[0]) for values in (given.obs, given.extras["return_"]))
    descent = torch.optim.SGD(by_hand.parameters(), 0.1)
    for _ in range(3):
        error = (by_hand(obs)[:, 0] - wanted).square().mean()
        descent.zero_grad()
        error.backward()
        descent.step()
    assert loss[0, 1] == pytest.approx(error.item())
    for mine, expected in zip(agent.critic.parameters(), by_hand.parameters(), strict=True):
        np.testing.assert_allclose(mine.detach(), expected.detach(), rtol=1e-5)


def test_sequences_are_learned_from(examples: Path) -> None:
    import torch
    from my_sequences import LambdaDQN  # the example

    agent = LambdaDQN(hidden_size=4, gamma=0.5)
    agent.set(policy=GreedyQPolicy(), num_envs=2, pool_size=400, seed=0)
    agent.train(torch.optim.Adam(agent.param, 1e-3), total_steps=320, p=0, jit_compile=False)
    assert agent.num_gradient_steps > 320 // 16  # each rollout once, and then from the pool

    agent.next_value = lambda next_s: torch.tensor([1.0, 2.0, 4.0, 8.0])
    agent.q_net = lambda s: torch.zeros(4, 2)
    r, zeros = torch.ones(1, 4), torch.zeros(1, 4)
    agent.discount, agent.ended = torch.tensor([[0.5, 0.5, 0.0, 0.5]]), torch.tensor([[0.0, 1.0, 0.0, 0.0]])
    third = 1.0 + 0.7 * 0.0  # the task ended: what follows counts for nothing
    second = 1.0 + 0.5 * 2.0  # cut off: what was seen last has a value, and nothing is looked at behind
    first = 1.0 + 0.5 * (0.3 * 1.0 + 0.7 * second)
    expected = (first**2 + second**2 + third**2 + (1.0 + 0.5 * 8.0) ** 2) / 4
    loss = agent(torch.zeros(1, 4, 4), zeros.long(), torch.zeros(1, 4, 4), r, zeros)
    assert float(loss) == pytest.approx(expected)


def test_an_agent_with_a_memory_is_added(tuner: CommandLine, examples: Path) -> None:
    run_commands(tuner, "tuner/guide/recurrent.md")
    result = json.loads((examples / "run0" / "result.json").read_text())
    used = OmegaConf.load(examples / "run0" / "config.yaml")
    assert used["agent"] == {"_target_": "my_memory.MemoryActorCritic", "units": 32, "gamma": 0.99}
    rollouts = -(-used["training"]["total_steps"] // (8 * 21))
    assert (result["num_env_steps"], result["num_gradient_steps"]) == (rollouts * 8 * 21, rollouts)


def test_a_signal_is_added(tuner: CommandLine, examples: Path) -> None:
    often = ("+adaptive.period=1", "+adaptive.warm_up=1", "+adaptive.calibration=1", *SMALL_AGENTS["dqn"])
    run_commands(tuner, "tuner/guide/adapt.md", *often)
    decisions = [json.loads(line) for line in (examples / "run0" / "decisions.jsonl").read_text().splitlines()]
    assert decisions
    assert {one["signal"] for one in decisions} == {"error_size"}
    assert all((one["q"] < 1.0) == (one["value"] > decisions[0]["value"] / decisions[0]["q"]) for one in decisions)

    from my_signals import ErrorSize  # the example

    update = Update(loss=np.zeros((1, 1)), td_error=np.array([[1.0, -3.0]]))
    assert ErrorSize().after_update(None, update, None) == 2.0


def test_an_environment_a_sampler_a_tracker_and_an_executor_are_added(tuner: CommandLine, examples: Path) -> None:
    run_commands(tuner, "tuner/guide/extend.md")

    evaluations = json.loads((examples / "run0" / "result.json").read_text())["evaluations"]
    possible = [-5.0, *(1.0 - 0.1 * steps for steps in range(3, 50))]
    assert all(np.isclose(one["mean_return"], possible, atol=0.06).any() for one in evaluations)

    assert "QMCSampler (qmc_type halton" in (examples / "studies" / "halton" / "report.json").read_text()

    with (examples / "run2" / "measurements.csv").open() as file:
        steps = [int(step) for step, name, _ in csv.reader(file) if name == "eval/mean_return"]
    assert steps == [80, 160, 240]

    assert {"screen/0", "screen/1", "screen/2"} <= set((examples / "started.txt").read_text().split())


def test_the_corridor_ends_at_its_exit(examples: Path) -> None:
    from my_envs import Corridor  # the example

    env = Corridor()
    env.reset()
    assert [env.step(1)[1:3] for _ in range(4)] == [(-0.1, False), (-0.1, False), (-0.1, False), (1.0, True)]


def test_a_test_is_added(tuner: CommandLine) -> None:
    (code,) = (block.text for block in blocks_of("tests/README.md") if block.language == "python")
    names: dict[str, Any] = {}
    exec(code, names)
    names["test_a_run_leaves_its_result"](tuner)
