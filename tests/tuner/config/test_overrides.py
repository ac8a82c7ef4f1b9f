"""Overrides for another program reach it as they were typed."""

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from tuner.config.overrides import quoted_texts


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("training.total_steps=30k", "training.total_steps=30000"),
        ("training.total_steps=1.5M", "training.total_steps=1500000"),
        ("training.total_steps=5k,0.25k", "training.total_steps=5000,250"),
        ("study.max_env_steps=2M", "study.max_env_steps=2000000"),
        ("training.total_steps=30K", "training.total_steps=30000"),
        ("training.total_steps=.5M", "training.total_steps=500000"),
        ("training.total_steps='30k'", "training.total_steps=30000"),
        ("training.total_steps=30kk", "training.total_steps=30kk"),
        ("study.name=30k", "study.name=30k"),
    ],
)
def test_numbers_of_steps_may_be_short(typed: str, meant: str) -> None:
    assert quoted_texts([typed]) == [meant]


@pytest.mark.parametrize(
    "value",
    [
        "python x.py --lr {lr} --seed {seed}",
        "python x.py 'two words' \"{lr}\"",
        r"step=(?P<step>\d+),? return: (?P<value>\S+)\\",
        "bash -c 'a=$HOME; b | c'",
        "1e5",
        "true",
        "[a, b]",
    ],
)
@pytest.mark.parametrize("key", ["agent.command", "agent.pattern", "+agent.resume_flag"])
def test_any_characters_stay_what_they_are(key: str, value: str) -> None:
    (quoted,) = quoted_texts([f"{key}={value}"])
    (override,) = OverridesParser.create().parse_overrides([quoted])
    assert override.value() == value


@pytest.mark.parametrize(
    "typed",
    [
        "agent.command='python x.py'",
        'agent.pattern="a b"',
        "agent.resume_flag=null",
        "agent.lr=1",
        "~agent.command",
        "seed=1,2",
    ],
)
def test_what_is_quoted_or_something_else_is_left_alone(typed: str) -> None:
    assert quoted_texts([typed]) == [typed]
