"""Arguments of an agent are declared once, for both frameworks: constructor, checks and help are made of them."""

import copy
import importlib
import inspect
import pkgutil
import subprocess
import sys
from dataclasses import InitVar

import cloudpickle
import gymnasium
import pytest

import note_rl.agents
from note_rl.agents.declaration import AgentSettings, Given, arguments_of, settings_of
from note_rl.agents.dqn import DQNSettings
from note_rl.errors import SettingsError
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import POSITIVE, SHARE, Count
from tests.note_rl.frameworks import frameworks

BOTH = pytest.mark.parametrize("framework", frameworks())
AGENTS = [
    *("A2C", "ACER", "BC", "DDPG", "DQN", "GAIL", "MADDPG", "PPO", "SAC", "TD3", "TRPO", "TQC", "CrossQ", "DoubleDQN"),
    *("DuelingDQN", "SACDiscrete", "AlphaZero", "R2D2"),
]


class Bread(AgentSettings):
    """Bakes."""

    flour: int = setting(default=500, kind=Count(), text="Grams.", kw_only=False)
    salt: float = setting(default=0.02, kind=SHARE, text="Share.", effect="higher: saltier", typical="0.01 to 0.03")
    tin: InitVar[str | None] = setting(default=None, text="To bake in.")
    made_in = ""

    def make_networks(self, given: Given) -> None:
        self.made_in = given.tin


class Roll(Bread):
    salt: float = 0.01
    tin: InitVar[str | None] = setting(init=False)
    seeds: str = setting(text="On top.")


def mellow(framework):
    class Mellow(framework.agents.DQN):
        """Soft."""

        omega: float = setting(
            default=10.0, kind=POSITIVE, text="How hard.", effect="higher: harder", typical="1 to 100"
        )

    return Mellow


def test_settings_are_checked_and_become_attributes_but_for_those_of_the_networks_alone():
    bread = Bread(1e3, salt=1, tin="long")
    assert vars(bread) == {"flour": 1000, "salt": 1, "made_in": "long"}
    assert str(inspect.signature(Bread)) == "(flour: int = 500, *, salt: float = 0.02, tin: str | None = None)"
    assert inspect.getdoc(Bread) == (
        "Bakes.\n\nArgs:\n    flour: Grams.\n    salt: Share. Higher: saltier. Usually 0.01 to 0.03.\n    "
        "tin: To bake in."
    )
    for arguments, message in [
        ({"salt": 2}, r"^salt must lie between 0 and 1, got 2$"),
        ({"salt": None}, r"^salt must be a finite number, got None$"),
        ({"flour": 0.5}, r"^flour must be a whole number, got 0.5$"),
        ({"slat": 0.1}, r"^Bread\(\) has no argument 'slat'; did you mean salt\?$"),
    ]:
        with pytest.raises(SettingsError, match=message):
            Bread(**arguments)
    with pytest.raises(SettingsError, match=r"^Bread\(\): too many positional arguments$"):
        Bread(1, 0.1)


def test_a_subclass_gives_another_default_takes_a_setting_out_and_adds_one():
    assert str(inspect.signature(Roll)) == "(flour: int = 500, *, salt: float = 0.01, seeds: str)"
    roll = Roll(seeds="poppy")
    assert (roll.salt, roll.seeds, roll.made_in) == (0.01, "poppy", None)
    assert arguments_of(Roll)["salt"].field.kind is SHARE
    with pytest.raises(SettingsError, match=r"^Roll\(\): missing a required"):
        Roll()
    with pytest.raises(SettingsError, match="has no argument 'tin'"):
        Roll(seeds="", tin="round")


def test_a_constructor_of_a_user_between_declarations_stays_and_hands_on():
    class Shop(Bread):
        def __init__(self, price, **options):
            super().__init__(**options)
            self.price = price

    class Stall(Shop):
        colour: str = setting(default="red", text="Of the awning.")

    stall = Stall(3, colour="blue", salt=0.1)
    assert (stall.price, stall.colour, stall.salt, Stall(3).colour) == (3, "blue", 0.1, "red")


@BOTH
@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_takes_what_it_declares_and_says_what_it_is(framework, name):
    kind = getattr(framework.agents, name)
    taken = settings_of(kind)
    assert [one.name for one in taken] == list(inspect.signature(kind).parameters)
    assert all(one.text for one in taken)
    numbers = [one for one in taken if isinstance(one.default, int | float) and not isinstance(one.default, bool)]
    assert all(one.kind and one.effect and one.typical for one in numbers)
    doc = inspect.getdoc(kind)
    assert all(f"    {one.name}: {one.text[:20]}" in doc for one in taken)


@BOTH
def test_a_setting_that_a_user_declares_is_taken_checked_and_documented(framework):
    kind = mellow(framework)
    agent = kind(4, 8, 2, omega=3, gamma=0.9)
    assert (agent.omega, agent.gamma, kind(4, 8, 2).omega) == (3, 0.9, 10.0)
    assert list(inspect.signature(kind).parameters)[-1] == "omega"
    assert "omega: How hard. Higher: harder. Usually 1 to 100." in kind.__doc__
    with pytest.raises(SettingsError, match=r"^omega must be above 0, got 0$"):
        kind(4, 8, 2, omega=0)


@BOTH
def test_agents_of_such_a_class_are_copied_pickled_and_made_again(framework):
    agent = mellow(framework)(4, 8, 2, omega=3)
    again = [copy.deepcopy(agent), agent.recipe.make(), cloudpickle.loads(cloudpickle.dumps(agent.recipe)).make()]
    assert [(one.omega, one.gamma) for one in again] == [(3, 0.99)] * 3
    assert [parameter.shape for parameter in framework.parameters(again[2])] == [
        parameter.shape for parameter in framework.parameters(agent)
    ]


@BOTH
def test_what_a_constructor_refuses_names_argument_value_and_rule(framework):
    agents = framework.agents
    for make, message in [
        (lambda: agents.DQN(4, 0, 2), "hidden_size must be at least 1, got 0"),
        (lambda: agents.DQN(4, (8, 2.5), 2), "hidden_size must be a whole number, got 2.5"),
        (lambda: agents.DQN(4, 8, 2, tau=0), "tau must be above 0 and at most 1, got 0"),
        (lambda: agents.PPO(4, 8, 2, clip=-0.1), "clip must be above 0, got -0.1"),
        (lambda: agents.PPO(4, 8, 2, normalise_advantage=1), "normalise_advantage must be True or False, got 1"),
        (lambda: agents.ACER(4, 8, 2, ema_alpha=1), "ema_alpha must be at least 0 and below 1, got 1"),
        (lambda: agents.TRPO(4, 8, 2, fvp_every=0), "fvp_every must be at least 1, got 0"),
        (lambda: agents.BC(4, 8, 2, gamma=0.9), r"BC\(\) has no argument 'gamma'"),
        (lambda: agents.MADDPG(8), r"MADDPG\(\): missing a required .*'env'"),
    ]:
        with pytest.raises(SettingsError, match=message):
            make()


@BOTH
def test_an_environment_by_position_is_answered_with_how_to_give_it(framework):
    made = gymnasium.make("CartPole-v1")
    for kind in (framework.agents.DQN, framework.agents.SAC, framework.agents.PPO):
        with pytest.raises(
            SettingsError, match=rf"^{kind.__name__}: .* by name, {kind.__name__}\(env='CartPole-v1'\)$"
        ):
            kind("CartPole-v1")
        for env in (made, gymnasium.spec("CartPole-v1")):
            with pytest.raises(SettingsError, match=rf"^{kind.__name__}: .* by name, {kind.__name__}\(env=\.\.\.\)$"):
                kind(env)


def test_a_class_whose_first_argument_is_a_text_takes_it():
    class Flavoured(AgentSettings):
        flavour: str = setting(default="plain", text="Of the bread.", kw_only=False)
        env: str = setting(default="CartPole-v1", text="Where it is baked.")
        made_in = ""

    assert Flavoured("sweet").flavour == "sweet"


def test_declarations_import_no_framework():
    packages = [f"note_rl.agents.{one.name}" for one in pkgutil.iter_modules(note_rl.agents.__path__) if one.ispkg]
    declaring = [one for one in packages if one.rpartition(".")[2] not in ("pytorch", "keras")]
    program = f"import sys, {', '.join(declaring)}; print({{'torch', 'tensorflow', 'keras'}} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    assert importlib.import_module("note_rl.agents.dqn").DQNSettings is DQNSettings
    assert len(declaring) == 20


@BOTH
@pytest.mark.parametrize("names", [("network",), ("critic_network",), ("network", "critic_network")])
def test_a_network_function_that_returns_one_object_again_and_again_is_refused(framework, names):
    """The target would be the network itself, and both critics one."""
    made = framework.module("shared/networks").MLP((4,), 2, hidden_sizes=(3,))
    kind = framework.agents.SACDiscrete if len(names) == 1 else framework.agents.PPO
    with pytest.raises(SettingsError, match=f"^{names[-1]} has to make another network.*the same MLP twice"):
        kind(env="CartPole-v1", **dict.fromkeys(names, lambda shape, outputs: made))
