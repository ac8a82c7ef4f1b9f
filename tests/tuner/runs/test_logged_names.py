"""The names of metrics that are known before a run, against what agents say and runs log."""

import ast
import importlib
from pathlib import Path
from typing import Any

import pytest

import note_rl
from note_rl.training.agent import Agent
from tests.tuner.command_line import SMALL, SMALL_AGENTS, CommandLine
from tuner.commands import COMMANDS
from tuner.runs.config_checks import resolve
from tuner.runs.logged_names import logged_names, without_number
from tuner.trial.folder import read_logged
from tuner.trial.messages import JsonDict

AGENTS = Path(note_rl.__file__ or "").parent / "agents"
OF_VALUES = {"q_mean", "at_bounds"}
"""Names that DQN reports, of which its kinds of values make a dictionary."""
NAMELESS = {"double_dqn", "dueling_dqn"}


def config_of(target: str, **changes: Any) -> JsonDict:
    training = {"max_grad_norm": None}
    return {
        "backend": {},
        "agent": {"_target_": target},
        "schedule": {},
        "training": training,
        "adaptive": {},
    } | changes


def reported_in(file: Path) -> dict[str, set[str]]:
    """By class of a file, the names that its methods give to report()."""
    found = {}
    for node in ast.parse(file.read_text()).body:
        calls = (
            [call for call in ast.walk(node) if isinstance(call, ast.Call)] if isinstance(node, ast.ClassDef) else []
        )
        reports = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "report"]
        if reports:
            assert isinstance(node, ast.ClassDef)
            found[node.name] = {word.arg for call in reports for word in call.keywords if word.arg is not None}
    return found


@pytest.mark.parametrize(("package", "file"), [("pytorch", "torch.py"), ("keras", "keras.py")])
def test_agents_declare_what_they_report(package: str, file: str) -> None:
    module = importlib.import_module(f"note_rl.agents.{package}")
    reported = {name: names for path in AGENTS.glob(f"*/{file}") for name, names in reported_in(path).items()}
    assert len(reported) > 12
    for name, kind in vars(module).items():
        if isinstance(kind, type) and issubclass(kind, Agent):
            lines = [reported[base.__name__] for base in kind.__mro__ if base.__name__ in reported]
            said = set().union(*lines) | (OF_VALUES if "DQN" in name else set())
            assert set(kind.reported_names) == said, name


@pytest.mark.parametrize("agent", sorted(set(SMALL_AGENTS) - NAMELESS))
def test_runs_log_no_other_names(tuner: CommandLine, agent: str) -> None:
    typed = (*SMALL, *SMALL_AGENTS[agent], "training.max_grad_norm=1")
    assert tuner("train", *typed, "hydra.run.dir=mine").status == 0
    logged = set(read_logged(tuner.folder / "mine"))
    command = COMMANDS["train"]
    known = logged_names(resolve(command.checked(command.meant(typed)).config), ())
    assert known is not None
    assert {"train/loss", "eval/mean_return"} <= {*map(without_number, logged)}
    assert {*map(without_number, logged)} - known == {"num_parameters"}


@pytest.mark.parametrize(
    ("change", "searched"),
    [
        ({"agent": {"_target_": "my_rl.MyDQN"}}, ()),
        ({"backend": None}, ()),
        ({"adaptive": {"_target_": "note_rl.settings.Adaptive"}}, ()),
        ({}, ("schedule.eps.start",)),
    ],
)
def test_nobody_knows_what_others_log(change: JsonDict, searched: tuple[str, ...]) -> None:
    assert logged_names(config_of("note_rl.agents.pytorch.DQN"), ("agent.gamma",)) is not None
    assert logged_names(config_of("note_rl.agents.pytorch.DQN") | change, searched) is None


def test_names_follow_the_settings() -> None:
    ppo, dqn = "note_rl.agents.pytorch.PPO", "note_rl.agents.keras.DQN"
    found = logged_names(config_of(ppo), ())
    assert found is not None
    assert {"train/approx_kl", "train/explained_variance", "train/clip_fraction"} <= found
    assert not {"train/gradient_norm", "train/q_mean", "train/eps"} & found
    clipped = logged_names(config_of(ppo), ("training.max_grad_norm",))
    assert clipped is not None
    assert clipped - found == {"train/gradient_norm"}
    scheduled = logged_names(config_of(dqn, schedule={"eps": {}}, training={"max_grad_norm": 10.0}), ())
    assert scheduled is not None
    assert {"train/eps", "train/gradient_norm", "train/at_bounds"} <= scheduled
    assert "train/explained_variance" not in scheduled
    assert without_number("train/learning_rate:1") == "train/learning_rate"


def test_sections_and_keys_may_be_left_out() -> None:
    config = config_of("note_rl.agents.pytorch.R2D2", training={})
    del config["schedule"]
    names = logged_names(config, ())
    assert names is not None
    assert {"train/q_mean", "train/gradient_norm"} <= names  # the class of R2D2 has a limit of its own
