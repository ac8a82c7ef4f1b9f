"""What README files and the like show: commands are accepted, examples run, tables and links name what is there."""

import copy
import csv
import json
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
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
from tests.note_rl.samples import sample
from tests.recorded import minari_dataset
from tests.tuner.command_line import SMALL, SMALL_AGENTS, CommandLine, files_read_once, tuner
from tests.tuner.test_layering import ROOMS
from tuner.commands import COMMANDS
from tuner.commands.preflight import preflight

__all__ = ["files_read_once", "tuner"]

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    *(f"{folder}/README.md" for folder in ("note_rl", "note_rl/learners/pytorch/step_graph", "tuner", "conf", "tests")),
]
SMALL_STUDY = (
    *("study.num_trials=3", "study.num_race_seeds=0", "study.num_candidates=1", "study.num_select_seeds=1"),
    "study.num_test_seeds=1",
)
LEFT_TO_THE_READER = {  # modules that commands name and no document shows
    "my_pkg.py": 'import gymnasium\ngymnasium.register("MyEnv-v0", "gymnasium.envs.classic_control:CartPoleEnv")\n',
    "my_module.py": """
import optuna

def train(lr): ...

class MySampler(optuna.samplers.RandomSampler):
    def __init__(self, its_argument, seed=None):
        super().__init__(seed)
""",
    "my_rl/__init__.py": "",
    "my_rl/agents.py": """
from note_rl.agents.pytorch import DQN

class CautiousDQN(DQN):
    def __init__(self, *args, trust, **kwargs):
        super().__init__(*args, **kwargs)
""",
}


def text_of(document: str) -> str:
    return (ROOT / document).read_text()


def section(document: str, heading: str) -> str:
    """What stands below a heading, up to the next one."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text_of(document), re.MULTILINE | re.DOTALL)
    assert found, f"{document} has no section {heading!r}"
    return found[1]


def blocks_in(text: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands_in(text: str) -> Iterator[list[str]]:
    """The words behind `tuner` on every line of a shell block that calls it."""
    for code in blocks_in(text, "sh"):
        for line in code.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if "tuner" in words:
                yield words[words.index("tuner") + 1 :]


def files_in(text: str) -> dict[str, str]:
    """The examples by their paths: blocks behind a path and a colon."""
    return dict(re.findall(r"`(my_[\w./]+)`[^`]*:\n\n```(?:python|yaml)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def rows_in(text: str, first_heading: str) -> list[list[str]]:
    """The cells of the table whose first column has this heading."""
    lines = iter(text.splitlines())
    next(line for line in lines if line.startswith(f"| {first_heading} |"))
    next(lines)
    cells: list[list[str]] = []
    for line in lines:
        if not line.startswith("|"):
            break
        cells.append([cell.strip() for cell in line.strip("|").split("|")])
    return cells


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def names_in(cell: str) -> list[str]:
    """What is quoted and no setting, command or title of an extra."""
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
    shown = {path: code for document in DOCUMENTS for path, code in files_in(text_of(document)).items()}
    for path, code in {**shown, **LEFT_TO_THE_READER}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(code)
    yield tmp_path
    for module in [name for name in sys.modules if name.startswith("my_")]:
        del sys.modules[module]
    for own in ("Corridor-v0", "MyEnv-v0"):
        gymnasium.registry.pop(own, None)


# Each once. Commands about a run or study that somebody has made are tested where these are made.
SHOWN_COMMANDS = {
    " ".join(words): words
    for document in DOCUMENTS
    for words in commands_in(text_of(document))
    if not re.search(r"\b(NAME|RUN)\b", " ".join(words))
}


@pytest.mark.parametrize("words", SHOWN_COMMANDS.values(), ids=SHOWN_COMMANDS)
def test_commands_are_accepted_as_typed(words: list[str], examples: Path) -> None:
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


VOCABULARY = rows_in(section("README.md", "What is in it"), "Python: `agent.set(...)`, `agent.train(...)`")
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


XAGENTS = [
    words
    for _, second in rows_in(section("README.md", "From Python"), "xagents")
    for words in map(shlex.split, quoted(second))
]
LAYERS = """[dense-0]
units=8
activation=tanh
[dense-1]
output=1
"""


@pytest.mark.parametrize("words", XAGENTS, ids=" ".join)
def test_what_users_of_xagents_are_to_type_is_accepted(words: list[str], examples: Path) -> None:
    """All that a run can be asked for; a run or study to go on with is for other tests."""
    for name in ("model", "actor", "critic"):
        Path(f"{name}.cfg").write_text(LAYERS)
    command, rest = (words[1], words[2:]) if words[0] == "tuner" else ("train", words)
    assert command in COMMANDS
    settings = [word for word in rest if "=" in word or word.startswith("~")]
    preflight(COMMANDS[command].config_name, [word for word in settings if not word.endswith("=RUN")])


def _has(config: Any, key: str) -> bool:
    for part in key.split("."):
        if part not in config:
            return False
        config = config[part]
    return True


@pytest.mark.parametrize("package", ["note_rl", "tuner"])
def test_rooms_are_listed_from_the_ground_up(package: str) -> None:
    listed = [name for first, _ in rows_in(section(f"{package}/README.md", "Rooms"), "room") for name in quoted(first)]
    assert [name.removesuffix("/").removesuffix(".py") for name in listed] == list(ROOMS[package])


def test_groups_and_commands_are_listed() -> None:
    text, conf = section("conf/README.md", "Files and groups"), ROOT / "conf"
    groups = [name for first, _ in rows_in(text, "group") for name in quoted(first)]
    assert sorted(groups) == sorted(f"{path.name}/" for path in conf.iterdir() if path.is_dir())
    files = [name for first, _ in rows_in(text, "file") for name in quoted(first)]
    assert sorted(files) == sorted(path.name for path in conf.glob("*.yaml"))


def test_the_agent_of_the_readme_trains() -> None:
    (code,) = [code for code in blocks_in(section("README.md", "From Python"), "python") if "class DQN" in code]
    names: dict[str, Any] = {}
    exec(code.replace("30_000", "256").replace("evaluate(20)", "evaluate(1)"), names)
    assert names["agent"].num_env_steps == 256
    assert names["agent"].num_gradient_steps == 256 // 64 * 32
    assert 8 <= names["agent"].evaluate(1).mean <= 500


def run_section(tuner: CommandLine, document: str, heading: str, *more: str, study: Sequence[str] = ()) -> None:
    """Types the commands that a section shows, made small."""
    for command, *words in commands_in(section(document, heading)):
        size = ("hydra.run.dir=run",) if command == "train" else (*SMALL_STUDY, *study)
        answer = tuner(command, *words, *more, *size)
        assert answer.status == 0, answer.errors


def test_an_algorithm_is_added(tuner: CommandLine, examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.runs.training.LOG_INTERVAL_S", 0.0)
    small = (*SMALL, "buffer.learning_starts=64")
    run_section(tuner, "note_rl/README.md", "To add an algorithm", *small, study=["executor=inline"])
    trials = [json.loads(path.read_text()) for path in (examples / "studies").glob("*/screen/*/trial.json")]
    assert {trial["config"]["agent"]["_target_"] for trial in trials} == {"my_agents.MellowmaxDQN"}
    assert len({trial["config"]["agent"]["omega"] for trial in trials}) == 3
    lines = [json.loads(line) for line in (examples / "run" / "metrics.jsonl").read_text().splitlines()]
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


def test_a_signal_is_added(tuner: CommandLine, examples: Path) -> None:
    often = ("+adaptive.period=1", "+adaptive.warm_up=1", "+adaptive.calibration=1", *SMALL_AGENTS["dqn"])
    run_section(tuner, "note_rl/README.md", "To add a signal", *SMALL, *often)
    decisions = [json.loads(line) for line in (examples / "run" / "decisions.jsonl").read_text().splitlines()]
    assert decisions
    assert {one["signal"] for one in decisions} == {"error_size"}
    assert all((one["q"] < 1.0) == (one["value"] > decisions[0]["value"] / decisions[0]["q"]) for one in decisions)

    from my_signals import ErrorSize  # the example

    update = Update(loss=np.zeros((1, 1)), td_error=np.array([[1.0, -3.0]]))
    assert ErrorSize().after_update(None, update, None) == 2.0


def test_an_environment_is_added(tuner: CommandLine, examples: Path) -> None:
    run_section(tuner, "conf/README.md", "To add an environment", *SMALL)
    evaluations = json.loads((examples / "run" / "result.json").read_text())["evaluations"]
    possible = [-5.0, *(1.0 - 0.1 * steps for steps in range(3, 50))]
    assert all(np.isclose(one["mean_return"], possible, atol=0.06).any() for one in evaluations)

    from my_envs import Corridor  # the example

    env = Corridor()
    env.reset()
    assert [env.step(1)[1:3] for _ in range(4)] == [(-0.1, False), (-0.1, False), (-0.1, False), (1.0, True)]


def test_a_sampler_is_added(tuner: CommandLine, examples: Path) -> None:
    run_section(tuner, "tuner/README.md", "To add a sampler or a pruner")
    assert "QMCSampler (qmc_type halton" in (examples / "studies" / "halton" / "report.json").read_text()


def test_a_tracker_is_added(tuner: CommandLine, examples: Path) -> None:
    run_section(tuner, "tuner/README.md", "To add a tracker", *SMALL[1:])
    with (examples / "run" / "measurements.csv").open() as file:
        steps = [int(step) for step, name, _ in csv.reader(file) if name == "eval/mean_return"]
    assert steps == [80, 160, 240]


def test_an_executor_is_added(tuner: CommandLine, examples: Path) -> None:
    run_section(tuner, "tuner/README.md", "To add an executor")
    started = (examples / "started.txt").read_text().split()
    assert {"screen/0", "screen/1", "screen/2"} <= set(started)


def test_a_test_is_added(tuner: CommandLine) -> None:
    (code,) = blocks_in(section("tests/README.md", "To add a test"), "python")
    names: dict[str, Any] = {}
    exec(code, names)
    names["test_a_run_leaves_its_result"](tuner)
