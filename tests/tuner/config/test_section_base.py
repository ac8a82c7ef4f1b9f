"""A group of settings is a dataclass that refuses what is out of range, with paths."""

import math
from dataclasses import dataclass
from typing import Any

import pytest

from note_rl.support.setting_fields import like, setting
from note_rl.support.value_kinds import Count, Number
from tuner.config.section_base import Named, Section
from tuner.config.signatures import Argument, signature_of
from tuner.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Engine(Section, path="car.engine"):
    power: int = setting(kind=Count(1, 500, hint=": no road takes more"))
    share: float | None = setting(None, Number(0.0, 1.0))
    log: Any = setting(None, Named("the name of a file", "/."))


@dataclass(frozen=True, kw_only=True)
class Turbo(Engine):
    power: int = like(Engine, "power", 100)
    boost: int = setting(2, Count())


@dataclass(frozen=True)
class Top(Section):
    seed: int = setting(0, Count(0))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: Engine(power=501),
            "car.engine.power=501 is not possible: it must be from 1 to 500: no road",
        ),
        (lambda: Engine(power=1.5), "car.engine.power=1.5 is not possible: it must be a whole number"),
        (lambda: Engine(power=1, share=math.nan), "car.engine.share=nan is not possible: it must be a finite number"),
        (lambda: Engine(power=1, log="./"), "car.engine.log=./ is not possible: it must be the name of a file"),
        (lambda: Engine(power=1, log=["a", "b\0"]), "car.engine.log=['a', 'b\\x00'] is not possible: it must be"),
        (lambda: Turbo(boost=0), "car.engine.boost=0 is not possible: it must be at least 1"),
        (lambda: Top(-1), "seed=-1 is not possible: it must be at least 0"),
    ],
)
def test_a_value_out_of_range_is_named_by_its_path(make: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        make()
    assert str(caught.value).startswith(said)


def test_values_are_kept_as_they_are_meant() -> None:
    engine = Engine(power=1e2, share=1, log=True)  # type: ignore[arg-type]
    assert type(engine.power) is int
    assert engine == Engine(power=100, share=1, log=True)
    assert engine.typed("share") == "car.engine.share=1"
    assert Top(3).typed("seed") == "seed=3"


def test_the_keys_of_a_group_are_its_fields_those_of_its_base_class_included() -> None:
    signature = signature_of(f"{__name__}.Turbo")
    assert signature is not None
    assert {name: one.required for name, one in signature.parameters.items()} == {
        "power": False,
        "share": False,
        "log": False,
        "boost": False,
    }
    own = signature_of(f"{__name__}.Engine")
    assert own is not None
    assert own.parameters["power"] == Argument("int", required=True)
