"""A hyperparameter is one line in one file: seen in Python, in the check of a configuration and in `tuner options`."""

import importlib
import inspect
import json
import sys
from pathlib import Path

import pytest
import yaml

from note_rl.support.value_kinds import Number
from tests.tuner.command_line import SMALL, CommandLine
from tuner.config.setting_declarations import check_declared, declared_in
from tuner.config.signatures import signature_of
from tuner.errors import UserError

AGENTS = [
    *("A2C", "ACER", "BC", "DDPG", "DQN", "GAIL", "MADDPG", "PPO", "SAC", "TD3", "TRPO", "TQC", "CrossQ", "DoubleDQN"),
    *("DuelingDQN", "SACDiscrete", "AlphaZero", "R2D2"),
]
PACKAGES = {"torch": "pytorch", "keras": "keras"}

SETTINGS = '''
from note_rl.agents.dqn import DQNSettings
from note_rl.settings.fields import setting
from note_rl.support.value_kinds import Number


class SoftSettings(DQNSettings):
    """Soft."""

    omega: float = setting(
        default=2.0, kind=Number(0.0, 9.0, above=True), text="Hardness.", effect="higher: harder", typical="1 to 3"
    )
'''
AGENT = """
from my_settings import SoftSettings
from note_rl.agents.{package} import DQN


class Soft(SoftSettings, DQN):
    reads_triplets = False
"""


@pytest.fixture
def soft(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """An algorithm of a user's own that declares one setting, in both frameworks."""
    for name in ("my_settings", "my_pytorch", "my_keras"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    Path("my_settings.py").write_text(SETTINGS)
    for package in PACKAGES.values():
        Path(f"my_{package}.py").write_text(AGENT.format(package=package))
    Path("my_conf/agent").mkdir(parents=True)
    Path("my_conf/agent/soft.yaml").write_text(
        "# @package _global_\n# Soft.\ndefaults: [dqn]\nagent:\n  _target_: my_${backend.package}.Soft\n"
    )
    sys.path.insert(0, str(tuner.folder))
    return tuner


@pytest.mark.parametrize("backend", PACKAGES)
def test_one_line_is_seen_everywhere(soft: CommandLine, backend: str) -> None:
    typed = ("--config-dir", "my_conf", "agent=soft", "space=dqn", f"backend={backend}")
    shown = json.loads(soft("options", *typed, "json=true").output)
    option = next(one for one in shown["options"] if one["key"] == "+agent.omega")
    assert option == {
        "key": "+agent.omega",
        "default": 2.0,
        "range": "above 0 to 9",
        "search": None,
        "searched": "",
        "text": "Hardness.",
        "effect": "higher: harder",
        "typical": "1 to 3",
    }
    listed = soft("options", *typed).output
    assert "+agent.omega=2.0" in listed
    assert "above 0 to 9; usually 1 to 3" in listed
    run = [one for one in typed if not one.startswith("space")]
    error = soft.refused("train", *run, "+agent.omega=10")
    assert "agent.omega=10 is not possible: it must be above 0 and at most 9" in error
    assert "takes no omegaa; did you mean agent.omega?" in soft.refused("train", *run, "+agent.omegaa=1")
    kind = importlib.import_module(f"my_{PACKAGES[backend]}").Soft
    assert inspect.signature(kind).parameters["omega"].default == 2.0
    assert "omega: Hardness. Higher: harder. Usually 1 to 3." in inspect.getdoc(kind)
    if backend == "keras":  # which hands the same settings on, and traces for long
        return
    done = soft("train", *run, *SMALL, "+agent.omega=3", "buffer.learning_starts=64", "hydra.run.dir=run")
    assert done.status == 0, done.errors
    assert yaml.safe_load(Path("run/config.yaml").read_text())["agent"]["omega"] == 3


@pytest.mark.parametrize("package", PACKAGES.values())
@pytest.mark.parametrize("name", AGENTS)
def test_what_a_configuration_may_say_is_what_is_declared(package: str, name: str) -> None:
    target = f"note_rl.agents.{package}.{name}"
    signature, declared = signature_of(target), declared_in(target)
    assert signature is not None
    assert not signature.is_open
    assert signature.parameters.keys() == declared.keys()
    assert [one for one, argument in signature.parameters.items() if argument.required] == (
        ["env"] if name == "MADDPG" else []
    )


@pytest.mark.parametrize("package", PACKAGES.values())
def test_optimizers_and_networks_are_declared_too(package: str) -> None:
    targets = [
        *(f"note_rl.optimizers.{package}.{name}" for name in ("adam", "adamw", "rmsprop", "sgd")),
        *(f"note_rl.agents.{package}.networks.{name}" for name in ("MLP", "CNN")),
        f"note_rl.agents.{package}.layered.layered_network",
        f"note_rl.agents.{package}.encoded.encoded_network",
    ]
    for target in targets:
        signature, declared = signature_of(target), declared_in(target)
        module, _, name = target.rpartition(".")
        taken = inspect.signature(getattr(importlib.import_module(module), name)).parameters
        assert signature is not None
        assert list(signature.parameters) == list(taken)
        assert declared
        assert declared.keys() == taken.keys() - {"parameters", "input_shape", "num_outputs"}
        assert {one.name: one.default for one in declared.values()} == {one: taken[one].default for one in declared}


def test_what_others_declare_is_read_from_their_source_and_means_nothing_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_parts.py").write_text(
        "from note_rl.agents.pytorch import PPO\n"
        "from note_rl.settings.fields import setting\n"
        "from note_rl.support.value_kinds import POSITIVE, Number\n"
        "raise SystemExit('it was imported')\n"
        "class Mine(PPO):\n"
        "    heat: float = setting(0.5, Number(lowest=0.0, highest=1.0), text='Warmth.')\n"
        "    cold: float = setting(default=worked_out(), kind=another(3), text='Frost.')\n"
        "class Own:\n"
        "    def __init__(self, gamma=7.0):\n"
        "        ...\n"
    )
    mine = declared_in("my_parts.Mine")
    assert mine["heat"].kind == Number(0.0, 1.0)
    assert (mine["heat"].default, mine["heat"].text, mine["cold"].kind) == (0.5, "Warmth.", None)
    assert mine["clip"] == declared_in("note_rl.agents.keras.PPO")["clip"]
    assert declared_in("my_parts.Own") == {}
    adam = {"_target_": "note_rl.optimizers.keras.adam", "beta1": 1.0}
    network = {"_target_": "note_rl.agents.keras.networks.MLP"}
    critic = {**network, "hidden_sizes": [4, 0]}
    for agent, optimizer, networks, message in [
        ({"_target_": "my_parts.Mine", "heat": 2}, {}, network, "agent.heat=2 .* it must lie between 0 and 1"),
        ({"_target_": "my_parts.Own", "gamma": 7}, adam, network, "optimizer.beta1=1.0 .* at least 0 and below 1"),
        (
            {"_target_": "note_rl.agents.keras.DoubleDQN", "v_min": 2.5, "v_max": 1.0},
            *({}, network),
            "agent.v_min=2.5 is the lowest return and agent.v_max=1.0 the highest: lower the one or raise the other",
        ),
        ({}, {}, {**network, "critic": critic}, r"network.critic.hidden_sizes=\[4, 0\] .* it must be at least 1"),
    ]:
        with pytest.raises(UserError, match=message):
            check_declared({"agent": agent, "optimizer": optimizer, "network": networks})


def test_settings_are_compared_with_the_defaults_of_the_user_s_own_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_critics.py").write_text(
        "from note_rl.agents.pytorch import SAC\n"
        "from note_rl.support.setting_fields import setting\n"
        "TEN = 10\n"
        "class Ten(SAC):\n"
        "    num_critics: int = 10\n"
        "class OfTen(Ten):\n"
        "    pass\n"
        "class Four(Ten):\n"
        "    num_critics: int = setting(default=4)\n"
        "class WorkedOut(SAC):\n"
        "    num_critics: int = setting(TEN)\n"
        "class Named(SAC):\n"
        "    num_critics: int = TEN\n"
        "class ByMethod(SAC):\n"
        "    def __init__(self, **options):\n"
        "        super().__init__(num_critics=10, **options)\n"
        "class OwnCheck(SAC):\n"
        "    @classmethod\n"
        "    def check_together(cls, given):\n"
        "        ...\n"
        "class Assigned(SAC):\n"
        "    __init__ = ten_init\n"
        "class Perhaps(SAC):\n"
        "    if True:\n"
        "        num_critics: int = 10\n"
        "class Constant(SAC):\n"
        "    num_critics = 10\n"
    )
    network = {"_target_": "note_rl.agents.pytorch.networks.MLP"}

    def check(name: str) -> None:
        agent = {"_target_": f"my_critics.{name}", "num_target_critics": 5}
        check_declared({"agent": agent, "optimizer": {}, "network": network})

    for name in ("Ten", "OfTen", "WorkedOut", "Named", "ByMethod", "OwnCheck", "Assigned", "Perhaps"):
        check(name)
    for name, number in (("Four", 4), ("Constant", 2)):  # a constant without annotation is no setting
        with pytest.raises(UserError, match=rf"num_target_critics=5 .* at most the number of critics, {number}"):
            check(name)
