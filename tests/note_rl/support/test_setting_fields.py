"""Each setting is described once: from there come defaults, checks, help, the arguments of set() and the table."""

import re
from dataclasses import dataclass

import pytest

from note_rl.errors import SettingsError
from note_rl.policy import GreedyQPolicy, SoftmaxPolicy
from note_rl.settings import Hindsight, Priority, ReplaySettings, RolloutPriority, RolloutSettings, Settings
from note_rl.settings.set_arguments import settings_from_set
from note_rl.settings.settings_table import ALL, COMMON, REPLAY, ROLLOUT, arguments_of_set, as_table, manual_names
from note_rl.support.setting_fields import Field, check_fields, documented, fields_of, like, setting
from note_rl.support.value_kinds import Count, Number, OneOf, count_or_rollout, flag
from note_rl.training.agent import Agent
from note_rl.training.train_options import TrainOptions


@documented
@dataclass(frozen=True, kw_only=True)
class Oven:
    """Bakes."""

    heat: int = setting(180, Count(50), manual="temperature", text="Degrees.")
    minutes: float | None = setting(None, Number(0.0, above=True), text="Time; None: till done.")
    racks: dict[str, int] = setting(dict, manual=None, text="What lies where.")

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Grill:
    heat: int = like(Oven, "heat")


def test_a_field_knows_all_that_was_said_of_it():
    heat, minutes, racks = fields_of(Oven)
    assert heat == Field(
        name="heat", manual_name="temperature", kind=Count(50), default=180, text="Degrees.", part="Oven"
    )
    assert [one.manual_name for one in (minutes, racks)] == ["minutes", None]
    assert [one.range for one in (heat, minutes, racks)] == ["a whole number, at least 50", "above 0", ""]
    assert [one.default_in_words for one in (heat, minutes, racks)] == ["180", "till done", "{}"]
    assert Field(name="many", default=12_000, text="").default_in_words == "12,000"
    assert (fields_of(Grill)[0].kind, Grill().heat) == (heat.kind, 180)
    assert Oven.__doc__ == (
        "Bakes.\n\nAttributes:\n    heat: Degrees.\n    minutes: Time; None: till done.\n    racks: What lies where."
    )


def test_a_dataclass_is_checked_by_the_kinds_of_its_fields():
    oven = Oven(heat=200.0)
    assert (repr(oven.heat), oven.minutes, oven.racks) == ("200", None, {})
    assert oven.racks is not Oven().racks
    with pytest.raises(SettingsError, match=r"^heat must be at least 50, got 20$"):
        Oven(heat=20)
    with pytest.raises(SettingsError, match=r"^minutes must be above 0, got 0$"):
        Oven(minutes=0)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Number(), "any number"),
        (Number(0.0), "at least 0"),
        (Number(0.0, 1.0), "from 0 to 1"),
        (Number(0.0, 1.0, above=True), "above 0 to 1"),
        (OneOf(("one", "two", "three")), "one, two or three"),
        (flag, "True or False"),
    ],
)
def test_ranges_in_words(kind, words):
    assert kind.range == words


def test_every_argument_of_set_is_written_about_where_it_is_typed():
    text = str(Agent.set.__doc__)
    words = set(re.findall(r"\w+", text))
    assert [name for name in arguments_of_set() if name not in words] == []
    for one in (*REPLAY, *ROLLOUT):
        if isinstance(one.default, int) and one.default > 1:
            assert f"({one.default_in_words})" in text, one.manual_name


def test_one_set_of_defaults():
    """The settings of set() without arguments are those of the dataclasses by themselves."""
    nothing = settings_from_set(policy=GreedyQPolicy())
    assert nothing == Settings(experience=ReplaySettings(), policy=nothing.policy)
    assert settings_from_set(policy=SoftmaxPolicy(), PPO=True).experience == RolloutSettings()
    assert settings_from_set(policy=GreedyQPolicy(), PR=True, HER=True).experience == ReplaySettings(
        priority=Priority(), hindsight=Hindsight()
    )
    assert settings_from_set(policy=SoftmaxPolicy(), PPO=True, PR=True).experience.priority == RolloutPriority()


def test_numbers_that_two_classes_share_are_one():
    shared = {}
    for one in ALL:
        if one.manual_name is not None and isinstance(one.default, int | float):
            kind = Count() if one.kind is count_or_rollout else one.kind  # the word is for rollouts only
            shared.setdefault(one.manual_name, set()).add((repr(one.default), kind))
    assert {name: found for name, found in shared.items() if len(found) > 1} == {}


NUMBER = {"max_grad_norm": 2, "seed": 3, "criterion": 1.0, "trial_count": 3, "pool_size": 200}


@pytest.mark.parametrize("name", [name for name in manual_names(REPLAY) if name not in manual_names(ROLLOUT)])
def test_what_belongs_to_replay_is_refused_on_policy(name, caplog):
    value = NUMBER.get(name, "mine" if name == "dataset" else True if name in ("HER", "TRL", "offline") else 1)
    told = {"policy": SoftmaxPolicy(), "PPO": True, name: value}
    if name == "pool_size":
        assert settings_from_set(**told).experience == RolloutSettings()
    elif name == "num_updates":  # as in manual 000
        assert settings_from_set(**told).experience == RolloutSettings(num_epochs=1)
    else:
        with pytest.raises(SettingsError, match=rf"^{name}={value} .*(PPO=True|gae_lambda)"):
            settings_from_set(**told)


@pytest.mark.parametrize("name", [name for name in manual_names(ROLLOUT) if name not in manual_names(REPLAY)])
def test_what_belongs_to_rollouts_is_refused_with_replay(name):
    with pytest.raises(SettingsError, match=rf"^{name}=1? ?.*belongs to on-policy training; add PPO=True"):
        settings_from_set(**{"policy": GreedyQPolicy(), name: 0 if name == "initial_ratio" else 1})


def test_the_table_has_every_setting_with_words_for_it():
    rows = as_table()
    by_place = {(part, name): (manual, default, values, text) for part, name, manual, default, values, text in rows}
    assert by_place["ReplaySettings", "capacity"] == (
        "pool_size",
        "10,000",
        "a whole number, at least 1",
        "Transitions kept, all environments together.",
    )
    assert by_place["RolloutSettings", "num_steps"][:2] == ("rollout_steps", "2,048")
    assert by_place["ReplaySettings", "train_freq"][:2] == ("train_freq", "one episode")
    assert by_place["ReplaySettings", "priority"][2].startswith("True, False, Priority(...)")
    assert by_place["Hindsight", "strategy"][:3] == ("", "future", "future, final or episode")
    assert len(by_place) == len(rows) == len(ALL)
    assert {one.manual_name for one in (*COMMON, *REPLAY, *ROLLOUT)} <= {row[2] for row in rows}
    for part, name, _, default, _, text in (*rows, *as_table(fields_of(TrainOptions))):
        assert default != "None" or name in ("policy", "noise"), f"{part}.{name}: what does None mean?"
        assert text.endswith("."), f"{part}.{name}"
